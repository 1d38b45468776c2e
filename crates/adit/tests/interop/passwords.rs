//! Usernames and passwords.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use adit_testbed::{Scratch, can_run};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};

const WAIT: Duration = Duration::from_secs(10);

/// A script that judges `user\npassword` in the file that is its argument, and notes each call.
fn judge(scratch: &Scratch) -> PathBuf {
    script(
        scratch,
        "judge",
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

/// How often the judge was called.
fn calls(scratch: &Scratch) -> usize {
    std::fs::read_to_string(scratch.path().join("calls")).unwrap_or_default().lines().count()
}

/// A server that asks for a password too, and a client with these lines.
fn bed(server: Program, client: Program, judge: &Path, server_lines: &str, client_lines: &str) -> Bed {
    Bed::build_with(&Options::BASE, server, &[client], |_, [server_text, client_text]| {
        let judge = judge.display();
        server_text
            .push_str(&format!("script-security 2\nauth-user-pass-verify {judge} via-file\n{server_lines}"));
        client_text.push_str(client_lines);
    })
    .unwrap()
}

fn up(program: Program) -> &'static str {
    match program {
        Program::Adit => "tunnel up: ",
        Program::OpenVpn => "Initialization Sequence Completed",
    }
}

const GOOD: &str = "<auth-user-pass>\nann\ns3 cret\n</auth-user-pass>\n";
const WRONG: &str = "<auth-user-pass>\nann\nguess\n</auth-user-pass>\n";

fn lets_in(server: Program, client: Program) {
    if !can_run("passwords", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("judge").unwrap();
    let judge = judge(&scratch);
    let mut bed = bed(server, client, &judge, "", GOOD);
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let came_up = bed.clients[0].process().wait_for_line(0, up(client), WAIT);
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
    let scratch = Scratch::create("judge").unwrap();
    let judge = judge(&scratch);
    let mut bed = bed(server, client, &judge, "", WRONG);
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let Ok(status) = bed.clients[0].process().wait(WAIT) else { panic!("still runs:\n{}", bed.logs()) };
    let log = bed.clients[0].process().log();
    // OpenVPN ends with 0 here.
    assert!(client == Program::OpenVpn || !status.success(), "{log}");
    assert!(log.contains("AUTH_FAILED"), "{log}");
    assert_eq!(bed.clients[0].process().count_lines(0, up(client)), 0, "{log}");
}

#[test]
fn openvpn_server_lets_adit_client_in() {
    lets_in(Program::OpenVpn, Program::Adit);
}

#[test]
fn openvpn_server_keeps_adit_client_out() {
    keeps_out(Program::OpenVpn, Program::Adit);
}

/// Without a certificate, from a file, and with a token in place of the password at the second connection.
#[test]
fn openvpn_server_gives_adit_client_a_token() {
    if !can_run("tokens", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("judge").unwrap();
    let (judge, file) = (judge(&scratch), scratch.write("secret", "ann\ns3 cret\n").unwrap());
    let mut bed =
        Bed::build_with(&Options::BASE, Program::OpenVpn, &[Program::Adit], |_, [server, client]| {
            server.push_str(&format!(
            "script-security 2\nauth-user-pass-verify {} via-file\nauth-gen-token\nverify-client-cert none\n\
             username-as-common-name\n",
            judge.display()
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
            bed.clients[0].process().hang_up();
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
    let scratch = Scratch::create("judge").unwrap();
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
    let told = process.wait_for_line(0, "AUTH_FAILED,TEMP): busy; next attempt in 2 s", WAIT).is_ok();
    let came_up = process.wait_for_line(0, "tunnel up: ", WAIT).is_ok();
    assert!(told && came_up, "{}", bed.logs());
}
