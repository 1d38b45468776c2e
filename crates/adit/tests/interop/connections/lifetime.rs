//! How connections end by themselves, `inactive`, `session-timeout`, `ping-exit` and a server's HALT, and how keys do
//! (`reneg-bytes`), between adit and OpenVPN.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use adit_testbed::{MAX_WAIT, Scratch, can_run, transfer, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER};
use crate::profiles::variants::BOTH_WAYS;

const WAIT: Duration = MAX_WAIT;

fn up(name: &str, programs: [Program; 2], line: &str) -> Option<Bed> {
    up_with(name, programs, [line, ""])
}

/// A tunnel with these lines in the server's file, and in the client's.
fn up_with(name: &str, [server, client]: [Program; 2], lines: [&str; 2]) -> Option<Bed> {
    if !can_run(name, &PROGRAMS) {
        return None;
    }
    let change = |_: &_, texts: &mut [String; 2]| {
        for (text, lines) in texts.iter_mut().zip(lines) {
            text.push_str(lines);
        }
    };
    let mut bed = Bed::build_with(&Options::BASE, server, &[client], change).unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let there = wait_until_reachable(&bed.clients[0].namespace, SERVER_INNER[0].parse().unwrap(), WAIT);
    assert!(there.is_ok(), "{}", bed.logs());
    Some(bed)
}

/// The server ends the connection by a push; the client goes, and says that all went well.
fn pushed(programs: [Program; 2], option: &str, word: &str) {
    let Some(mut bed) = up(option, programs, &format!("push \"{option}\"\n")) else { return };
    ends_well(&mut bed, word);
}

/// The client ends, says this, and that all went well.
fn ends_well(bed: &mut Bed, word: &str) {
    let status = bed.clients[0].process().wait(WAIT);
    let status = status.unwrap_or_else(|error| panic!("{error}\n{}", bed.logs()));
    assert_eq!(status.code(), Some(0), "{}", bed.logs());
    assert!(bed.clients[0].process().log().contains(word), "{}", bed.logs());
    bed.clients[0].no_device_left().unwrap();
}

/// A server that is gone without a word is no failure of a client that shall end then.
#[test]
fn ping_exit_is_no_failure() {
    let lines = ["", "pull-filter ignore ping\nping 1\nping-exit 4\n"];
    for (programs, word) in BOTH_WAYS.into_iter().zip(["ping-exit", "(ping-exit)"]) {
        let Some(mut bed) = up_with("ping-exit", programs, lines) else { return };
        bed.server.process().kill().unwrap();
        ends_well(&mut bed, word);
    }
}

/// OpenVPN's server sends a client away for good, by its management socket. Neither client takes that for a failure.
#[test]
fn a_client_that_is_halted_ends_well() {
    for (client, word) in [(Program::OpenVpn, "Halt command was pushed"), (Program::Adit, "(HALT)")] {
        let scratch = Scratch::create("management").unwrap();
        let socket = scratch.path().join("socket");
        let line = format!("management {} unix\n", socket.display());
        let Some(mut bed) = up("HALT", [Program::OpenVpn, client], &line) else { return };
        let mut management = UnixStream::connect(&socket).unwrap();
        management.set_read_timeout(Some(WAIT)).unwrap();
        management.write_all(b"client-kill 0 HALT\n").unwrap();
        let mut said = BufReader::new(&management).lines().map_while(Result::ok);
        assert!(said.any(|line| line.starts_with("SUCCESS")), "{}", bed.logs());
        ends_well(&mut bed, word);
    }
}

/// adit, on either side, renews keys again and again by the bytes that it sent and received; the traffic loses no
/// packet. The second renewal comes when the keys of the first are in use.
#[test]
fn reneg_bytes_renews_keys_under_traffic() {
    let (window, both) = ("hand-window 3\n", "reneg-bytes 300000\nhand-window 3\n");
    for (programs, lines) in BOTH_WAYS.into_iter().zip([[both, window], [window, both]]) {
        let Some(mut bed) = up_with("reneg-bytes", programs, lines) else { return };
        let adit = if programs[0] == Program::Adit { &bed.server } else { &bed.clients[0] };
        let (inside, outside) = (&bed.clients[0].namespace, &bed.server.namespace);
        let deadline = Instant::now() + WAIT;
        while adit.renegotiations() < 2 {
            assert!(Instant::now() < deadline, "{}", bed.logs());
            let sent = transfer(inside, outside, SERVER_INNER[0].parse().unwrap(), 200_000);
            assert!(sent.as_ref().is_ok_and(|sent| sent.intact), "{sent:?}\n{}", bed.logs());
            std::thread::sleep(Duration::from_millis(100));
        }
        bed.clients[0].stop().unwrap();
        bed.server.stop().unwrap();
    }
}

#[test]
fn adit_client_obeys_session_timeout() {
    pushed([Program::OpenVpn, Program::Adit], "session-timeout 4", "(session-timeout)");
}

/// Systems send packets of their own now and then, which alone do not amount to this much.
#[test]
fn adit_client_obeys_inactive() {
    pushed([Program::OpenVpn, Program::Adit], "inactive 4 100000", "(inactive)");
}

#[test]
fn openvpn_client_obeys_inactive() {
    pushed([Program::Adit, Program::OpenVpn], "inactive 4 100000", "--inactive");
}

#[test]
fn a_server_drops_clients() {
    let Some(mut bed) = up("session-timeout", [Program::Adit, Program::OpenVpn], "session-timeout 4\n")
    else {
        return;
    };
    let dropped = bed.server.process().wait_for_line(0, "(session-timeout)", WAIT);
    assert!(dropped.is_ok(), "{}", bed.logs());
    bed.server.stop().unwrap();
}
