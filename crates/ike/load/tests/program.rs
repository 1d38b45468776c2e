//! The output of the program.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_adit-load-ike")).args(arguments).output().unwrap()
}

#[test]
fn requests_are_written_line_by_line() {
    let text = String::from_utf8(run(&["datagrams"]).stdout).unwrap();
    let kinds: Vec<&str> = text.lines().map(|line| line.split_once(": ").unwrap().0).collect();
    let named: BTreeSet<&&str> = kinds.iter().collect();
    assert_eq!((kinds.len(), named.len()), (4 * 256, 4), "{named:?}");
}

#[test]
fn a_folder_without_an_authority_is_refused_by_the_name_of_its_file() {
    let arguments = ["initiators", "127.0.0.1", "--count", "1", "--certificates", "/nonexistent"];
    let refused = run(&arguments);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success(), "{error}");
    assert!(error.starts_with("adit-load-ike: /nonexistent/x509ca/authority.pem: "), "{error}");
}
