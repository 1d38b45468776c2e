//! Several tunnels in one process: servers in one namespace, a client of each in a namespace of its own.

use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{
    Authority, Identity, KeyKind, MAX_WAIT, Namespace, Ping, Process, Purpose, Scratch, Validity, can_run,
    connect, transfer, wait_until, wait_until_reachable,
};
use serde_json::Value;

use crate::bed::PROGRAMS;
use crate::privileges::user_and_group::rights_of_threads;

pub(super) const WAIT: Duration = MAX_WAIT;
/// The device that joins a client to the server.
const WIRE: &str = "wire";

/// A namespace with servers, and namespaces with a client each.
pub(super) struct Hub {
    pub(super) namespace: Namespace,
    pub(super) clients: Vec<Namespace>,
    pub(super) scratch: Scratch,
    pub(super) authority: Authority,
    pub(super) identity: Identity,
}

pub(super) fn blocks(authority: &Authority, identity: &Identity) -> String {
    let blocks = [("ca", &authority.certificate), ("cert", &identity.certificate), ("key", &identity.key)];
    let block = |(name, content): (&str, &String)| format!("<{name}>\n{content}</{name}>\n");
    blocks.into_iter().map(block).collect()
}

impl Hub {
    /// Makes a hub for so many tunnels.
    pub(super) fn build(tunnels: usize) -> Self {
        let authority = Authority::create(KeyKind::Ecdsa).unwrap();
        let identity = authority.issue("server", Purpose::Server, Validity::Now).unwrap();
        let namespace = Namespace::create("hub").unwrap();
        let client = |number| {
            let client = Namespace::create(&format!("end{number}")).unwrap();
            let near = [format!("10.9.{number}.1/24")];
            let far = [format!("10.9.{number}.2/24")];
            connect(&namespace, &[&near[0]], &client, &[&far[0]], &format!("{WIRE}{number}")).unwrap();
            client
        };
        let clients = (1..=tunnels).map(client).collect();
        Hub { namespace, clients, scratch: Scratch::create("tunnels").unwrap(), authority, identity }
    }

    /// Writes the server file of that number, with these lines besides.
    pub(super) fn server(&self, number: usize, lines: &str) -> PathBuf {
        let mut text = format!(
            "dev tun{number}\nport {}\nserver 10.80.{number}.0 255.255.255.0\ntopology subnet\ndh none\nverb 3\n\
             keepalive 1 5\nexplicit-exit-notify 1\n{lines}",
            1200 + number
        );
        text.push_str(&blocks(&self.authority, &self.identity));
        self.scratch.write(&format!("s{number}.conf"), &text).unwrap()
    }

    /// Writes the client file for the server of that number.
    pub(super) fn client(&self, number: usize) -> PathBuf {
        let name = format!("client{number}");
        let identity = self.authority.issue(&name, Purpose::Client, Validity::Now).unwrap();
        let mut text = format!(
            "client\ndev tun\nnobind\nremote 10.9.{number}.1 {}\nremote-cert-tls server\nverb 3\n\
             explicit-exit-notify 1\n",
            1200 + number
        );
        let _ = write!(text, "{}", blocks(&self.authority, &identity));
        self.scratch.write(&format!("c{number}.conf"), &text).unwrap()
    }

    pub(super) fn up(&self, arguments: &[&str], files: &[PathBuf]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        command.arg("up").args(arguments).args(files);
        self.namespace.spawn("tunnels", command).unwrap()
    }

    /// Starts the client of that number, and waits until it reaches its server.
    pub(super) fn connect(&self, number: usize) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        command.arg("up").arg(self.client(number));
        let namespace = &self.clients[number - 1];
        let process = namespace.spawn(&format!("client {number}"), command).unwrap();
        wait_until_reachable(namespace, inner(number), WAIT).unwrap();
        process
    }

    /// No device but the wires is left.
    fn is_clean(&self) -> bool {
        self.namespace.devices().unwrap().iter().all(|device| device.starts_with(WIRE))
    }
}

/// The server's inner address.
pub(super) fn inner(number: usize) -> IpAddr {
    format!("10.80.{number}.1").parse().unwrap()
}

/// The tunnels of that process that `adit status` shows.
pub(super) fn tunnels_of(pid: u32) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_adit")).args(["status", "--json"]).output().unwrap();
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    all.as_array().unwrap().iter().filter(|tunnel| tunnel["pid"] == pid).cloned().collect()
}

fn names(tunnels: &[Value]) -> Vec<&str> {
    tunnels.iter().map(|tunnel| tunnel["name"].as_str().unwrap()).collect()
}

#[test]
fn tunnels_of_one_process_live_and_end_alone() {
    if !can_run("tunnels of one process", &PROGRAMS) {
        return;
    }
    let hub = Hub::build(3);
    // One tunnel can be ended alone at its management socket; one file has a mistake; one listens at an address that
    // is not there.
    let socket = hub.scratch.path().join("s2.sock");
    let mut files = vec![
        hub.server(1, ""),
        hub.server(2, &format!("management {} unix\n", socket.display())),
        hub.server(3, ""),
    ];
    files.push(hub.scratch.write("wrong.conf", "client\nremote 192.0.2.1\nno-such-option\n").unwrap());
    files.push(hub.server(9, "local 192.0.2.77\n"));
    let mut process = hub.up(&[], &files);
    process.wait_for_line(0, "s3: listening on", WAIT).unwrap();
    process.wait_for_line(0, "wrong.conf:3: ", WAIT).unwrap();
    process.wait_for_line(0, "error: s9: cannot listen on UDP 192.0.2.77:1209", WAIT).unwrap();
    let mut clients: Vec<Process> = (1..=3).map(|number| hub.connect(number)).collect();
    assert_eq!(names(&tunnels_of(process.id())), ["s1", "s2", "s3"]);
    for rights in rights_of_threads(process.id()) {
        assert_eq!((rights.effective | rights.permitted, rights.seccomp), (0, 2), "{rights:?}");
    }
    for (number, client) in (1..).zip(&hub.clients) {
        let moved = transfer(client, &hub.namespace, inner(number), 4 << 20).unwrap();
        assert!(moved.intact, "{number}");
    }

    // The second ends while the first and the third carry packets.
    std::thread::scope(|scope| {
        let ping = Ping::new(1500, Duration::from_millis(2));
        let busy = [1, 3].map(|number| {
            let client = &hub.clients[number - 1];
            scope.spawn(move || ping.run(client, inner(number)).unwrap())
        });
        std::thread::sleep(Duration::from_millis(500));
        let mut management = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        std::io::Write::write_all(&mut management, b"signal SIGTERM\n").unwrap();
        process.wait_for_line(0, "s2: ended on request", WAIT).unwrap();
        for report in busy {
            let report = report.join().unwrap();
            assert!(report.is_clean(), "{report:?}\n{}", process.log());
        }
    });
    wait_until("its device to go", WAIT, || !hub.namespace.devices().unwrap().contains(&"tun2".to_owned()))
        .unwrap();
    assert_eq!(names(&tunnels_of(process.id())), ["s1", "s3"]);
    assert!(process.is_running() && !socket.exists());

    // The exit code shows the fault at the start.
    let status = process.terminate(WAIT).unwrap();
    assert_eq!(status.code(), Some(2), "{}", process.log());
    wait_until("the devices to go", WAIT, || hub.is_clean()).unwrap();
    assert!(tunnels_of(process.id()).is_empty());
    for client in &mut clients {
        assert!(client.terminate(WAIT).unwrap().success(), "{}", client.log());
    }
}

#[test]
fn clients_and_servers_share_a_process_and_the_first_end_can_end_all() {
    if !can_run("the first tunnel's end", &PROGRAMS) {
        return;
    }
    let hub = Hub::build(2);
    // A server, and a client of another machine's server.
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.arg("up").arg(hub.server(2, ""));
    let mut far = hub.clients[1].spawn("far", command).unwrap();
    far.wait_for_line(0, "listening on", WAIT).unwrap();
    let text = fs::read_to_string(hub.client(2)).unwrap().replace("10.9.2.1 ", "10.9.2.2 ");
    let client = hub.scratch.write("c2.conf", &text).unwrap();
    let mut process = hub.up(&["--exit-with-first"], &[hub.server(1, ""), client]);
    process.wait_for_line(0, "c2: tunnel up: ", WAIT).unwrap();
    let mut near = hub.connect(1);
    wait_until_reachable(&hub.namespace, inner(2), WAIT).unwrap();

    let status = process.terminate(WAIT).unwrap();
    assert_eq!(status.code(), Some(0), "{}", process.log());
    assert!(hub.is_clean(), "{:?}", hub.namespace.devices());

    let mut process =
        hub.up(&["--exit-with-first"], &[hub.server(1, ""), hub.server(9, "local 192.0.2.77\n")]);
    let status = process.wait(WAIT).unwrap();
    assert_eq!(status.code(), Some(1), "{}", process.log());
    assert!(hub.is_clean(), "{}", process.log());
    let _ = (near.kill(), far.kill());
}

#[test]
fn files_that_contradict_each_other_start_nothing() {
    if !can_run("contradictions", &PROGRAMS) {
        return;
    }
    let hub = Hub::build(1);
    let first = hub.server(1, "");
    let text = fs::read_to_string(&first).unwrap();
    let second = hub.scratch.write("second.conf", &text.replace("dev tun1", "dev tun2")).unwrap();
    let mut process = hub.up(&[], &[first, second]);
    let status = process.wait(WAIT).unwrap();
    let log = process.log();
    assert_eq!(status.code(), Some(2), "{log}");
    assert!(
        log.contains("second.conf:2: UDP port 1201 is that of ") && log.contains("s1.conf:2 too"),
        "{log}"
    );
    assert!(!log.contains("listening"), "{log}");
}
