//! The lines of each end when nothing comes from its peer any more, by OpenVPN and by adit in OpenVPN's
//! manner.

use adit_testbed::{MAX_WAIT, Namespace, Process, Scratch, can_run, wait_until};

use super::deployments::{COMPLETED, by_both};
use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};

/// The part of a line from the name of the peer on.
const LOST: &str = "Inactivity timeout (--ping-restart), restarting";

/// A running program that was called `openvpn`.
fn start(program: Program, namespace: &Namespace, config: &std::path::Path, scratch: &Scratch) -> Process {
    let mut command = program.called_as("openvpn", scratch);
    command.arg("--suppress-timestamps").arg("--config").arg(config);
    namespace.spawn(&format!("{program:?}"), command).unwrap()
}

/// The lines of a client whose server was killed, and of a server whose client was.
fn lost_by(program: Program) -> [String; 2] {
    let scratch = Scratch::create("lost").unwrap();
    let mut bed = Bed::build(&Options::BASE, Program::OpenVpn, &[program]).unwrap();
    bed.server.start().unwrap();
    let client = &bed.clients[0];
    let mut process = start(program, &client.namespace, client.config(), &scratch);
    process.wait_for_line(0, COMPLETED, MAX_WAIT).unwrap();
    bed.server.process().kill().unwrap();
    let of_client = process.wait_for_line(0, LOST, MAX_WAIT).unwrap();

    let mut bed = Bed::build(&Options::BASE, program, &[Program::OpenVpn]).unwrap();
    let server = &bed.server;
    let mut process = start(program, &server.namespace, server.config(), &scratch);
    let listens = || server.namespace.is_bound(false, 1194).unwrap_or(false);
    wait_until("the server to listen", MAX_WAIT, listens).unwrap();
    bed.clients[0].start().unwrap();
    process.wait_for_line(0, "[client1] Peer Connection Initiated", MAX_WAIT).unwrap();
    bed.clients[0].process().wait_for_line(0, COMPLETED, MAX_WAIT).unwrap();
    bed.clients[0].process().kill().unwrap();
    [of_client, without_port(&process.wait_for_line(0, LOST, MAX_WAIT).unwrap())]
}

/// A line that begins with `NAME/ADDRESS:PORT`, without the port, which the system chose.
fn without_port(line: &str) -> String {
    let (start, rest) = line.split_once(':').unwrap();
    format!("{start}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
}

#[test]
fn a_lost_peer_has_openvpns_line() {
    if !can_run("a_lost_peer_has_openvpns_line", &PROGRAMS) {
        return;
    }
    let [openvpn, adit] = by_both(lost_by);
    assert_eq!(adit, openvpn);
    assert_eq!(adit, [format!("[server] {LOST}"), format!("client1/10.9.1.2 [client1] {LOST}")]);
}
