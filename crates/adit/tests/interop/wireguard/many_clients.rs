//! 50 clients of OpenVPN and 50 of WireGuard, of other programs, at one UDP port of one process.

use std::net::IpAddr;
use std::process::Command;
use std::thread;
use std::time::Duration;

use adit_testbed::{Ping, Process, can_run, openvpn_command, wait_until, wait_until_reachable};

use super::bed::{PROGRAMS, Program, device};
use super::provisioned::{Client, ENDPOINT, Server, config, file, start_program};

/// Clients of each protocol.
const EACH: usize = 50;
/// OpenVPN's port, and WireGuard's.
const PORT: u16 = 1194;
const WAIT: Duration = Duration::from_secs(120);
/// How many namespaces ping at once.
const THREADS: usize = 4;

/// A client that is connected.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) inner: IpAddr,
    pub(super) name: String,
    /// The program, if it is no daemon.
    pub(super) process: Option<Process>,
}

impl Connected {
    pub(super) fn is_answered(&self, target: IpAddr) -> bool {
        let ping = Ping { timeout: Duration::from_millis(500), ..Ping::new(1, Duration::from_millis(1)) };
        (0..2).any(|_| ping.run(&self.client.namespace, target).unwrap().received > 0)
    }

    /// Whether a target answers, if late.
    pub(super) fn reaches(&self, target: IpAddr) -> bool {
        (0..10).any(|_| self.is_answered(target))
    }
}

/// A client behind the wire of that number.
pub(super) fn client(server: &Server, number: usize) -> Client {
    let number = u8::try_from(number).unwrap();
    let client = Client::create(server, number);
    // Without `multihome` the system chooses the address that OpenVPN's clients are answered from.
    let (net, wire) = (format!("10.9.{number}.0/24"), format!("wire{number}"));
    server.namespace.ip(&["route", "replace", &net, "dev", &wire, "src", ENDPOINT]).unwrap();
    client
}

pub(super) fn start_openvpn(server: &Server, number: usize, name: &str) -> (Client, Process) {
    let client = client(server, number);
    let command = openvpn_command(&server.dir().join(format!("clients/{name}.ovpn"))).unwrap();
    let process = client.namespace.spawn("openvpn", command).unwrap();
    (client, process)
}

pub(super) fn openvpn_connected(
    server: &Server,
    (client, process): (Client, Process),
    name: &str,
) -> Connected {
    let target = server.inner()[0];
    if wait_until_reachable(&client.namespace, target, WAIT).is_err() {
        panic!("{name}:\n{}", process.log());
    }
    let addresses = client.namespace.ip(&["-oneline", "-4", "address", "show", "up"]).unwrap();
    let is_tunnel =
        |line: &&str| line.split_whitespace().nth(1).is_some_and(|device| device.starts_with("tun"));
    let line = addresses.lines().find(is_tunnel).expect("a tunnel");
    let inner = line.split_whitespace().nth(3).unwrap().split('/').next().unwrap().parse().unwrap();
    Connected { client, inner, name: name.to_owned(), process: Some(process) }
}

pub(super) fn start_wireguard(server: &Server, number: usize, name: &str) -> Connected {
    let client = client(server, number);
    let file = file(server, name);
    start_program(Program::WireGuardGoOfDebian, &client.namespace, &file, server.scratch.path());
    wait_until_reachable(&client.namespace, server.inner()[0], WAIT).unwrap();
    let inner = config(&file).interface.addresses[0].addr();
    Connected { client, inner, name: name.to_owned(), process: None }
}

/// The pairs of clients that do not reach each other.
pub(super) fn missing(all: &[Connected]) -> Vec<String> {
    let missing_of = |one: &Connected| {
        let others = all.iter().filter(|other| other.inner != one.inner);
        let missing = others.filter(|other| !one.reaches(other.inner));
        missing.map(|other| format!("{} does not reach {}", one.inner, other.inner)).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let parts = all.chunks(all.len().div_ceil(THREADS));
        let threads: Vec<_> =
            parts.map(|part| scope.spawn(|| part.iter().flat_map(missing_of).collect())).collect();
        let found: Vec<Vec<String>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        found.concat()
    })
}

#[test]
fn fifty_clients_of_each_protocol_share_a_port_and_reach_each_other() {
    let test = "fifty_clients_of_each_protocol_share_a_port_and_reach_each_other";
    if !can_run(test, &[PROGRAMS[0], "wg-quick", "bash", "openvpn", "wireguard-go"]) {
        return;
    }
    let server = Server::create_with(&format!(" --wireguard-port {PORT}"));
    let names: Vec<String> = (0..EACH).map(|_| device('m')).collect();
    for name in &names {
        server.adit(&format!("add-client DIR {name} --openvpn --wireguard"));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.env("STATE_DIRECTORY", server.scratch.path()).arg("up");
    command.args([server.dir().join("server.conf"), server.dir().join(format!("{}.conf", server.device))]);
    let mut both = server.namespace.spawn("both", command).unwrap();
    both.wait_for_line(0, &format!("{}: interface up", server.device), WAIT).unwrap();
    server.namespace.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap().unwrap();

    let by_openvpn: Vec<_> =
        names.iter().zip(1..).map(|(name, number)| start_openvpn(&server, number, name)).collect();
    let mut all: Vec<Connected> =
        names.iter().zip(1 + EACH..).map(|(name, number)| start_wireguard(&server, number, name)).collect();
    all.extend(by_openvpn.into_iter().zip(&names).map(|(it, name)| openvpn_connected(&server, it, name)));
    assert_eq!(all.len(), 2 * EACH);
    let missing = missing(&all);
    assert!(missing.is_empty(), "{} pairs: {:?}", missing.len(), &missing[..missing.len().min(5)]);

    // One name leaves both, and no other.
    let own = server.inner()[0];
    server.adit(&format!("revoke DIR {}", names[7]));
    let (out, rest): (Vec<&Connected>, Vec<&Connected>) = all.iter().partition(|it| it.name == names[7]);
    assert_eq!(out.len(), 2);
    let [by_wireguard, by_openvpn] = [out[0], out[1]];
    assert!(!by_wireguard.is_answered(own), "its session ended");
    wait_until("the OpenVPN client to be out", WAIT, || !by_openvpn.is_answered(own)).unwrap();
    for it in rest {
        assert!(it.reaches(own), "{} at {} is out, too\n{}", it.name, it.inner, both.log());
    }
    drop(all);
    assert_eq!(both.terminate(WAIT).unwrap().code(), Some(0), "{}", both.log());
}
