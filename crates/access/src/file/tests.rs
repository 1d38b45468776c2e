//! Files that are right, and mistakes with their lines.

use super::*;

fn problems(text: &str) -> String {
    AccessFile::parse("access.toml", text).expect_err("a mistake").to_string()
}

#[test]
fn a_file_has_groups_and_rules_in_order() {
    let text = r#"
default = "deny"

[groups]
staff = ["alice", "bob"]
contractors = []

[[rule]]
who = "@staff"
may-reach = ["lan", "internet", "clients"]

[[rule]]
who = ["@contractors", "carol"]
may-reach = ["192.168.1.10", "fd00::/64"]
ports = [443, "8000-8100"]

[[rule]]
who = "any"
may-not-reach = "any"
protocol = ["icmp", 47, "tcp"]
"#;
    let file = AccessFile::parse("access.toml", text).unwrap();
    assert_eq!(file.default, Action::Deny);
    assert_eq!(file.groups["staff"], ["alice", "bob"]);
    assert!(file.groups["contractors"].is_empty());
    let lines: Vec<usize> = file.rules.iter().map(|rule| rule.line).collect();
    assert_eq!(lines, [8, 12, 17]);
    let [first, second, third] = &file.rules[..] else { panic!("three") };
    assert_eq!(first.to, [Place::Lan, Place::Internet, Place::Clients]);
    assert_eq!(second.from, [Place::Group("contractors".into()), Place::Name("carol".into())]);
    let networks = ["192.168.1.10/32", "fd00::/64"].map(|net| Place::Network(net.parse().unwrap()));
    assert_eq!(second.to, networks);
    assert_eq!((second.action, &second.ports[..]), (Action::Allow, &[443..=443, 8000..=8100][..]));
    assert_eq!(second.protocols, [RuleProtocol::Tcp, RuleProtocol::Udp], "those that have ports");
    assert_eq!((third.action, &third.from[..]), (Action::Deny, &[Place::Any][..]));
    assert_eq!(third.protocols, [RuleProtocol::Icmp, RuleProtocol::Number(47), RuleProtocol::Tcp]);
}

#[test]
fn a_mistake_has_its_line_and_what_would_be_right() {
    let rule = "default = \"deny\"\n[groups]\nstaff = []\n[[rule]]\n";
    for (text, expected) in [
        (
            "",
            "access.toml:1: what becomes of packets that no rule matches is not said: write default = \"allow\"",
        ),
        ("default = \"maybe\"", "access.toml:1: default = `\"maybe\"`: \"allow\" or \"deny\" is needed"),
        ("default = \"deny\"\nrules = 1", "access.toml:2: `rules` is not known: there are `default`"),
        ("default = \"deny\"\nrule = 1", "access.toml:2: a rule begins with [[rule]]"),
        ("default = \"deny\"\n[rule]\nwho = \"any\"", "access.toml:2: a rule begins with [[rule]]"),
        ("default = \"deny\"\ngroups = 1", "access.toml:2: groups: a table is needed"),
        (
            "default = \"deny\"\n[groups]\nstaff = [1]",
            "access.toml:3: `1` is not understood: write staff = [",
        ),
        ("default = \"deny\"\nwho = [", "access.toml:2:"),
        (
            &format!("{rule}who = \"@staf\"\nmay-reach = \"lan\""),
            "access.toml:5: @staf is no group of this file: [groups] has @staff",
        ),
        (&format!("{rule}who = \"any\""), "access.toml:4: the rule has 0 of may-reach and may-not-reach"),
        (&format!("{rule}may-reach = \"lan\""), "access.toml:4: the rule does not say who"),
        (
            &format!("{rule}who = \"any\"\nmay-reach = \"10.0.0.0/33\""),
            "access.toml:6: `\"10.0.0.0/33\"` is not understood",
        ),
        (
            &format!("{rule}who = \"any\"\nmay-reach = \"any\"\nports = \"80-\""),
            "access.toml:7: `\"80-\"` is not understood: write [443, ",
        ),
        (
            &format!("{rule}who = \"any\"\nmay-reach = \"any\"\nports = [65536]"),
            "access.toml:7: `65536` is not understood",
        ),
        (
            &format!("{rule}who = \"any\"\nmay-reach = \"any\"\nports = [\"9-8\"]"),
            "access.toml:7: `\"9-8\"` is not understood",
        ),
        (
            &format!("{rule}who = \"any\"\nmay-reach = \"any\"\nprotocol = \"ip\""),
            "access.toml:7: `\"ip\"` is not understood: write \"tcp\"",
        ),
        (
            &format!("{rule}who = \"any\"\nmay-reach = \"any\"\nprotocol = \"icmp\"\nports = 1"),
            "access.toml:4: ports are of tcp and udp",
        ),
        (
            &format!("{rule}who = \"any\"\nmay-reach = \"any\"\nports = []"),
            "access.toml:7: an empty list is not understood",
        ),
        (
            &format!("{rule}who = \"any\"\nmay-reach = \"any\"\nport = 1"),
            "access.toml:7: `port` is not known: a rule has",
        ),
    ] {
        let found = problems(text);
        assert!(found.starts_with(expected), "{text}\n{found}");
    }
}

#[test]
fn all_mistakes_are_found_in_the_order_of_their_lines() {
    let text = "default = 1\n[[rule]]\nwho = \"\"\nmay-reach = \"any\"\nports = \"x\"\n";
    let lines: Vec<usize> =
        AccessFile::parse("f", text).unwrap_err().problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [1, 3, 5]);
}

/// Each example of the page for users can be used.
#[test]
fn the_examples_of_the_page_are_right() {
    let page = include_str!("../../../../docs/use/ACCESS.md");
    let examples: Vec<&str> =
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 6);
    for example in examples {
        let file =
            AccessFile::parse("access.toml", example).unwrap_or_else(|error| panic!("{error}\n{example}"));
        assert!(!file.rules.is_empty());
    }
}

#[test]
fn a_mistake_is_shown_without_characters_that_command_a_terminal() {
    let found = problems("default = \"deny\"\n\"a\\u001b[2J\" = 1");
    assert!(!found.contains('\u{1b}') && found.contains("access.toml:2"), "{found}");
}
