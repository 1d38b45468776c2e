//! `adit up` with an OpenVPN server and a WireGuard interface of the same device: one tunnel, with clients of both.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{
    Authority, KeyKind, MAX_WAIT, Namespace, Ping, Process, Purpose, Scratch, Validity, can_run, connect,
    program, wait_until, wait_until_reachable, wireguard_listens, wireguard_socket,
};

use super::bed::device;

const WAIT: Duration = MAX_WAIT;
const WIRE: &str = "wire";
/// The inner addresses of the server, and of WireGuard's peer, which is the first of the pool.
const SERVER: &str = "10.80.0.1";
const PEER: &str = "10.80.0.2";
/// OpenVPN's port.
const PORT: u16 = 1194;

/// A namespace for the server, and one for each client.
struct Bed {
    hub: Namespace,
    openvpn: Namespace,
    wireguard: Namespace,
    scratch: Scratch,
    authority: Authority,
    /// The private and the public key of WireGuard's server and of its client.
    keys: [(String, String); 2],
    /// The tunnel's device, and that of WireGuard's client.
    devices: [String; 2],
}

impl Bed {
    fn build() -> Self {
        let (scratch, hub) = (Scratch::create("beside").unwrap(), Namespace::create("beside").unwrap());
        let client = |number| {
            let client = Namespace::create(&format!("by{number}")).unwrap();
            let [near, far] = [1, 2].map(|last| format!("10.9.{number}.{last}/24"));
            connect(&hub, &[&near], &client, &[&far], &format!("{WIRE}{number}")).unwrap();
            client
        };
        let (openvpn, wireguard) = (client(1), client(2));
        let authority = Authority::create(KeyKind::Ecdsa).unwrap();
        let keys = [(), ()].map(|()| {
            let mut shell = Command::new("sh");
            shell.args(["-c", "key=$(wg genkey) && echo $key && echo $key | wg pubkey"]);
            let words = hub.run(shell).unwrap();
            let mut words = words.split_whitespace().map(str::to_owned);
            (words.next().unwrap(), words.next().unwrap())
        });
        Bed { hub, openvpn, wireguard, scratch, authority, keys, devices: ['s', 'c'].map(device) }
    }

    fn blocks(&self, name: &str, purpose: Purpose) -> String {
        let identity = self.authority.issue(name, purpose, Validity::Now).unwrap();
        let blocks =
            [("ca", &self.authority.certificate), ("cert", &identity.certificate), ("key", &identity.key)];
        blocks.map(|(name, text)| format!("<{name}>\n{text}</{name}>\n")).concat()
    }

    /// Writes the interface's file, with these networks behind its peer; without any, there is no peer.
    fn write_interface(&self, wireguard_port: u16, allowed: &str) -> PathBuf {
        let [device, _] = &self.devices;
        let [(private, _), (_, public)] = &self.keys;
        let peer = match allowed {
            "" => String::new(),
            _ => format!("[Peer]\nPublicKey = {public}\nAllowedIPs = {allowed}\n"),
        };
        let interface = format!(
            "[Interface]\nPrivateKey = {private}\nAddress = {SERVER}/24\nListenPort = {wireguard_port}\n{peer}"
        );
        self.scratch.write(&format!("{device}.conf"), &interface).unwrap()
    }

    /// Starts the process with both files, and waits until both listen.
    fn up(&self, wireguard_port: u16) -> Process {
        let [device, _] = &self.devices;
        let server = format!(
            "dev {device}\ndev-type tun\nproto udp\nserver 10.80.0.0 255.255.255.0\ntopology subnet\ndh none\n\
             verb 3\nkeepalive 5 20\nclient-to-client\nmanagement {} unix\n{}",
            self.management().display(),
            self.blocks("server", Purpose::Server)
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        command.env("STATE_DIRECTORY", self.scratch.path()).arg("up");
        // The interface's file first: it waits for the server's sockets.
        command.arg(self.write_interface(wireguard_port, &format!("{PEER}/32")));
        command.arg(self.scratch.write("openvpn.conf", &server).unwrap());
        let mut process = self.hub.spawn("both", command).unwrap();
        process.wait_for_line(0, "openvpn: listening on", WAIT).unwrap();
        process.wait_for_line(0, &format!("{device}: interface up"), WAIT).unwrap();
        process
    }

    fn connect_openvpn(&self, server: &Process) -> Process {
        let text = format!(
            "client\ndev tun0\nnobind\nproto udp4\nremote 10.9.1.1 {PORT}\nremote-cert-tls server\nverb 3\n{}",
            self.blocks("client", Purpose::Client)
        );
        let mut command = program("openvpn").unwrap();
        command.arg("--config").arg(self.scratch.write("client.conf", &text).unwrap());
        let process = self.openvpn.spawn("openvpn", command).unwrap();
        if let Err(error) = wait_until_reachable(&self.openvpn, SERVER.parse().unwrap(), WAIT) {
            panic!("{error}\n{}\n{}", process.log(), server.log());
        }
        process
    }

    fn connect_wireguard(&self, port: u16, server: &Process) -> Process {
        let [_, device] = &self.devices;
        let mut command = program("wireguard-go").unwrap();
        command.args(["-f", device]);
        let process = self.wireguard.spawn("wireguard-go", command).unwrap();
        wait_until("its socket", WAIT, || wireguard_listens(device)).unwrap();
        let [(_, public), (private, _)] = &self.keys;
        let mut wg = program("wg").unwrap();
        wg.args(["set", device, "private-key"]).arg(self.scratch.write("key", private).unwrap());
        wg.args(["peer", public, "allowed-ips", "10.80.0.0/24", "endpoint", &format!("10.9.2.1:{port}")]);
        self.wireguard.run(wg).unwrap();
        self.wireguard.ip(&["address", "add", &format!("{PEER}/24"), "dev", device]).unwrap();
        self.wireguard.ip(&["link", "set", device, "up"]).unwrap();
        if let Err(error) = wait_until_reachable(&self.wireguard, SERVER.parse().unwrap(), WAIT) {
            panic!("{error}\n{}\n{}", process.log(), server.log());
        }
        process
    }

    /// The management socket of OpenVPN's endpoint.
    fn management(&self) -> PathBuf {
        self.scratch.path().join("management")
    }

    /// Ends OpenVPN's endpoint.
    fn end_openvpn(&self) {
        let mut socket = UnixStream::connect(self.management()).unwrap();
        socket.write_all(b"signal SIGTERM\n").unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        let answers = BufReader::new(socket).lines().map(Result::unwrap);
        assert!(answers.into_iter().any(|line| line.starts_with("SUCCESS")));
    }

    /// The inner address of OpenVPN's client.
    fn inner(&self) -> IpAddr {
        let listing = self.openvpn.ip(&["-oneline", "-4", "address", "show", "dev", "tun0"]).unwrap();
        listing.split_whitespace().nth(3).unwrap().split('/').next().unwrap().parse().unwrap()
    }

    /// No device but the wires is left, and no socket.
    fn is_clean(&self) -> bool {
        let only_wires = self.hub.devices().unwrap().iter().all(|device| device.starts_with(WIRE));
        only_wires && self.devices.iter().all(|device| !wireguard_socket(device).exists())
    }
}

/// Clients of both reach each other through the server, with WireGuard at that port. OpenVPN's endpoint ends alone.
fn reach_each_other(wireguard_port: u16) {
    let bed = Bed::build();
    let mut server = bed.up(wireguard_port);
    let mut openvpn = bed.connect_openvpn(&server);
    let mut wireguard = bed.connect_wireguard(wireguard_port, &server);
    let inner = bed.inner();
    assert_ne!(inner, PEER.parse::<IpAddr>().unwrap());
    for (from, target) in [(&bed.openvpn, PEER.parse().unwrap()), (&bed.wireguard, inner)] {
        let report = Ping::new(50, Duration::from_millis(2)).run(from, target).unwrap();
        assert!(report.is_clean(), "{report:?}\n{}", server.log());
    }
    bed.end_openvpn();
    server.wait_for_line(0, "openvpn: ended on request", WAIT).unwrap();
    let report =
        Ping::new(50, Duration::from_millis(2)).run(&bed.wireguard, SERVER.parse().unwrap()).unwrap();
    assert!(report.is_clean(), "{report:?}\n{}", server.log());
    assert_eq!(server.terminate(WAIT).unwrap().code(), Some(0), "{}", server.log());
    drop(openvpn.terminate(WAIT));
    drop(wireguard.terminate(WAIT));
    wait_until("everything to go", WAIT, || bed.is_clean()).unwrap();
}

#[test]
fn clients_of_openvpn_and_wireguard_reach_each_other_in_one_tunnel() {
    if can_run("openvpn and wireguard in one tunnel", &["openvpn", "wg", "wireguard-go"]) {
        reach_each_other(51820);
    }
}

#[test]
fn clients_of_openvpn_and_wireguard_reach_each_other_at_one_port() {
    if can_run("openvpn and wireguard at one port", &["openvpn", "wg", "wireguard-go"]) {
        reach_each_other(PORT);
    }
}

/// The interface follows its changed file, and OpenVPN's client does not notice, also at one port.
#[test]
fn sighup_changes_an_interface_beside_an_openvpn_server() {
    if !can_run("sighup of an interface beside openvpn", &["openvpn", "wg", "wireguard-go"]) {
        return;
    }
    let bed = Bed::build();
    let mut server = bed.up(PORT);
    let mut openvpn = bed.connect_openvpn(&server);
    let mut wireguard = bed.connect_wireguard(PORT, &server);
    let inner = bed.inner();
    let more = "10.80.0.77";
    bed.wireguard.ip(&["address", "add", &format!("{more}/32"), "dev", &bed.devices[1]]).unwrap();
    // How many of five pings are answered within that time after the last.
    let within = |timeout, from: &Namespace, target: &str| {
        let ping = Ping { timeout, ..Ping::new(5, Duration::from_millis(2)) };
        ping.run(from, target.parse().unwrap()).unwrap().received
    };
    let soon = |from: &Namespace, target: &str| within(Duration::from_millis(500), from, target);
    assert_eq!(soon(&bed.openvpn, more), 0);
    let hang_up = |server: &mut Process, allowed: &str| {
        let mark = server.mark();
        let file = bed.write_interface(PORT, allowed);
        server.hang_up();
        server.wait_for_line(mark, &format!("SIGHUP: {} holds", file.display()), WAIT).unwrap();
    };

    hang_up(&mut server, &format!("{PEER}/32, {more}/32"));
    let answers = [(&bed.openvpn, more), (&bed.openvpn, PEER), (&bed.wireguard, SERVER)];
    for (from, target) in answers {
        assert_eq!(within(WAIT, from, target), 5, "{target}\n{}", server.log());
    }
    assert_eq!(within(WAIT, &bed.wireguard, &inner.to_string()), 5, "{}", server.log());

    hang_up(&mut server, "");
    wait_until("the peer to go", WAIT, || soon(&bed.openvpn, PEER) == 0).unwrap();
    assert_eq!(within(WAIT, &bed.openvpn, SERVER), 5);
    // Packets that it sends now are not answered: it begins a handshake 15 s later, and tries again each 5 s.
    assert_eq!(soon(&bed.wireguard, SERVER), 0);
    hang_up(&mut server, &format!("{PEER}/32"));
    wait_until("the peer to come back", WAIT, || soon(&bed.openvpn, PEER) > 0).unwrap();

    assert_eq!(openvpn.count_lines(0, "Initialization Sequence Completed"), 1, "{}", openvpn.log());
    assert_eq!(server.terminate(WAIT).unwrap().code(), Some(0), "{}", server.log());
    drop(openvpn.terminate(WAIT));
    drop(wireguard.terminate(WAIT));
    wait_until("everything to go", WAIT, || bed.is_clean()).unwrap();
}
