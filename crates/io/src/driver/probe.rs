//! Tries operations that a thread of a running tunnel must not be able to do. Only for tests: builds without debug
//! assertions have nothing of it.

use std::fs::{File, OpenOptions};
use std::net::UdpSocket;
use std::process::{Command, Stdio};

/// The environment variable that asks for it at the start.
const VARIABLE: &str = "ADIT_TEST_CONFINEMENT";

/// Whether it is asked for.
pub(super) fn is_wanted() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// The result of each attempt: that it succeeded, or why not.
pub(super) fn attempt(thread: &str) -> String {
    let read = File::open("/etc/passwd").map(drop);
    let beside = std::env::temp_dir().join(format!("adit-probe-{}-{thread}", std::process::id()));
    let made = OpenOptions::new().write(true).create_new(true).open(&beside).map(drop);
    if made.is_ok() {
        let _ = std::fs::remove_file(&beside);
    }
    let mut program = Command::new("/bin/true");
    let run = program.stdin(Stdio::null()).spawn().and_then(|mut child| child.wait()).map(drop);
    let socket = UdpSocket::bind(("127.0.0.1", 0)).map(drop);
    let attempts =
        [("open a file", read), ("make a file", made), ("run a program", run), ("make a socket", socket)];
    let outcome = attempts.map(|(what, result)| match result {
        Ok(()) => format!("{what}: done"),
        Err(error) => format!("{what}: {:?}", error.kind()),
    });
    format!("confinement of the {thread} thread: {}", outcome.join("; "))
}
