//! The operations that a running tunnel may still do: a server that `adit init` made, and its client.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Namespace, Process, Scratch, can_run, connect, wait_until};

use crate::authentication::passwords::script;
use crate::bed::{Bed, PROGRAMS};
use crate::management::status::status_of;
use crate::options::{Options, Program};
use crate::privileges::user_and_group::{NET_ADMIN, Rights, helper_of, rights, rights_of_threads};

const WAIT: Duration = MAX_WAIT;
/// Asks a build for tests to try the actions that must be impossible (adit-io, `driver/probe.rs`).
const PROBE: &str = "ADIT_TEST_CONFINEMENT";

fn adit(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.args(arguments).env(PROBE, "1");
    command
}

fn good(arguments: &[&str]) {
    let output = adit(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A server and its client, as `adit init` and `adit add-client` make them, in two namespaces.
struct Pair {
    ends: [Process; 2],
    _namespaces: [Namespace; 2],
    _scratch: Scratch,
}

fn start(arguments: &[&str]) -> Pair {
    let scratch = Scratch::create("confined").unwrap();
    let dir = scratch.path().join("vpn");
    let path = dir.to_str().unwrap();
    good(&["init", path, "--endpoint", "10.96.0.1"]);
    good(&["add-client", path, "alice"]);
    let namespaces = ["server", "client"].map(|name| Namespace::create(name).unwrap());
    let [server, client] = &namespaces;
    connect(server, &["10.96.0.1/24"], client, &["10.96.0.2/24"], "outer").unwrap();
    let up = |file: &str| {
        let file = dir.join(file);
        adit(&[&["up", file.to_str().unwrap()], arguments].concat())
    };
    let mut server = server.spawn("server", up("server.conf")).unwrap();
    server.wait_for_line(0, "listening on", WAIT).unwrap();
    let mut client = client.spawn("client", up("clients/alice.ovpn")).unwrap();
    client.wait_for_line(0, "tunnel up: ", WAIT).unwrap();
    Pair { ends: [server, client], _namespaces: namespaces, _scratch: scratch }
}

/// The results that the data and the control thread log of their attempts.
fn attempts(process: &mut Process) -> [String; 2] {
    ["data", "control"].map(|thread| {
        let line = format!("confinement of the {thread} thread: ");
        let line = process.wait_for_line(0, &line, WAIT).unwrap();
        line.split_once("thread: ").unwrap().1.to_owned()
    })
}

/// All sets of capabilities are empty, or hold these alone.
fn has_only(rights: &Rights, capabilities: u64) {
    let Rights { effective, permitted, bounding, inheritable, ambient, .. } = rights;
    assert_eq!([*effective, *permitted, *bounding], [capabilities; 3], "{rights:?}");
    assert_eq!([*inheritable, *ambient], [0; 2], "{rights:?}");
    assert_eq!((rights.no_new_privileges, rights.seccomp), (1, 2), "{rights:?}");
}

#[test]
fn no_thread_of_a_tunnel_has_a_right() {
    if !can_run("confinement", &[]) {
        return;
    }
    let mut pair = start(&[]);
    for process in &mut pair.ends {
        let threads = rights_of_threads(process.id());
        assert!(threads.len() > 4, "{threads:?}");
        for rights in threads {
            has_only(&rights, 0);
            assert_ne!(rights.user, 0, "{rights:?}");
        }
        for layer in ["bounding-set", "landlock", "seccomp"] {
            assert_eq!(status_of(process.id())["sandbox"][layer]["state"], "on", "{layer}");
        }
    }
    let [server, client] = &pair.ends;
    for rights in rights_of_threads(helper_of(server.id()).unsigned_abs()) {
        has_only(&rights, 0);
        assert_ne!(rights.user, 0, "{rights:?}");
    }
    for rights in rights_of_threads(helper_of(client.id()).unsigned_abs()) {
        has_only(&rights, NET_ADMIN);
    }
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().collect::<Vec<_>>()[4..6], ["0", "0"], "{limits}");
}

#[test]
fn a_parser_that_is_taken_over_opens_no_file_and_runs_no_program() {
    if !can_run("confinement", &[]) || !cfg!(debug_assertions) {
        return;
    }
    let refused = "PermissionDenied";
    for process in &mut start(&[]).ends {
        for outcome in attempts(process) {
            assert_eq!(
                outcome,
                format!(
                    "open a file: {refused}; make a file: {refused}; run a program: {refused}; make a socket: {refused}"
                )
            );
        }
    }
    // Without the sandbox, the attempts themselves succeed.
    for process in &mut start(&["--no-sandbox"]).ends {
        for outcome in attempts(process) {
            assert!(
                outcome.starts_with("open a file: done; make a file: done; run a program: done"),
                "{outcome}"
            );
        }
        process.wait_for_line(0, "seccomp is switched off (--no-sandbox)", WAIT).unwrap();
        for rights in rights_of_threads(process.id()) {
            assert_eq!((rights.effective | rights.permitted | rights.bounding, rights.seccomp), (0, 0));
        }
    }
}

/// When a tunnel ends, however it does, its helper ends too.
#[test]
fn the_helper_goes_with_its_tunnel() {
    if !can_run("confinement", &[]) {
        return;
    }
    let mut pair = start(&[]);
    let helpers = pair.ends.each_ref().map(|process| helper_of(process.id()));
    pair.ends[0].kill().unwrap();
    assert!(pair.ends[1].terminate(WAIT).unwrap().success());
    for helper in helpers {
        wait_until("the helper to go", WAIT, || !fs::exists(format!("/proc/{helper}")).unwrap()).unwrap();
    }
}

/// As in OpenVPN: as the user of the file, without its rights, but free to gain them (`sudo`), unlike the tunnel, and with all system
/// calls but a few.
#[test]
fn scripts_run_as_the_user_and_outside_the_sandbox() {
    if !can_run("scripts of a user", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("scripts").unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let reported = scratch.write("status", "").unwrap();
    fs::set_permissions(&reported, fs::Permissions::from_mode(0o666)).unwrap();
    let text = format!("cat /proc/self/status >{}\n", reported.display());
    let connect = script(&scratch, "connect", &text);
    let lines =
        format!("user nobody\ngroup nogroup\nscript-security 2\nclient-connect {}\n", connect.display());
    let mut bed = Bed::build_with(&Options::BASE, Program::Adit, &[Program::Adit], |_, [server, _]| {
        server.push_str(&lines);
    })
    .unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let up = bed.clients[0].process().wait_for_line(0, "tunnel up: ", WAIT);
    assert!(up.is_ok(), "{}", bed.logs());
    let script = rights(&reported);
    assert_eq!((script.user, script.group), (65_534, 65_534), "{script:?}");
    assert_eq!((script.effective, script.permitted), (0, 0), "{script:?}");
    // The filter refuses calls that no script has a use for.
    assert_eq!((script.no_new_privileges, script.seccomp), (0, 2), "{script:?}");
    for rights in rights_of_threads(bed.server.process().id()) {
        has_only(&rights, 0);
    }
}
