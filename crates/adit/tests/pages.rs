//! The project's pages: every link between them leads to a file and a heading that exist.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use adit_core::configuration::Kind;
use adit_openvpn_config::{Directive, directive, directives};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let pages = pages();
    assert!(pages.len() > 15, "only {} pages were found", pages.len());
    let broken: Vec<String> = pages.iter().flat_map(|page| broken_links(page)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_fuzz_target_has_a_row() {
    let read = |path: &str| std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap();
    let (manifest, page) = (read("fuzz/Cargo.toml"), read("docs/build/FUZZING.md"));
    let (_, targets) = manifest.split_once("[[bin]]").unwrap();
    let names: Vec<&str> = targets.lines().filter_map(|line| line.strip_prefix("name = ")).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let name = name.trim_matches('"');
        // A row of the first table has the input of a target, and the conditions that must hold.
        let has_row = page.lines().any(|line| {
            line.strip_prefix(&format!("| `{name}` | ")).is_some_and(|rest| rest.split(" | ").count() == 2)
        });
        assert!(has_row, "docs/build/FUZZING.md says nothing of {name}");
    }
}

/// Each row of faults of other WireGuards names a test, and each test stands in the file that is named before it.
#[test]
fn every_fault_that_others_met_has_a_test() {
    let page = std::fs::read_to_string(Path::new(ROOT).join("docs/build/WIREGUARD.md")).unwrap();
    let (_, section) = page.split_once("\n## What others met\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = rows_with_their_tests(section, "crates/wireguard/protocol/tests/machine");
    assert!(rows > 30, "only {rows} rows were found");
}

/// Each of the 32 troubles with IPsec names a test, and each test stands in the file that is named before it.
#[test]
fn every_trouble_of_the_field_has_a_test() {
    let page = std::fs::read_to_string(Path::new(ROOT).join("docs/build/IKE-TROUBLES.md")).unwrap();
    assert_eq!(rows_with_their_tests(&page, "crates/ike/protocol/src/machine/tests"), 32);
}

/// Checks that the tests are there which the rows of a table name. Gives the number of rows. `folder` has the files without another one.
fn rows_with_their_tests(text: &str, folder: &str) -> usize {
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let wrong: Vec<String> = rows.iter().flat_map(|row| tests_that_are_missing(row, folder)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    rows.len()
}

/// The faults of the last column of a row: `file.rs`: `test`, `test`; `file.rs`: `test`.
fn tests_that_are_missing(row: &str, folder: &str) -> Vec<String> {
    let column = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
    let (mut wrong, mut tests, mut file, mut text) = (Vec::new(), 0, "", String::new());
    for word in column.split('`').skip(1).step_by(2) {
        if word.ends_with(".rs") {
            let paths = [folder, "crates"].map(|folder| Path::new(ROOT).join(folder).join(word));
            let found = paths.iter().find_map(|path| std::fs::read_to_string(path).ok());
            (file, text) = (word, found.unwrap_or_default());
            if text.is_empty() {
                wrong.push(format!("there is no file {file}"));
            }
            continue;
        }
        tests += 1;
        if !text.contains(&format!("fn {word}(")) {
            wrong.push(format!("{file} has no test {word}"));
        }
    }
    if tests == 0 {
        wrong.push(format!("no test is named: {row}"));
    }
    wrong
}

#[test]
fn what_is_refused_is_in_the_table_of_what_is_missing() {
    let page = std::fs::read_to_string(Path::new(ROOT).join("docs/use/MISSING.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").nth(1));
    let named: BTreeSet<&str> = rows.flat_map(|column| column.split('`').skip(1).step_by(2)).collect();
    let is_missing = |known: &&Directive| known.kind() == Kind::Refused && !known.is_command();
    let refused: BTreeSet<&str> = directives().iter().filter(is_missing).map(|known| known.name).collect();
    let untold: Vec<&&str> = refused.difference(&named).collect();
    assert!(untold.is_empty(), "docs/use/MISSING.md does not name {untold:?}");
    // A directive that has no argument there is missing as a whole.
    let is_used = |name: &&&str| directive(name).is_none_or(|known| known.kind() == Kind::Used);
    let used: Vec<&&str> = named.iter().filter(|name| !name.contains(' ')).filter(is_used).collect();
    assert!(used.is_empty(), "docs/use/MISSING.md names {used:?}, which adit has");
}

/// Each file or folder that the pages of tests and of the architecture name, in full or by the end of its path.
#[test]
fn files_that_pages_name_exist() {
    let mut found = Vec::new();
    for folder in ["crates", "docs", "fuzz", "scripts"] {
        collect(&Path::new(ROOT).join(folder), &mut found);
    }
    let paths: Vec<String> = found.iter().map(|path| format!("/{}", path.display())).collect();
    for page in ["docs/build/TESTS.md", "docs/build/ARCHITECTURE.md"] {
        let text = std::fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
        let named: Vec<&str> =
            text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).filter(is_path).collect();
        assert!(named.len() > 20, "{page} names {named:?} alone");
        let is_there = |name: &&&str| {
            paths.iter().any(|path| path.ends_with(&format!("/{}", name.trim_end_matches('/'))))
        };
        let missing: Vec<&&str> = named.iter().filter(|name| !is_there(name)).collect();
        assert!(missing.is_empty(), "{page} names {missing:?}");
    }
}

/// Whether the text between backticks is a path, and neither code nor a pattern.
fn is_path(text: &&str) -> bool {
    (text.ends_with(".rs") || text.contains('/')) && !text.contains([' ', '*', '<', ':', '(', '='])
}

/// All that is below a folder.
fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        }
        found.push(path);
    }
}

/// The pages beside the README, and those below `docs`.
fn pages() -> Vec<PathBuf> {
    let folders = ["", "docs/use", "docs/measure", "docs/measure/results", "docs/build"];
    let folders = folders.map(|folder| Path::new(ROOT).join(folder));
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

fn broken_links(page: &Path) -> Vec<String> {
    let text = prose(&std::fs::read_to_string(page).unwrap());
    let broken = links(&text).into_iter().filter(|link| !resolves(page, link));
    broken.map(|link| format!("{}: {link}", page.display())).collect()
}

/// The text without code: without blocks, and without the text between backticks.
fn prose(text: &str) -> String {
    let mut code = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        } else if !code {
            line.split('`').step_by(2).for_each(|part| kept += part);
            kept.push('\n');
        }
    }
    kept
}

/// The targets of `[…](target)`.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).filter(|target| !target.contains("://")).collect()
}

fn resolves(page: &Path, link: &str) -> bool {
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => page.to_owned(),
        file => page.with_file_name(file),
    };
    target.exists() && (heading.is_empty() || headings(&target).contains(heading))
}

/// The names that hosts of repositories give headings: in lower case, blanks as hyphens, without punctuation.
fn headings(page: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(page).unwrap_or_default();
    let titles = text.lines().filter(|line| line.starts_with('#'));
    titles.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|&character| character.is_alphanumeric() || " -_".contains(character));
    kept.map(|character| if character == ' ' { '-' } else { character }).collect::<String>().to_lowercase()
}

#[test]
fn anchors_are_those_of_the_hosts() {
    assert_eq!(anchor("What `adit up` does, and why"), "what-adit-up-does-and-why");
    let text = prose("[a](b.md#c) `[x](y)`\n```\n[q](r)\n```\n[d](https://e) [f](g)");
    assert_eq!(links(&text), ["b.md#c", "g"]);
}
