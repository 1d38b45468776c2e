//! The output of the program.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_adit-load-openvpn")).args(arguments).output().unwrap()
}

#[test]
fn datagrams_are_written_line_by_line() {
    let text = String::from_utf8(run(&["datagrams"]).stdout).unwrap();
    let kinds: Vec<&str> = text.lines().map(|line| line.split_once(": ").unwrap().0).collect();
    let named: BTreeSet<&&str> = kinds.iter().collect();
    assert_eq!((kinds.len(), named.len()), (4 * 256, 4), "{named:?}");
}

#[test]
fn an_error_names_the_program_and_the_file() {
    let failed = run(&["datagrams", "--tls-crypt", "/nonexistent/key"]);
    let error = String::from_utf8(failed.stderr).unwrap();
    assert_eq!(failed.status.code(), Some(1));
    assert!(error.starts_with("adit-load-openvpn: /nonexistent/key: "), "{error}");
}
