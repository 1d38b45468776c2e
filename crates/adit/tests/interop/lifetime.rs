//! `inactive` and `session-timeout` between adit and OpenVPN.

use std::time::Duration;

use adit_testbed::{can_run, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER};

const WAIT: Duration = Duration::from_secs(10);

fn up(name: &str, [server, client]: [Program; 2], line: &str) -> Option<Bed> {
    if !can_run(name, &PROGRAMS) {
        return None;
    }
    let change = |_: &_, [server, _]: &mut [String; 2]| server.push_str(line);
    let mut bed = Bed::build_with(&Options::BASE, server, &[client], change).unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let there = wait_until_reachable(&bed.clients[0].namespace, SERVER_INNER[0].parse().unwrap(), WAIT);
    assert!(there.is_ok(), "{}", bed.logs());
    Some(bed)
}

/// The server pushes an end to the session; the client goes, and says that all went well.
fn pushed(programs: [Program; 2], option: &str, word: &str) {
    let Some(mut bed) = up(option, programs, &format!("push \"{option}\"\n")) else { return };
    let status = bed.clients[0].process().wait(WAIT);
    let status = status.unwrap_or_else(|error| panic!("{error}\n{}", bed.logs()));
    assert!(status.success(), "{}", bed.logs());
    assert!(bed.clients[0].process().log().contains(word), "{}", bed.logs());
    bed.clients[0].no_device_left().unwrap();
}

#[test]
fn adit_client_obeys_session_timeout() {
    pushed([Program::OpenVpn, Program::Adit], "session-timeout 2", "(session-timeout)");
}

/// Systems send packets of their own now and then, which alone do not amount to this much.
#[test]
fn adit_client_obeys_inactive() {
    pushed([Program::OpenVpn, Program::Adit], "inactive 2 100000", "(inactive)");
}

#[test]
fn openvpn_client_obeys_inactive() {
    pushed([Program::Adit, Program::OpenVpn], "inactive 2 100000", "--inactive");
}

#[test]
fn a_server_drops_clients() {
    let Some(mut bed) = up("session-timeout", [Program::Adit, Program::OpenVpn], "session-timeout 2\n")
    else {
        return;
    };
    let dropped = bed.server.process().wait_for_line(0, "(session-timeout)", WAIT);
    assert!(dropped.is_ok(), "{}", bed.logs());
    bed.server.stop().unwrap();
}
