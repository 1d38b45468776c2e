//! The output of the program.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_adit-load-wireguard")).args(arguments).output().unwrap()
}

#[test]
fn keys_and_datagrams_are_written_line_by_line() {
    let keys = String::from_utf8(run(&["keys", "--count", "3"]).stdout).unwrap();
    let keys: BTreeSet<&str> = keys.lines().collect();
    assert_eq!(keys.len(), 3, "{keys:?}");
    assert!(keys.iter().all(|key| key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit())));

    // The server's key is none of the initiators'.
    let written = run(&["datagrams", "--key", &"0f".repeat(32)]);
    let text = String::from_utf8(written.stdout).unwrap();
    let kinds: Vec<&str> = text.lines().map(|line| line.split_once(": ").unwrap().0).collect();
    let named: BTreeSet<&&str> = kinds.iter().collect();
    assert_eq!((kinds.len(), named.len()), (4 * 256, 4), "{named:?}");
}

#[test]
fn a_key_that_is_none_is_refused() {
    let refused = run(&["datagrams", "--key", "abc"]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && error.contains("64 hexadecimal digits are a key"), "{error}");
}
