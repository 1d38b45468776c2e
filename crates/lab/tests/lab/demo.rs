//! `adit-lab demo`, as a visitor runs it.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use adit_testbed::{Process, Scratch, can_run, program};

use crate::bench::{adit, lab};

const TIMEOUT: Duration = Duration::from_secs(240);

fn demo(arguments: &[&str]) -> Process {
    let mut command = lab(&["demo"]);
    command.arg("--adit").arg(adit()).args(arguments);
    Process::spawn("adit-lab demo", command).unwrap()
}

/// The things that a run of the demo left in the system: namespaces, directories of the temporary directory,
/// sockets.
fn left_behind(process: &Process) -> Vec<String> {
    let prefixes = [format!("adit-{}-", process.id()), format!("wg{}", process.id())];
    let directories = [std::env::temp_dir(), "/run/netns".into(), "/var/run/wireguard".into()];
    let entries = directories.into_iter().filter_map(|d| std::fs::read_dir(d).ok()).flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix))).collect()
}

#[test]
fn it_succeeds_and_leaves_nothing() {
    if !can_run("it_succeeds_and_leaves_nothing", &["nft"]) {
        return;
    }
    for kind in [&["--proto", "udp"][..], &["--proto", "tcp"], &["--wireguard"], &["--ipsec"]] {
        let mut process = demo(&[kind, &["--megabytes", "20"]].concat());
        let status = process.wait(TIMEOUT).unwrap();
        assert!(status.success(), "{kind:?}: {status}\n{}", process.log());
        assert_eq!(process.count_lines(0, "SHA-256 equal"), 2, "{}", process.log());
        let beyond = match kind {
            ["--ipsec"] => "the client reaches 203.0.113.80 beyond the server",
            _ => "the client reaches 203.0.113.80 and 2001:db8:77::80 beyond the server",
        };
        assert_eq!(process.count_lines(0, beyond), 1, "{}", process.log());
        assert_eq!(left_behind(&process), [""; 0]);
    }
}

#[test]
fn an_interruption_leaves_nothing() {
    if !can_run("an_interruption_leaves_nothing", &[]) {
        return;
    }
    let mut process = demo(&[]);
    process.wait_for_line(0, "tunnel up", TIMEOUT).unwrap();
    assert!(!left_behind(&process).is_empty());
    process.interrupt();
    assert_eq!(process.wait(TIMEOUT).unwrap().code(), Some(130));
    assert_eq!(left_behind(&process), [""; 0]);
}

#[test]
fn without_rights_it_says_what_to_run() {
    if !can_run("without_rights_it_says_what_to_run", &[]) {
        return;
    }
    let directory = Scratch::create("rights").unwrap();
    let program_file = directory.path().join("adit-lab");
    std::fs::copy(env!("CARGO_BIN_EXE_adit-lab"), &program_file).unwrap();
    for path in [directory.path(), &program_file] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = program("setpriv").unwrap();
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program_file).arg("demo");
    let mut process = Process::spawn("adit-lab demo", command).unwrap();
    assert_eq!(process.wait(TIMEOUT).unwrap().code(), Some(1));
    process.wait_for_line(0, &format!("sudo {} demo", program_file.display()), TIMEOUT).unwrap();
}
