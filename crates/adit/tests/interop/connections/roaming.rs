//! Peers that answer from another address, and peers that move.

use std::time::Duration;

use adit_testbed::{MAX_WAIT, Ping, can_run, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, Transport};

const WAIT: Duration = MAX_WAIT;
/// A second address of the server's, which it does not answer from by itself.
const SECOND: [&str; 2] = ["10.9.77.1", "fd00:9:77::1"];

/// A client that connects to the server's second address.
fn bed(server: Program, client: Program, transport: Transport, lines: [&str; 2]) -> Bed {
    let options = Options { transport, ..Options::BASE };
    let v6 = transport.is_v6();
    let second = SECOND[usize::from(v6)];
    let bed = Bed::build_with(&options, server, &[client], |_, [server, client]| {
        server.push_str(lines[0]);
        *client = client
            .replace("remote 10.9.1.1 ", &format!("remote {second} "))
            .replace("remote fd00:9:1::1 ", &format!("remote {second} "));
        client.push_str(lines[1]);
    })
    .unwrap();
    let (add, via): (&[&str], &str) =
        if v6 { (&["-6", "route", "add"], "fd00:9:1::1") } else { (&["route", "add"], "10.9.1.1") };
    let network = &bed.server.namespace;
    let length = if v6 { "128" } else { "32" };
    network.ip(&["address", "add", &format!("{second}/{length}"), "dev", "lo"]).unwrap();
    bed.clients[0].namespace.ip(&[add, &[second, "via", via]].concat()).unwrap();
    bed
}

/// Whether the tunnel comes up and carries something.
fn comes_up(bed: &mut Bed, client: Program) -> bool {
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    bed.clients[0].process().wait_for_line(0, client.up_line(), WAIT).is_ok()
        && wait_until_reachable(&bed.clients[0].namespace, "10.8.0.1".parse().unwrap(), WAIT).is_ok()
}

#[test]
fn a_client_with_float_takes_an_answer_from_another_address() {
    for (lines, answered) in [("float\n", true), ("connect-timeout 1\nconnect-retry-max 1\n", false)] {
        if !can_run("float", &PROGRAMS) {
            return;
        }
        let mut bed = bed(Program::OpenVpn, Program::Adit, Transport::Udp4, ["", lines]);
        assert_eq!(comes_up(&mut bed, Program::Adit), answered, "{}", bed.logs());
    }
}

#[test]
fn a_server_with_multihome_answers_from_where_it_was_asked() {
    for (client, transport) in [
        (Program::OpenVpn, Transport::Udp4),
        (Program::Adit, Transport::Udp4),
        (Program::OpenVpn, Transport::Udp6),
    ] {
        if !can_run("multihome", &PROGRAMS) {
            return;
        }
        // Waits at all addresses, of both families.
        let mut bed = bed(Program::Adit, client, transport, ["proto udp\nmultihome\n", ""]);
        assert!(comes_up(&mut bed, client), "{}", bed.logs());
    }
}

/// The client's addresses, one after the other.
const ADDRESSES: [&str; 4] = ["10.9.1.2/24", "10.9.1.3/24", "10.9.1.4/24", "10.9.1.5/24"];

/// The client gets other addresses under a running tunnel; the server follows it, and the very first ping from each
/// is answered.
#[test]
fn a_server_follows_a_client_that_moves() {
    for client in [Program::OpenVpn, Program::Adit] {
        for server in [Program::OpenVpn, Program::Adit] {
            if client == Program::OpenVpn && server == Program::OpenVpn || !can_run("moving", &PROGRAMS) {
                continue;
            }
            follows(server, client);
        }
    }
}

/// A server of that program follows a client of that program, which moves three times.
pub(crate) fn follows(server: Program, client: Program) {
    let mut bed = Bed::build(&Options::BASE, server, &[client]).unwrap();
    assert!(comes_up(&mut bed, client), "{}", bed.logs());
    bed.check_kernel_data_channels().unwrap();
    let namespace = &bed.clients[0].namespace;
    let once = Ping::new(1, Duration::ZERO);
    for (old, new) in ADDRESSES.iter().zip(&ADDRESSES[1..]) {
        namespace.ip(&["address", "add", new, "dev", "wire1"]).unwrap();
        namespace.ip(&["address", "delete", old, "dev", "wire1"]).unwrap();
        // With the first address of a network the kernel may remove the others of it.
        let _ = namespace.ip(&["address", "add", new, "dev", "wire1"]);
        let report = once.run(namespace, "10.8.0.1".parse().unwrap()).unwrap();
        assert_eq!(report.received, 1, "{client:?} at {server:?}, {new}: {report:?}, {}", bed.logs());
    }
    if server == Program::Adit {
        // The log has one move in a minute, and may be a little behind.
        bed.server.process().wait_for_line(0, "moved here from udp 10.9.1.2", WAIT).unwrap();
        let moves = bed.server.process().count_lines(0, "moved here from");
        assert_eq!(moves, 1, "{}", bed.logs());
    }
}
