//! Two server files that are endpoints of one tunnel, in one process: one for UDP, one for TCP.

use std::io::{Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{
    Authority, Identity, KeyKind, MAX_WAIT, Namespace, Ping, Process, Purpose, Scratch, Validity, can_run,
    connect, program, wait_until, wait_until_reachable,
};
use serde_json::Value;

use super::tunnels::{blocks, tunnels_of};
use crate::bed::PROGRAMS;

const WAIT: Duration = MAX_WAIT;
/// The device that joins a client to the server.
const WIRE: &str = "wire";
/// The server's inner address.
const SERVER: &str = "10.80.0.1";

/// A namespace for the server, and one for each client.
struct Bed {
    hub: Namespace,
    clients: Vec<Namespace>,
    scratch: Scratch,
    authority: Authority,
    server: Identity,
}

/// Which program a client is, and how it connects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    OpenVpn,
    Adit,
}

impl Bed {
    fn build(clients: usize) -> Self {
        let authority = Authority::create(KeyKind::Ecdsa).unwrap();
        let server = authority.issue("server", Purpose::Server, Validity::Now).unwrap();
        let hub = Namespace::create("endpoints").unwrap();
        let client = |number| {
            let client = Namespace::create(&format!("end{number}")).unwrap();
            let [near, far] = [1, 2].map(|last| format!("10.9.{number}.{last}/24"));
            connect(&hub, &[&near], &client, &[&far], &format!("{WIRE}{number}")).unwrap();
            client
        };
        let clients = (1..=clients).map(client).collect();
        Bed { hub, clients, scratch: Scratch::create("endpoints").unwrap(), authority, server }
    }

    /// Writes the file of the endpoint for `proto`, with these lines besides.
    fn endpoint(&self, proto: &str, lines: &str) -> PathBuf {
        let path = self.scratch.path();
        let text = format!(
            "dev tun0\nproto {proto}4\nserver 10.80.0.0 255.255.255.0\ntopology subnet\ndh none\nverb 3\n\
             keepalive 5 20\nifconfig-pool-persist {}\nmanagement {} unix\n{lines}{}",
            path.join("pool").display(),
            path.join(format!("{proto}.sock")).display(),
            blocks(&self.authority, &self.server)
        );
        self.scratch.write(&format!("{proto}.conf"), &text).unwrap()
    }

    /// Starts both endpoints, and waits until they listen.
    fn up(&self, lines: &str) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        command.arg("up").args([self.endpoint("udp", lines), self.endpoint("tcp", lines)]);
        let mut process = self.hub.spawn("endpoints", command).unwrap();
        for name in ["udp", "tcp"] {
            process.wait_for_line(0, &format!("{name}: listening on"), WAIT).unwrap();
        }
        process
    }

    /// Starts the client of that number, and waits until it reaches the server.
    fn connect(&self, number: usize, kind: Kind, proto: &str, identity: &Identity) -> Process {
        let proto_line =
            if proto == "tcp" { "proto tcp4-client" } else { "proto udp4\nexplicit-exit-notify 1" };
        let text = format!(
            "client\ndev tun0\nnobind\nremote 10.9.{number}.1 1194\n{proto_line}\nremote-cert-tls server\nverb 3\n\
             connect-retry 60\n{}",
            blocks(&self.authority, identity)
        );
        let file = self.scratch.write(&format!("c{number}-{proto}.conf"), &text).unwrap();
        let mut command = match kind {
            Kind::Adit => Command::new(env!("CARGO_BIN_EXE_adit")),
            Kind::OpenVpn => program("openvpn").unwrap(),
        };
        command.arg(if kind == Kind::Adit { "up" } else { "--config" }).arg(file);
        let namespace = &self.clients[number - 1];
        let process = namespace.spawn(&format!("client {number} ({proto})"), command).unwrap();
        if let Err(error) = wait_until_reachable(namespace, SERVER.parse().unwrap(), WAIT) {
            panic!("{error}\n{}", process.log());
        }
        process
    }

    fn identity(&self, name: &str) -> Identity {
        self.authority.issue(name, Purpose::Client, Validity::Now).unwrap()
    }

    /// The inner address of the client of that number.
    fn inner(&self, number: usize) -> IpAddr {
        let listing =
            self.clients[number - 1].ip(&["-oneline", "-4", "address", "show", "dev", "tun0"]).unwrap();
        listing.split_whitespace().nth(3).unwrap().split('/').next().unwrap().parse().unwrap()
    }

    /// The answer of the management socket of an endpoint until `end`.
    fn ask(&self, proto: &str, command: &str, end: &str) -> String {
        let mut socket = UnixStream::connect(self.scratch.path().join(format!("{proto}.sock"))).unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        socket.write_all(format!("{command}\n").as_bytes()).unwrap();
        let (mut text, mut buffer) = (String::new(), [0; 4096]);
        while !text.contains(end) {
            let length = socket.read(&mut buffer).unwrap();
            assert!(length > 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
        text
    }

    /// No device but the wires is left.
    fn is_clean(&self) -> bool {
        self.hub.devices().unwrap().iter().all(|device| device.starts_with(WIRE))
    }
}

/// The clients of an endpoint, by name.
fn clients_of(process: &Process, endpoint: &str) -> Vec<String> {
    let all = tunnels_of(process.id());
    let found = all.iter().find(|report| report["name"] == endpoint).unwrap();
    assert_eq!(found["endpoints"], serde_json::json!(["udp", "tcp"]));
    let name = |peer: &Value| peer["name"].as_str().unwrap().to_owned();
    found["peers"].as_array().unwrap().iter().map(name).collect()
}

#[test]
fn clients_of_two_endpoints_reach_each_other_and_one_endpoint_ends_alone() {
    if !can_run("two endpoints of one tunnel", &PROGRAMS) {
        return;
    }
    let bed = Bed::build(4);
    let mut process = bed.up("client-to-client\n");
    let kinds = [(Kind::OpenVpn, "udp"), (Kind::OpenVpn, "tcp"), (Kind::Adit, "udp"), (Kind::Adit, "tcp")];
    let mut clients: Vec<Process> = (1..)
        .zip(kinds)
        .map(|(number, (kind, proto))| {
            bed.connect(number, kind, proto, &bed.identity(&format!("client{number}")))
        })
        .collect();
    // Each client reaches each, by any endpoint.
    let inner: Vec<IpAddr> = (1..=4).map(|number| bed.inner(number)).collect();
    for (from, namespace) in bed.clients.iter().enumerate() {
        for (_, target) in inner.iter().enumerate().filter(|(to, _)| *to != from) {
            let report = Ping::new(20, Duration::from_millis(2)).run(namespace, *target).unwrap();
            assert!(report.is_clean(), "{report:?}\n{}", process.log());
        }
    }
    // Each endpoint lists its own clients.
    assert_eq!(clients_of(&process, "udp"), ["client1", "client3"]);
    assert_eq!(clients_of(&process, "tcp"), ["client2", "client4"]);
    let output = Command::new(env!("CARGO_BIN_EXE_adit")).arg("status").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("), endpoints of one tunnel on tun0"), "{text}");
    let status = bed.ask("tcp", "status 2", "END");
    assert!(status.contains("client2") && !status.contains("client1"), "{status}");

    // The first endpoint ends while clients of the second carry packets.
    std::thread::scope(|scope| {
        let busy = [(2, inner[3]), (4, SERVER.parse().unwrap())].map(|(number, target)| {
            let namespace = &bed.clients[number - 1];
            scope.spawn(move || Ping::new(1500, Duration::from_millis(2)).run(namespace, target).unwrap())
        });
        std::thread::sleep(Duration::from_millis(500));
        bed.ask("udp", "signal SIGTERM", "SUCCESS");
        process.wait_for_line(0, "udp: ended on request", WAIT).unwrap();
        for report in busy {
            let report = report.join().unwrap();
            assert!(report.is_clean(), "{report:?}\n{}", process.log());
        }
    });
    assert_eq!(tunnels_of(process.id()).len(), 1);
    assert_eq!(clients_of(&process, "tcp"), ["client2", "client4"]);
    assert!(process.is_running() && bed.hub.devices().unwrap().contains(&"tun0".to_owned()));
    assert_eq!(process.terminate(WAIT).unwrap().code(), Some(0), "{}", process.log());
    wait_until("the device to go", WAIT, || bed.is_clean()).unwrap();
    // Both endpoints' clients are in the file that both remember in.
    let remembered = std::fs::read_to_string(bed.scratch.path().join("pool")).unwrap();
    assert!((1..=4).all(|number| remembered.contains(&format!("client{number},"))), "{remembered}");
    clients.iter_mut().for_each(|client| drop(client.kill()));
}

#[test]
fn a_name_moves_from_one_endpoint_to_the_other_with_its_address() {
    if !can_run("a name at two endpoints", &PROGRAMS) {
        return;
    }
    let bed = Bed::build(3);
    let mut process = bed.up("");
    let (alice, bob) = (bed.identity("alice"), bed.identity("bob"));
    let mut first = bed.connect(1, Kind::OpenVpn, "udp", &alice);
    let address = bed.inner(1);
    let mut other = bed.connect(2, Kind::Adit, "tcp", &bob);
    assert_ne!(bed.inner(2), address);
    // It goes without a word, so that its older session is still there.
    first.kill().unwrap();
    let has_device = || bed.clients[0].devices().unwrap().contains(&"tun0".to_owned());
    wait_until("its device to go", WAIT, || !has_device()).unwrap();
    let moves = [(1, Kind::OpenVpn, "tcp", "udp"), (3, Kind::Adit, "udp", "tcp")];
    let mut later = Vec::new();
    for (number, kind, to, from) in moves {
        let mark = process.mark();
        // The one before it waits a minute when it is sent away.
        later.push(bed.connect(number, kind, to, &alice));
        assert_eq!(bed.inner(number), address, "{}", process.log());
        let line = "alice: replaced by a new connection of the same client at another endpoint";
        process.wait_for_line(mark, line, WAIT).unwrap();
        let ping = Ping::new(200, Duration::from_millis(2));
        let report = ping.run(&bed.clients[number - 1], SERVER.parse().unwrap()).unwrap();
        assert!(report.is_clean(), "{report:?}\n{}", process.log());
        assert!(clients_of(&process, to).contains(&"alice".to_owned()));
        assert!(!clients_of(&process, from).contains(&"alice".to_owned()));
    }
    assert_eq!(process.terminate(WAIT).unwrap().code(), Some(0), "{}", process.log());
    wait_until("the device to go", WAIT, || bed.is_clean()).unwrap();
    later.iter_mut().chain([&mut other]).for_each(|client| drop(client.kill()));
}

#[test]
fn endpoints_that_contradict_each_other_start_nothing() {
    if !can_run("contradictions of endpoints", &PROGRAMS) {
        return;
    }
    let bed = Bed::build(0);
    let [udp, tcp] = [bed.endpoint("udp", ""), bed.endpoint("tcp", "client-to-client\n")];
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    let output = command.arg("check").args([&udp, &tcp]).output().unwrap();
    let why = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{why}");
    assert!(why.contains("tcp.conf:10: `client-to-client`, but no `client-to-client` at "), "{why}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.arg("up").args([&udp, &tcp]);
    let mut process = bed.hub.spawn("contradiction", command).unwrap();
    assert_eq!(process.wait(WAIT).unwrap().code(), Some(2), "{}", process.log());
    assert!(process.log().contains("endpoints of one tunnel") && bed.is_clean(), "{}", process.log());
}
