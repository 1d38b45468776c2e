//! The files that `adit init --wireguard` and `adit add-client --wireguard` make, set up with Debian's `wg`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use adit_testbed::{Namespace, Ping, Scratch, can_run, connect, program, wait_until, wait_until_reachable};
use adit_wireguard_config::Config;

use super::bed::{PROGRAMS, Program, WAIT, device};

/// Where clients reach the server, whichever wire they have.
pub(super) const ENDPOINT: &str = "10.99.0.1";

/// A server's directory, and the server in a namespace.
pub(super) struct Server {
    pub(super) scratch: Scratch,
    pub(super) namespace: Namespace,
    pub(super) device: String,
}

/// A client's namespace, with a wire to the server's.
pub(super) struct Client {
    pub(super) namespace: Namespace,
}

impl Server {
    fn create() -> Self {
        Self::create_with("")
    }

    /// Makes a server, with further words for `adit init`.
    pub(super) fn create_with(words: &str) -> Self {
        let (scratch, device) = (Scratch::create("provisioned").unwrap(), device('p'));
        let namespace = Namespace::create("server").unwrap();
        namespace.ip(&["address", "add", &format!("{ENDPOINT}/32"), "dev", "lo"]).unwrap();
        let server = Server { scratch, namespace, device };
        server.adit(&format!("init DIR --endpoint {ENDPOINT} --wireguard --dev {}{words}", server.device));
        server
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.scratch.path().join("vpn")
    }

    /// Runs `adit`, which is in no namespace: the socket of an interface is in the file system.
    pub(super) fn adit(&self, words: &str) -> String {
        self.run_adit(words, Command::new(env!("CARGO_BIN_EXE_adit")))
    }

    /// Runs `adit` with the state directory of the server.
    pub(super) fn adit_keeping_state(&self, words: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        command.env("STATE_DIRECTORY", self.scratch.path());
        self.run_adit(words, command)
    }

    fn run_adit(&self, words: &str, mut command: Command) -> String {
        let dir = self.dir();
        let dir = dir.to_str().unwrap();
        let output = command.args(words.split(' ').map(|word| if word == "DIR" { dir } else { word }));
        let output = output.output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Makes a client. Its name is that of its interface.
    fn add(&self) -> String {
        let name = device('q');
        self.adit(&format!("add-client DIR {name} --wireguard"));
        name
    }

    fn start(&self) {
        start(&self.namespace, &self.dir().join(format!("{}.conf", self.device)), self.scratch.path());
    }

    /// The address of the server in the tunnel.
    pub(super) fn inner(&self) -> [IpAddr; 2] {
        let config = config(&self.dir().join(format!("{}.conf", self.device)));
        [config.interface.addresses[0].addr(), config.interface.addresses[1].addr()]
    }

    /// How many peers the running interface has.
    fn peers(&self) -> usize {
        let mut wg = program("wg").unwrap();
        wg.args(["show", &self.device, "peers"]);
        self.namespace.run(wg).unwrap().lines().count()
    }
}

impl Client {
    /// Behind wire number `number`.
    pub(super) fn create(server: &Server, number: u8) -> Self {
        let namespace = Namespace::create("client").unwrap();
        let (near, far) = (format!("10.9.{number}.1/24"), format!("10.9.{number}.2/24"));
        let wire = format!("wire{number}");
        connect(&server.namespace, &[&near], &namespace, &[&far], &wire).unwrap();
        namespace.ip(&["route", "add", ENDPOINT, "via", &format!("10.9.{number}.1")]).unwrap();
        Client { namespace }
    }

    /// Sets its interface up by the file that was made for this name.
    fn start(&self, server: &Server, name: &str) {
        start(&self.namespace, &file(server, name), server.scratch.path());
    }

    /// Whether the server answers.
    fn is_answered(&self, server: &Server) -> bool {
        let ping = Ping { timeout: Duration::from_millis(500), ..Ping::new(3, Duration::from_millis(100)) };
        ping.run(&self.namespace, server.inner()[0]).unwrap().received > 0
    }

    fn reaches(&self, targets: &[IpAddr]) {
        for target in targets {
            wait_until_reachable(&self.namespace, *target, WAIT).unwrap();
        }
    }
}

pub(super) fn file(server: &Server, name: &str) -> PathBuf {
    server.dir().join(format!("clients/{name}.conf"))
}

pub(super) fn config(file: &Path) -> Config {
    adit_wireguard_config::parse(&std::fs::read(file).unwrap(), "it").unwrap().config
}

/// Runs the steps of wg-quick with a file: where the kernel has WireGuard, wg-quick itself would not ask
/// adit.
fn start(namespace: &Namespace, file: &Path, state: &Path) {
    start_program(Program::Adit, namespace, file, state);
}

/// Starts an interface with another program.
pub(super) fn start_program(program: Program, namespace: &Namespace, file: &Path, state: &Path) {
    let device = file.file_stem().unwrap().to_str().unwrap();
    let mut daemon = program.command();
    daemon.arg(device).env("STATE_DIRECTORY", state);
    namespace.run(daemon).unwrap();
    let mut set = Command::new("bash");
    set.args(["-c", "wg setconf \"$0\" <(wg-quick strip \"$1\")", device]).arg(file);
    namespace.run(set).unwrap();
    let Config { interface, peers } = config(file);
    for address in &interface.addresses {
        namespace.ip(&["address", "add", &address.to_string(), "dev", device]).unwrap();
    }
    namespace.ip(&["link", "set", device, "up"]).unwrap();
    let is_client = peers.first().is_some_and(|peer| peer.endpoint.is_some());
    for peer in peers.iter().filter(|_| is_client) {
        for allowed in &peer.allowed_ips {
            let adit_wireguard::AllowedIp::Add(net) = allowed else { continue };
            namespace.ip(&["route", "add", &net.to_string(), "dev", device]).unwrap();
        }
    }
}

#[test]
fn made_files_join_clients_and_revoke_parts_them_at_once() {
    let test = "made_files_join_clients_and_revoke_parts_them_at_once";
    if !can_run(test, &[PROGRAMS[0], "wg-quick", "bash"]) {
        return;
    }
    let server = Server::create();
    let clients = [Client::create(&server, 1), Client::create(&server, 2)];
    let names = [server.add(), server.add()];
    server.start();
    for (client, name) in clients.iter().zip(&names) {
        client.start(&server, name);
        client.reaches(&server.inner());
    }
    let [first, second] = &clients;
    // They reach each other through the server.
    server.namespace.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap().unwrap();
    let inner = config(&file(&server, &names[1])).interface.addresses[0].addr();
    first.reaches(&[inner]);

    let said = server.adit(&format!("revoke DIR {}", names[0]));
    assert!(said.contains("Revoked") && !said.contains("wg syncconf"), "{said}");
    assert_eq!(server.peers(), 1);
    assert!(!first.is_answered(&server), "its session ended");
    second.reaches(&server.inner());

    // A client that is made now is let in without a further command.
    let third = server.add();
    assert_eq!(server.peers(), 2);
    first.namespace.ip(&["link", "delete", &names[0]]).unwrap();
    first.start(&server, &third);
    first.reaches(&server.inner());

    // New keys take the place of the old at once.
    let said = server.adit(&format!("renew DIR {third} --wireguard"));
    assert!(!said.contains("Note"), "{said}");
    assert_eq!(server.peers(), 2);
    wait_until("the old keys to be out", WAIT, || !first.is_answered(&server)).unwrap();
    second.reaches(&server.inner());

    // The running interface is as the file has it.
    let mut pairs = Command::new("bash");
    pairs.args(["-c", "wg showconf \"$0\" | grep -E 'PublicKey|AllowedIPs' | sort"]).arg(&server.device);
    let mut written = Command::new("bash");
    written.args(["-c", "grep -E 'PublicKey|AllowedIPs' \"$0\" | sort"]);
    written.arg(server.dir().join(format!("{}.conf", server.device)));
    assert_eq!(server.namespace.run(pairs).unwrap(), server.namespace.run(written).unwrap());
}

#[test]
fn one_process_serves_both_files_and_a_revoked_name_leaves_both() {
    let test = "one_process_serves_both_files_and_a_revoked_name_leaves_both";
    if !can_run(test, &[PROGRAMS[0], "wg-quick", "bash"]) {
        return;
    }
    let server = Server::create();
    let [by_openvpn, by_wireguard] = [Client::create(&server, 1), Client::create(&server, 2)];
    // Without `multihome` the system chooses the address that OpenVPN's clients are answered from.
    let source = ["route", "replace", "10.9.1.0/24", "dev", "wire1", "src", ENDPOINT];
    server.namespace.ip(&source).unwrap();
    let (name, other) = (device('q'), server.add());
    server.adit(&format!("add-client DIR {name} --openvpn --wireguard"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.env("STATE_DIRECTORY", server.scratch.path()).arg("up");
    command.args([server.dir().join("server.conf"), server.dir().join(format!("{}.conf", server.device))]);
    let mut both = server.namespace.spawn("both", command).unwrap();
    both.wait_for_line(0, "server: listening on", WAIT).unwrap();
    both.wait_for_line(0, &format!("{}: interface up", server.device), WAIT).unwrap();

    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.arg("up").arg(server.dir().join(format!("clients/{name}.ovpn")));
    let openvpn = by_openvpn.namespace.spawn("OpenVPN's client", command).unwrap();
    if wait_until_reachable(&by_openvpn.namespace, server.inner()[0], WAIT).is_err() {
        panic!("{}\n{}", openvpn.log(), both.log());
    }
    by_wireguard.start(&server, &other);
    by_wireguard.reaches(&server.inner());
    // They reach each other through the server, which has one device.
    server.namespace.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap().unwrap();
    by_openvpn.reaches(&[config(&file(&server, &other)).interface.addresses[0].addr()]);

    // The name is added for WireGuard, in the place of the OpenVPN client.
    by_wireguard.namespace.ip(&["link", "delete", &other]).unwrap();
    by_wireguard.start(&server, &name);
    by_wireguard.reaches(&server.inner());
    by_openvpn.reaches(&server.inner()[..1]);

    server.adit(&format!("revoke DIR {name}"));
    assert_eq!(server.peers(), 1);
    assert!(!by_wireguard.is_answered(&server), "its session ended");
    wait_until("the OpenVPN client to be out", WAIT, || !by_openvpn.is_answered(&server)).unwrap();
    drop(openvpn);
    drop(both);
}
