//! The pages and completions that [`adit_manual`] makes.

use std::process::{Command as Program, Stdio};

use adit_testbed::{Scratch, can_run, program};

use adit_manual::{Files, files, write};
use adit_openvpn_config::directives;

fn pages() -> Files {
    let is_page = |(path, _): &(std::path::PathBuf, Vec<u8>)| path.starts_with("man");
    files().unwrap().into_iter().filter(is_page).collect()
}

/// Runs it, and gives its exit code and its output.
fn run(mut program: Program) -> (Option<i32>, String) {
    let output = program.stdin(Stdio::null()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn each_command_has_a_page() {
    let pages: Vec<String> = pages().keys().map(|path| path.display().to_string()).collect();
    for name in [
        "adit.1",
        "adit-up.1",
        "adit-init.1",
        "adit-check.1",
        "adit-adopt.1",
        "adit-wireguard.8",
        "adit-openvpn.8",
    ] {
        assert!(pages.contains(&format!("man/{name}")), "{name}: {pages:?}");
    }
    for name in ["adit-helper.1", "adit-demo.1", "adit-help.1", "adit-wireguard.1", "adit-openvpn.1"] {
        assert!(!pages.contains(&format!("man/{name}")), "{name}: {pages:?}");
    }
}

#[test]
fn each_page_has_its_parts() {
    for (path, text) in pages() {
        let (name, text) = (path.display(), String::from_utf8(text).unwrap());
        let heads: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
        assert_eq!(heads[..3], ["NAME", "SYNOPSIS", "DESCRIPTION"], "{name}");
        assert_eq!(heads.last(), Some(&"\"SEE ALSO\""), "{name}");
        assert_eq!(text.lines().filter(|line| line.starts_with(".TH ")).count(), 1, "{name}");
    }
}

#[test]
fn pages_refer_to_pages_that_exist() {
    let pages = pages();
    let mut references = 0;
    for (path, text) in &pages {
        let text = String::from_utf8_lossy(text).replace("\\fB", "").replace("\\fR", "").replace('\\', "");
        // `*(Aq` is an apostrophe.
        let is_reference =
            |word: &&str| word.starts_with("adit") && word.contains('(') && !word.contains("*(");
        for word in text.split([' ', '\n']).filter(is_reference) {
            let (name, section) = word.trim_end_matches([',', '.']).split_once('(').unwrap();
            let file = format!("man/{name}.{}", section.trim_end_matches(')'));
            assert!(pages.contains_key(std::path::Path::new(&file)), "{}: {word}", path.display());
            references += 1;
        }
    }
    assert!(references > 20, "{references} references");
}

/// `man` renders them without a warning, and indexes them by their names.
#[test]
fn man_reads_them() {
    if !can_run("manual pages", &["man", "lexgrog"]) {
        return;
    }
    let scratch = Scratch::create("manual").unwrap();
    for (path, text) in pages() {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let file = scratch.write(&name, &String::from_utf8(text).unwrap()).unwrap();
        let mut man = program("man").unwrap();
        man.args(["--warnings", "-E", "UTF-8", "-Tutf8", "-Z", "-l"]).arg(&file).env("MANWIDTH", "80");
        let warnings = man.stdin(Stdio::null()).stdout(Stdio::null()).output().unwrap().stderr;
        assert!(warnings.is_empty(), "{name}: {}", String::from_utf8_lossy(&warnings));
        let mut lexgrog = program("lexgrog").unwrap();
        lexgrog.arg(&file);
        let (code, said) = run(lexgrog);
        assert!(code == Some(0) && said.contains(name.split('.').next().unwrap()), "{name}: {said}");
    }
}

#[test]
fn bash_completes_commands_and_options() {
    if !can_run("completions", &["bash"]) {
        return;
    }
    let scratch = Scratch::create("completions").unwrap();
    let text = files().unwrap().remove(std::path::Path::new("bash/adit")).unwrap();
    let file = scratch.write("adit", &String::from_utf8(text).unwrap()).unwrap();
    let complete = |words: &[&str]| {
        let mut bash = program("bash").unwrap();
        let script = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                      _adit adit \"${COMP_WORDS[COMP_CWORD]}\" \"\"; echo \"${COMPREPLY[@]}\"";
        bash.args(["--norc", "-c", script, "bash"]).arg(&file).args(words);
        run(bash).1
    };
    assert_eq!(complete(&["adit", "che"]), "check\n");
    assert_eq!(complete(&["adit", "up", "--kill"]), "--kill-switch\n");
    assert!(!complete(&["adit", ""]).contains("helper"), "hidden commands stay hidden");
}

#[test]
fn all_is_written_below_the_directory() {
    let scratch = Scratch::create("written").unwrap();
    let directory = scratch.path().join("new");
    let files = files().unwrap();
    write(&directory, &files).unwrap();
    for (name, text) in files {
        assert_eq!(std::fs::read(directory.join(&name)).unwrap(), text, "{}", name.display());
    }
}

#[test]
fn the_page_of_openvpn_has_every_directive_once() {
    let pages = adit::manual::pages();
    let terms: Vec<&str> = pages[0]
        .parts
        .iter()
        .flat_map(|part| part.entries.iter().filter_map(|(term, _)| term.split(' ').next()))
        .collect();
    for known in directives() {
        let option = format!("--{}", known.name);
        assert_eq!(terms.iter().filter(|term| **term == option).count(), 1, "{option}");
    }
    let refused = pages[0].parts.iter().find(|part| part.title == "REFUSED OPTIONS").unwrap();
    assert!(
        refused.entries.len() > 10 && refused.entries.iter().all(|(_, why)| !why.is_empty()),
        "{refused:?}"
    );
}
