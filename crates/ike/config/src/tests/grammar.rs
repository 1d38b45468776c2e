//! The grammar: what is a name, a value, a section, an include, a reference.

use super::world::{World, config, problems, problems_in};
use crate::is_recognized;

/// The value of `updown` of the only child, which may be any text.
fn value(written: &str) -> Option<String> {
    let text =
        format!("connections {{ a {{ children {{ b {{\n updown = {written}\n mode = tunnel\n}} }} }} }}");
    let config = config(&text);
    config.connections.into_iter().next()?.children.into_iter().next()?.updown
}

#[test]
fn values_are_words_and_quoted_texts() {
    for (written, expected) in [
        ("a b\t  c", Some("a b c")),
        ("a # b", Some("a")),
        ("a#b", Some("a")),
        ("\"a  b # }\" c", Some("a  b # } c")),
        ("\"a\\\"b\\\\c\"", Some("a\"b\\c")),
        ("\"a \\\n  b\"", Some("a   b")),
        ("\"a \\\r\n  b\"", Some("a   b")),
        ("a\"b\"", Some("a b")),
        ("a=b:c,d.{e", Some("a=b:c,d.{e")),
        ("", None),
        ("a\r", Some("a")),
        ("a;", Some("a;")),
    ] {
        assert_eq!(value(written).as_deref(), expected, "{written:?}");
    }
    let tab = "connections { a { children { b { updown = \"a\\tb\" } } } }";
    assert!(problems(tab)[0].contains("`updown`: `a\\tb` has characters that are not printable"));
}

#[test]
fn line_ends_comments_and_marks_of_byte_order_change_nothing() {
    let text = "# comment\nconnections {\n  a # it\n  {\n    mobike\n= no } b { dscp = 101110 }}\n";
    let expected = config(text);
    assert!(!expected.connections[0].mobike && expected.connections[1].dscp == 46);
    assert_eq!(config(&text.replace('\n', "\r\n")), expected);
    assert_eq!(config(&format!("\u{feff}{text}")), expected);
    assert_eq!(config(text.trim_end()), expected);
}

#[test]
fn a_section_that_comes_again_is_taken_together_with_the_first() {
    let text = "connections { a { mobike = no\n encap = yes } }\nconnections { b { } a { mobike = yes } }";
    let config = config(text);
    let names: Vec<&str> = config.connections.iter().map(|connection| connection.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(config.connections[0].mobike && config.connections[0].encap, "the later key counts");
    let report = World::default().parse(text).expect("a good file").report;
    let lines: Vec<String> = report.iter().map(ToString::to_string).collect();
    let again = "/etc/swanctl/swanctl.conf:1: ignored `mobike`: it stands in its section again, on /etc/swanctl/swanctl.conf:3";
    assert_eq!(lines[0], again);
}

#[test]
fn references_give_what_a_section_does_not_have_itself() {
    let text = "\
connections {
  a : defaults, more {
    children { net : nets.wide { start_action = trap } }
    encap =
  }
  b : connections.a { mobike = yes }
}
defaults {
  mobike = no
  encap = yes
  local { auth = psk
          id = one.example.org }
  children { other { } }
}
more { mobike = yes
       dscp = 000001
       local { id = two.example.org } }
nets { wide { remote_ts = 10.0.0.0/8 } }
secrets { ike { secret = x } }
";
    let config = config(text);
    let [a, b] = config.connections.as_slice() else { panic!("{config:?}") };
    assert!(!a.mobike && a.dscp == 1 && !a.encap, "a key without a value hides the inherited one");
    assert!(b.mobike && b.dscp == 1 && b.local == a.local && b.children == a.children);
    let id = crate::values::identity::identity("one.example.org").expect("an identity");
    assert_eq!(a.local[0].id, Some(id), "the first section that has a key decides");
    let names: Vec<&str> = a.children.iter().map(|child| child.name.as_str()).collect();
    assert_eq!(names, ["net", "other"], "own sections come first");
    assert_eq!(
        a.children[0].remote_ts[0],
        crate::values::selector::selector("10.0.0.0/8").expect("a network")
    );
    let report = World::default().parse(text).expect("a good file").report;
    assert_eq!(
        report.iter().filter(|entry| entry.line == 9).count(),
        1,
        "an inherited line is reported once"
    );
}

#[test]
fn references_that_lead_nowhere_or_in_a_circle_are_refused() {
    let error = |text: &str| problems(text).join("\n");
    assert_eq!(
        error("connections {\n a : nothing { } }"),
        "swanctl.conf:2: `nothing` behind `:` is no section of the file"
    );
    let long = "x".repeat(200);
    let deep = format!("connections {{ a : {long}.{long} {{ }} }}\n{long} {{ {long} {{ mobike = no\n}} }}");
    assert!(!config(&deep).connections[0].mobike, "a reference is longer than the names in it");
    let circle = error("connections { x : a { } }\na : b { }\nb : a { }");
    assert!(circle.contains("refers to itself, or to too many sections"), "{circle}");
    assert!(error("connections { a : connections.a { } }").contains("refers to itself"));
    // Each level refers twice to the next: without a limit there would be 2^30 sections.
    let levels: Vec<String> =
        (0..30).map(|level| format!("l{level} : l{0}, l{0} {{ }}", level + 1)).collect();
    let text = format!("connections {{ a : l0 {{ }} }}\n{}\nl30 {{ mobike = no }}", levels.join("\n"));
    assert!(error(&text).contains("refers to itself, or to too many sections"));
}

#[test]
fn includes_are_files_by_patterns_below_the_folder_of_the_file() {
    let world = World::default()
        .with("conf.d/b.conf", "connections { b { mobike = no } }\ninclude more/*")
        .with("conf.d/a.conf", "connections { a { } }")
        .with("conf.d/.hidden.conf", "nonsense")
        .with("conf.d/readme.txt", "nonsense")
        .with("conf.d/more/c", "connections { c { } }")
        .with("/srv/part one.conf", "encap = yes");
    let text = "include conf.d/*.conf\nconnections { d { include \"/srv/part one.conf\"\n} e { include /srv/part\\ one.conf\n} }";
    let parsed = world.parse(text).expect("a good file");
    let names: Vec<&str> =
        parsed.config.connections.iter().map(|connection| connection.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    assert!(parsed.config.connections[3].encap && parsed.config.connections[4].encap);
    let files: Vec<&str> = parsed.report.iter().map(|entry| entry.file.as_str()).collect();
    assert_eq!(files, ["/etc/swanctl/conf.d/b.conf", "/srv/part one.conf"]);
    assert!(world.parse("include nothing/*.conf\n").is_ok(), "a pattern may match nothing");
    assert_eq!(
        problems_in(&world, "\ninclude missing.conf\n"),
        ["swanctl.conf:2: missing.conf cannot be read: No such file or directory"]
    );
    let itself = World::default().with("loop.conf", "include loop.conf");
    assert_eq!(
        problems_in(&itself, "include loop.conf"),
        ["loop.conf:1: files include each other more than 16 deep"]
    );
    assert_eq!(problems("include \nx { }"), ["swanctl.conf:1: `include` names no files"]);
    assert!(problems("connections { include = x\n}")[0].contains("`include`: there is no such key here"));
}

#[test]
fn an_error_of_an_included_file_names_that_file() {
    let world = World::default().with("conf.d/a.conf", "connections {\n  a {\n    mobike = perhaps\n  }\n}");
    assert_eq!(
        problems_in(&world, "include conf.d/*"),
        ["conf.d/a.conf:3: `mobike`: `perhaps` is not yes or no"]
    );
    let world = World::default().with("conf.d/a.conf", "connections {\n");
    let expected = "conf.d/a.conf:1: the section that begins here is not closed: a `}` is missing";
    assert_eq!(problems_in(&world, "include conf.d/*\n}"), [expected]);
    let world = World::default().with("conf.d/a.conf", "}");
    assert_eq!(
        problems_in(&world, "connections {\ninclude conf.d/*\n"),
        ["conf.d/a.conf:1: a `}` closes no section"]
    );
}

#[test]
fn errors_of_the_grammar_have_their_line() {
    let long = "x".repeat(256);
    for (text, expected) in [
        ("connections {\n", "1: the section that begins here is not closed: a `}` is missing"),
        ("connections {\n a {\n}\n", "1: the section that begins here is not closed: a `}` is missing"),
        ("connections { }\n}\n", "2: a `}` closes no section"),
        ("connections\n{ a }\n", "2: `a` is neither a key with `=` nor a section with `{`"),
        ("\n\"connections\" { }", "2: a quoted text stands where a key or the name of a section is expected"),
        ("connections { a { updown = \"x\n\n } } }", "1: a quote \" is opened and not closed"),
        ("connections { a : { } }", "1: behind `:` stand names of sections, with commas between them"),
        ("connections { a : b.. { } }", "1: behind `:` stand names of sections, with commas between them"),
        ("connections { a : b c { } }", "1: behind the names of sections after `:` stands a `{`"),
        ("{ }", "1: a `{` stands without the name of a section"),
        ("= a", "1: a `=` stands without a key"),
        ("connections { a.b { } }", "1: `a` is neither a key with `=` nor a section with `{`"),
        (&format!("{long} {{ }}"), "1: a name is 256 bytes long; at most 255 are read"),
        (&"a { ".repeat(33), "1: more than 32 sections are open"),
    ] {
        assert_eq!(problems(text), [format!("swanctl.conf:{expected}")], "{text}");
    }
    assert_eq!(
        problems(b"connections {\n a { updown = \xff }\n}"),
        ["swanctl.conf:2: it is not text (UTF-8)"]
    );
    let utf_16: Vec<u8> = "connections { }".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(problems(utf_16), ["swanctl.conf: this file is in UTF-16; save it as UTF-8"]);
}

#[test]
fn files_of_the_dialect_are_recognized() {
    for text in [
        "connections {\n}",
        "# comment\n\n  secrets\n  {\n",
        "\u{feff}include conf.d/*.conf\n",
        "con-defaults : a.b, c {\n",
        "connections{}",
        "# caf\u{e9}\nconnections { # x",
    ] {
        assert!(is_recognized(text.as_bytes()), "{text}");
    }
    assert!(is_recognized(b"# caf\xe9\nconnections {\n"));
    for text in [
        "",
        "client\nremote a 1194\n",
        "[Interface]\nPrivateKey = {\n",
        "<ca>\n{\n",
        "conn a\n  left=1\n",
        "a = { }",
    ] {
        assert!(!is_recognized(text.as_bytes()), "{text}");
    }
}
