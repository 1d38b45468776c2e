//! Usernames and passwords.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Scratch, can_run};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};

const WAIT: Duration = MAX_WAIT;

/// A script that verifies `user\npassword` in the file that is its argument, and notes each call.
fn verify(scratch: &Scratch) -> PathBuf {
    script(
        scratch,
        "verify",
        "echo \"$script_type $untrusted_port $IV_PLAT\" >>\"$HERE/calls\"\n\
         [ \"$(sed -n 1p \"$1\")\" = ann ] && [ \"$(sed -n 2p \"$1\")\" = 's3 cret' ]\n",
    )
}

/// An executable shell script that finds its directory in `$HERE`.
pub(crate) fn script(scratch: &Scratch, name: &str, body: &str) -> PathBuf {
    let here = scratch.path().display();
    let path = scratch.write(name, &format!("#!/bin/sh\nHERE={here}\n{body}")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// How often the verifier was called.
fn calls(scratch: &Scratch) -> usize {
    std::fs::read_to_string(scratch.path().join("calls")).unwrap_or_default().lines().count()
}

/// A server that asks for a password too, and a client with these lines.
pub(crate) fn bed(
    server: Program,
    client: Program,
    verifier: &Path,
    server_lines: &str,
    client_lines: &str,
) -> Bed {
    Bed::build_with(&Options::BASE, server, &[client], |_, [server_text, client_text]| {
        let verifier = verifier.display();
        server_text.push_str(&format!(
            "script-security 2\nauth-user-pass-verify {verifier} via-file\n{server_lines}"
        ));
        client_text.push_str(client_lines);
    })
    .unwrap()
}

pub(crate) const GOOD: &str = "<auth-user-pass>\nann\ns3 cret\n</auth-user-pass>\n";
pub(crate) const WRONG: &str = "<auth-user-pass>\nann\nguess\n</auth-user-pass>\n";

fn lets_in(server: Program, client: Program) {
    if !can_run("passwords", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("verify").unwrap();
    let verifier = verify(&scratch);
    let mut bed = bed(server, client, &verifier, "", GOOD);
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let came_up = bed.clients[0].process().wait_for_line(0, client.up_line(), WAIT);
    assert!(came_up.is_ok(), "{}", bed.logs());
    let calls = std::fs::read_to_string(scratch.path().join("calls")).unwrap();
    let words: Vec<&str> = calls.split_whitespace().collect();
    assert!(
        matches!(words[..], ["user-pass-verify", port, "linux"] if port.parse::<u16>().is_ok()),
        "{calls}"
    );
}

fn keeps_out(server: Program, client: Program) {
    if !can_run("passwords", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("verify").unwrap();
    let verifier = verify(&scratch);
    let mut bed = bed(server, client, &verifier, "", WRONG);
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let Ok(status) = bed.clients[0].process().wait(WAIT) else { panic!("still runs:\n{}", bed.logs()) };
    let log = bed.clients[0].process().log();
    // OpenVPN ends with 0 here.
    assert!(client == Program::OpenVpn || !status.success(), "{log}");
    assert!(log.contains("AUTH_FAILED"), "{log}");
    assert_eq!(bed.clients[0].process().count_lines(0, client.up_line()), 0, "{log}");
}

#[test]
fn openvpn_server_accepts_adit_client() {
    lets_in(Program::OpenVpn, Program::Adit);
}

#[test]
fn openvpn_server_refuses_adit_client() {
    keeps_out(Program::OpenVpn, Program::Adit);
}

/// Without a certificate, from a file, and with a token in place of the password at the second connection.
#[test]
fn openvpn_server_gives_adit_client_a_token() {
    if !can_run("tokens", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("verify").unwrap();
    let (verifier, file) = (verify(&scratch), scratch.write("secret", "ann\ns3 cret\n").unwrap());
    let mut bed =
        Bed::build_with(&Options::BASE, Program::OpenVpn, &[Program::Adit], |_, [server, client]| {
            server.push_str(&format!(
            "script-security 2\nauth-user-pass-verify {} via-file\nauth-gen-token\nverify-client-cert none\n\
             username-as-common-name\n",
            verifier.display()
        ));
            *server = server.replace("remote-cert-tls client\n", "");
            let (start, rest) = client.split_once("<cert>").unwrap();
            let (_, rest) = rest.split_once("</key>\n").unwrap();
            *client = format!("{start}{rest}auth-user-pass {}\nauth-nocache\n", file.display());
        })
        .unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    for round in 0..2 {
        let mark = if round == 0 { 0 } else { bed.clients[0].process().mark() };
        if round == 1 {
            bed.clients[0].process().restart();
        }
        let came_up = bed.clients[0].process().wait_for_line(mark, "tunnel up: ", WAIT);
        assert!(came_up.is_ok(), "{}", bed.logs());
    }
    assert_eq!(calls(&scratch), 1, "{}", bed.logs());
}

/// `AUTH_FAILED,TEMP`: not now, but later.
#[test]
fn openvpn_server_asks_adit_client_to_come_later() {
    if !can_run("temporary failures", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("verify").unwrap();
    let busy = script(
        &scratch,
        "busy",
        "[ -e \"$HERE/calls\" ] && exit 0\necho >\"$HERE/calls\"\n\
         printf 'TEMP[backoff 2]:busy' >\"$auth_failed_reason_file\"\nexit 1\n",
    );
    let mut bed = bed(Program::OpenVpn, Program::Adit, &busy, "", GOOD);
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let process = bed.clients[0].process();
    let reported = process.wait_for_line(0, "AUTH_FAILED,TEMP): busy; next attempt in 2 s", WAIT).is_ok();
    let came_up = process.wait_for_line(0, "tunnel up: ", WAIT).is_ok();
    assert!(reported && came_up, "{}", bed.logs());
}

#[test]
fn adit_server_accepts_openvpn_client() {
    lets_in(Program::Adit, Program::OpenVpn);
}

#[test]
fn adit_server_accepts_adit_client() {
    lets_in(Program::Adit, Program::Adit);
}

#[test]
fn adit_server_refuses_openvpn_client() {
    keeps_out(Program::Adit, Program::OpenVpn);
}

#[test]
fn adit_server_refuses_adit_client() {
    keeps_out(Program::Adit, Program::Adit);
}

/// Without certificates; the password is in the environment; the name is the username; at each renegotiation
/// the token does.
#[test]
fn adit_server_gives_openvpn_client_a_token() {
    if !can_run("tokens", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("verify").unwrap();
    let body = "echo >>\"$HERE/calls\"\n[ \"$username/$password\" = 'ann/s3 cret' ]\n";
    let verifier = script(&scratch, "verify", body);
    let file = scratch.write("secret", "ann\ns3 cret\n").unwrap();
    let mut bed = Bed::build_with(&Options::BASE, Program::Adit, &[Program::OpenVpn], |_, [server, client]| {
        server.push_str(&format!(
            "script-security 3\nauth-user-pass-verify {} via-env\nauth-gen-token 3600\nverify-client-cert none\n\
             username-as-common-name\n",
            verifier.display()
        ));
        *server = server.replace("remote-cert-tls client\n", "").replace("reneg-sec 10", "reneg-sec 3");
        let (start, rest) = client.split_once("<cert>").unwrap();
        let (_, rest) = rest.split_once("</key>\n").unwrap();
        *client = format!("{start}{rest}auth-user-pass {}\nauth-nocache\n", file.display());
    })
    .unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let came_up = bed.clients[0].process().wait_for_line(0, Program::OpenVpn.up_line(), WAIT);
    let renegotiated = bed.server.process().wait_for_line(0, "ann: renegotiated keys (number 2)", WAIT);
    assert!(came_up.is_ok() && renegotiated.is_ok(), "{}", bed.logs());
    assert_eq!(bed.clients[0].process().count_lines(0, "AUTH_FAILED"), 0, "{}", bed.logs());
    assert_eq!(calls(&scratch), 1, "{}", bed.logs());
}

/// One client is verified slowly, and its result comes by a file; another one connects meanwhile.
#[test]
fn adit_server_waits_for_one_and_serves_the_other() {
    if !can_run("deferred answers", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("verify").unwrap();
    let body = "[ -e \"$HERE/calls\" ] && exit 0\necho >\"$HERE/calls\"\n\
                (while [ ! -e \"$HERE/go\" ]; do sleep 0.05; done; printf 1 >\"$auth_control_file\") \
                >/dev/null 2>&1 &\nexit 2\n";
    let verifier = script(&scratch, "verify", body);
    let clients = [Program::OpenVpn, Program::Adit];
    let mut bed = Bed::build_with(&Options::BASE, Program::Adit, &clients, |_, [server, client]| {
        let line = format!("script-security 2\nauth-user-pass-verify {} via-file\n", verifier.display());
        if !server.contains(&line) {
            server.push_str(&line);
        }
        client.push_str(GOOD);
    })
    .unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let deadline = std::time::Instant::now() + WAIT;
    while calls(&scratch) == 0 && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    bed.clients[1].start().unwrap();
    let second = bed.clients[1].process().wait_for_line(0, "tunnel up: ", WAIT).is_ok();
    assert!(second, "{}", bed.logs());
    assert_eq!(bed.clients[0].process().count_lines(0, Program::OpenVpn.up_line()), 0, "{}", bed.logs());
    scratch.write("go", "").unwrap();
    let first = bed.clients[0].process().wait_for_line(0, Program::OpenVpn.up_line(), WAIT).is_ok();
    assert!(first, "{}", bed.logs());
}

#[test]
fn adit_server_asks_openvpn_client_to_come_later() {
    if !can_run("temporary failures", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("verify").unwrap();
    let body = "printf 'TEMP[backoff 2]:busy' >\"$auth_failed_reason_file\"\nexit 1\n";
    let busy = script(&scratch, "busy", body);
    let mut bed = bed(Program::Adit, Program::OpenVpn, &busy, "", GOOD);
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let reported =
        bed.clients[0].process().wait_for_line(0, "AUTH_FAILED,TEMP[backoff 2]:busy", WAIT).is_ok();
    let restarts = bed.clients[0].process().wait_for_line(0, "auth-temp-failure", WAIT).is_ok();
    assert!(reported && restarts, "{}", bed.logs());
}
