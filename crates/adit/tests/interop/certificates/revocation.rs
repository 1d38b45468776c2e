//! Clients that were shut out by `adit revoke` or a list of OpenSSL's.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Namespace, Process, Scratch, can_run, connect};

use crate::bed::PROGRAMS;
use crate::options::{Part, Program};

const WAIT: Duration = MAX_WAIT;

fn adit(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_adit")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn start(program: Program, part: Part, file: &Path, namespace: &Namespace) -> Process {
    namespace.spawn(&format!("{program:?}"), program.command(part, file).unwrap()).unwrap()
}

/// A client of each kind connects; it is revoked while the server runs; it does not come in again, and another
/// client does.
fn check(server: Program, client: Program) {
    if !can_run("revoked clients", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("revoked").unwrap();
    if server == Program::OpenVpn {
        // It finds the list by its path, when it is root no more.
        std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
    }
    let dir = scratch.path().join("vpn");
    let path = dir.to_str().unwrap();
    adit(&["init", path, "--endpoint", "10.96.0.1"]);
    adit(&["add-client", path, "alice"]);
    adit(&["add-client", path, "bob"]);
    // The profile goes when its owner is revoked.
    let alice = dir.join("alice.ovpn");
    std::fs::copy(dir.join("clients/alice.ovpn"), &alice).unwrap();
    let [server_side, client_side] = ["server", "client"].map(|name| Namespace::create(name).unwrap());
    connect(&server_side, &["10.96.0.1/24"], &client_side, &["10.96.0.2/24"], "outer").unwrap();

    let mut server_process = start(server, Part::Server, &dir.join("server.conf"), &server_side);
    server_process
        .wait_for_line(0, if server == Program::Adit { "listening on" } else { server.up_line() }, WAIT)
        .unwrap();
    let mut process = start(client, Part::Client, &alice, &client_side);
    process.wait_for_line(0, client.up_line(), WAIT).unwrap();

    let mark = server_process.mark();
    adit(&["revoke", path, "alice"]);
    assert!(!dir.join("clients/alice.ovpn").exists());
    if server == Program::Adit {
        // A client on the list goes at once.
        server_process.wait_for_line(mark, "alice: its certificate was revoked", WAIT).unwrap();
        // It gets the reason and ends; a client that only noticed the silence would show "connected" for a minute.
        process.wait_for_line(0, "your certificate was revoked", WAIT).unwrap();
        process.wait(WAIT).unwrap();
    }
    let _ = process.kill();
    let mark = server_process.mark();
    let mut process = start(client, Part::Client, &alice, &client_side);
    server_process.wait_for_line(mark, "revoked", WAIT).unwrap();
    // OpenVPN's server sends no alert: its clients go on trying.
    if (server, client) == (Program::Adit, Program::Adit) {
        assert!(!process.wait(WAIT).unwrap().success());
        assert!(process.log().contains("revoked"), "{}", process.log());
    }
    assert_eq!(process.count_lines(0, client.up_line()), 0, "{}", process.log());
    let _ = process.kill();

    let mut process = start(client, Part::Client, &dir.join("clients/bob.ovpn"), &client_side);
    process.wait_for_line(0, client.up_line(), WAIT).unwrap();
    // The name is free for another certificate.
    adit(&["add-client", path, "alice"]);
}

#[test]
fn adit_server_openvpn_client() {
    check(Program::Adit, Program::OpenVpn);
}

#[test]
fn adit_server_adit_client() {
    check(Program::Adit, Program::Adit);
}

#[test]
fn openvpn_server_adit_client() {
    check(Program::OpenVpn, Program::Adit);
}
