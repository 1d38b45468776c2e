//! The project's pages name commands and options of `adit` that exist.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use adit_openvpn_config::directive;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Pages of the past, which may name options that are gone.
const HISTORIES: [&str; 2] = ["CHANGELOG.md", "PERFORMANCE-DIARY.md"];

#[test]
fn commands_and_options_that_pages_name_exist() {
    let program = adit::manual::programs().into_iter().map(|program| program.command);
    let program = program.into_iter().find(|command| command.get_name() == "adit").unwrap();
    let (mut calls, mut wrong) = (0, Vec::new());
    for page in pages(Path::new(ROOT)) {
        let text = std::fs::read_to_string(&page).unwrap();
        for call in code(&text).iter().filter_map(|code| words_of_call(code)) {
            calls += 1;
            let faults = faults(&program, &call);
            wrong.extend(faults.iter().map(|fault| format!("{}: {fault}: {call:?}", page.display())));
        }
    }
    assert!(calls > 150, "only {calls} calls were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_command_or_option_that_does_not_exist_is_found() {
    let program = adit::manual::programs().into_iter().next().unwrap().command;
    let faults = |code: &str| faults(&program, &words_of_call(code).unwrap()).len();
    assert_eq!(faults("sudo adit up --no-sandbox x.conf"), 0);
    assert_eq!(faults("adit up --sandbox=no x.conf"), 1);
    assert_eq!(faults("adit start x.conf"), 1);
    assert_eq!(faults("adit openvpn --dev tun --config x.conf"), 0);
    assert_eq!(faults("adit openvpn --device tun"), 1);
    assert!(words_of_call("adit-lab run x").is_none() && words_of_call("adit").is_none());
}

/// The problems of a call: the words behind the program's name.
fn faults(program: &clap::Command, call: &[String]) -> Vec<String> {
    let Some(command) = program.find_subcommand(&call[0]) else {
        return vec![format!("adit has no command `{}`", call[0])];
    };
    let is_openvpn = command.get_name() == "openvpn";
    let exists = |option: &str| {
        ["help", "version"].contains(&option)
            || command.get_arguments().any(|known| known.get_long() == Some(option))
            || is_openvpn && directive(option).is_some()
    };
    let options = call.iter().filter_map(|word| word.strip_prefix("--")).filter(|option| !option.is_empty());
    options.filter(|option| !exists(option)).map(|option| format!("no option `--{option}`")).collect()
}

/// The words behind `adit` in a piece of code that begins with it, up to the end of the command; options without their values.
/// `None` if it is no call, or of a command whose name is left open.
fn words_of_call(code: &str) -> Option<Vec<String>> {
    let end = code.find(['#', '|', ';', '>', '&']).unwrap_or(code.len());
    let mut words = code[..end].split_whitespace().skip_while(|word| *word == "sudo" || word.contains('='));
    let program = words.next()?;
    if program.rsplit('/').next() != Some("adit") {
        return None;
    }
    let words: Vec<String> = words.map(plain).collect();
    let command = words.first()?;
    command.starts_with(|first: char| first.is_ascii_lowercase()).then_some(words)
}

/// A word without brackets and dots around it, and without the value of an option.
fn plain(word: &str) -> String {
    let word = word.trim_matches(['[', ']', '(', ')', '…', ',', '.', '\'', '"', '\\']);
    let end = word.find(|part: char| !part.is_ascii_alphanumeric() && part != '-').unwrap_or(word.len());
    if word.starts_with("--") { word[..end].to_owned() } else { word.to_owned() }
}

/// The pieces of code of a page: lines of blocks, and text between backticks.
fn code(text: &str) -> Vec<&str> {
    let (mut in_block, mut found) = (false, Vec::new());
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block || line.starts_with("    ") {
            found.push(line.trim());
        } else {
            found.extend(line.split('`').skip(1).step_by(2));
        }
    }
    found
}

/// The pages in a folder, and below its `docs`.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.join("docs")]);
    found.extend(in_folder(folder).filter(|path| path.is_file()));
    while let Some(folder) = folders.pop() {
        for path in in_folder(&folder) {
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    let is_page = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.ends_with(".md") && !HISTORIES.contains(&&*name)
    };
    found.retain(is_page);
    found
}

fn in_folder(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())
}
