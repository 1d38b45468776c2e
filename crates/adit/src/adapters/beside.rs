//! An OpenVPN server and a WireGuard interface as endpoints of one tunnel, in this process, with real clients of both:
//! OpenVPN's, and Debian's wireguard-go.

use std::net::IpAddr;
use std::process::Command as Program;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use adit_core::{Command, Ended, UnixTime};
use adit_io::{Driver, DriverError, Handle, Observer, OffloadSwitches};
use adit_openvpn::Server;
use adit_openvpn::credentials::Credentials;
use adit_openvpn::request::{Event, Request};
use adit_openvpn_config::Role;
use adit_testbed::{
    Authority, KeyKind, Namespace, Ping, Process, Purpose, Scratch, Validity, can_run, connect, program,
    wait_until, wait_until_reachable, wireguard_listens, wireguard_socket,
};
use adit_wireguard::{AllowedIp, Changes, Interface, PeerChange};
use zeroize::Zeroizing;

use crate::openvpn::adapter::{codec, translate};
use crate::wireguard::adapter::interface::{MTU, Settings, SharedTunnel, Tunnel, driver_config};
use adit_host::log::{LogSettings, Logger};

const WAIT: Duration = Duration::from_secs(60);
const WIRE: &str = "wire";
/// The inner addresses of the server, and of the peer of WireGuard, which is the first of the pool.
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
    /// The file of the OpenVPN server, and that of its client.
    files: [String; 2],
    /// The private and the public key of WireGuard's server and of its client.
    keys: [(String, String); 2],
}

impl Bed {
    fn build(lines: &str) -> Self {
        let (scratch, hub) = (Scratch::create("beside").unwrap(), Namespace::create("beside").unwrap());
        let client = |number| {
            let client = Namespace::create(&format!("by{number}")).unwrap();
            let [near, far] = [1, 2].map(|last| format!("10.9.{number}.{last}/24"));
            connect(&hub, &[&near], &client, &[&far], &format!("{WIRE}{number}")).unwrap();
            client
        };
        let (openvpn, wireguard) = (client(1), client(2));
        let authority = Authority::create(KeyKind::Ecdsa).unwrap();
        let blocks = |name, purpose| {
            let identity = authority.issue(name, purpose, Validity::Now).unwrap();
            let blocks =
                [("ca", &authority.certificate), ("cert", &identity.certificate), ("key", &identity.key)];
            blocks.map(|(name, text)| format!("<{name}>\n{text}</{name}>\n")).concat()
        };
        let server = format!(
            "dev {}\nproto udp\nserver 10.80.0.0 255.255.255.0\ntopology subnet\ndh none\nkeepalive 5 20\n{lines}{}",
            device(),
            blocks("server", Purpose::Server)
        );
        let client = format!(
            "client\ndev tun0\nnobind\nproto udp4\nremote 10.9.1.1 {PORT}\nremote-cert-tls server\nverb 3\n{}",
            blocks("client", Purpose::Client)
        );
        let keys = [(), ()].map(|()| {
            let mut shell = Program::new("sh");
            shell.args(["-c", "key=$(wg genkey) && echo $key && echo $key | wg pubkey"]);
            let words = hub.run(shell).unwrap();
            let mut words = words.split_whitespace().map(str::to_owned);
            (words.next().unwrap(), words.next().unwrap())
        });
        Bed { hub, openvpn, wireguard, scratch, files: [server, client], keys }
    }

    /// Both endpoints at work.
    fn start(&self, wireguard_port: u16) -> Both {
        let wireguard = self.configuration(wireguard_port);
        self.hub.enter(|| Both::start(&self.files[0], wireguard)).unwrap()
    }

    /// What a file of the interface would say.
    fn configuration(&self, port: u16) -> Changes {
        let [(private, _), (_, public)] = &self.keys;
        let file = format!(
            "[Interface]\nPrivateKey = {private}\nListenPort = {port}\n[Peer]\nPublicKey = {public}\nAllowedIPs = {PEER}/32\n"
        );
        let config = adit_wireguard_config::parse(file.as_bytes(), "wg0.conf").expect("a good file").config;
        let key = config.interface.private_key.expect("it has one");
        let peer = |peer: &adit_wireguard_config::Peer| PeerChange {
            allowed_ips: vec![AllowedIp::Add(format!("{PEER}/32").parse().unwrap())],
            ..PeerChange::new(peer.public_key)
        };
        Changes {
            private_key: Some(Some(key)),
            listen_port: config.interface.listen_port,
            peers: config.peers.iter().map(peer).collect(),
            ..Changes::default()
        }
    }

    fn connect_openvpn(&self) -> Process {
        let file = self.scratch.write("client.conf", &self.files[1]).unwrap();
        let mut command = program("openvpn").unwrap();
        command.arg("--config").arg(file);
        let process = self.openvpn.spawn("openvpn", command).unwrap();
        if let Err(error) = wait_until_reachable(&self.openvpn, SERVER.parse().unwrap(), WAIT) {
            panic!("{error}\n{}", process.log());
        }
        process
    }

    fn connect_wireguard(&self, port: u16) -> Process {
        let device = client_device();
        let mut command = program("wireguard-go").unwrap();
        command.args(["-f", &device]);
        let process = self.wireguard.spawn("wireguard-go", command).unwrap();
        wait_until("its socket", WAIT, || wireguard_listens(&device)).unwrap();
        let [(_, public), (private, _)] = &self.keys;
        let key = self.scratch.write("key", private).unwrap();
        let mut wg = program("wg").unwrap();
        wg.args(["set", &device, "private-key"]).arg(key);
        wg.args(["peer", public, "allowed-ips", "10.80.0.0/24", "endpoint", &format!("10.9.2.1:{port}")]);
        self.wireguard.run(wg).unwrap();
        self.wireguard.ip(&["address", "add", &format!("{PEER}/24"), "dev", &device]).unwrap();
        self.wireguard.ip(&["link", "set", &device, "up"]).unwrap();
        if let Err(error) = wait_until_reachable(&self.wireguard, SERVER.parse().unwrap(), WAIT) {
            panic!("{error}\n{}", process.log());
        }
        process
    }

    /// The inner address of OpenVPN's client.
    fn inner(&self) -> IpAddr {
        let listing = self.openvpn.ip(&["-oneline", "-4", "address", "show", "dev", "tun0"]).unwrap();
        listing.split_whitespace().nth(3).unwrap().split('/').next().unwrap().parse().unwrap()
    }

    /// No device but the wires is left, and no file.
    fn is_clean(&self) -> bool {
        let only_wires = self.hub.devices().unwrap().iter().all(|device| device.starts_with(WIRE));
        only_wires && !wireguard_socket(&client_device()).exists()
    }
}

/// The name of the tunnel's device. What is kept of an interface has its name, outside of any namespace.
fn device() -> String {
    format!("tun{}", std::process::id())
}

fn client_device() -> String {
    format!("wg{}c9", std::process::id())
}

/// The two endpoints.
struct Both {
    openvpn: Handle<Server>,
    wireguard: Handle<Interface>,
    threads: [JoinHandle<Result<Ended, DriverError>>; 2],
}

/// Hears when a server is up.
struct Up(Option<Sender<()>>);

impl Observer<Server> for Up {
    fn event(&mut self, event: &Event, _tun_name: &str) {
        if let Event::Up(_) = event {
            drop(self.0.take());
        }
    }

    fn request(&mut self, _request: Request, _tun_name: &str) {}
}

impl Both {
    fn start(file: &str, wireguard: Changes) -> Self {
        let none = |_: &std::path::Path| Err("no such file".to_owned());
        let config = adit_openvpn_config::parse("server.conf", file.as_bytes(), &none).unwrap().config;
        let Role::Server(server) = &config.role else { panic!("no server") };
        let text = |pem: &adit_openvpn_config::Pem| pem.text().as_bytes().to_vec();
        let identity = config.tls.identity.as_ref().unwrap();
        let credentials = Credentials {
            ca: config.tls.ca.as_ref().map(text).unwrap(),
            certificate: text(&identity.cert),
            private_key: Zeroizing::new(text(&identity.key)),
        };
        let now = adit_io::clock().as_nanos() / 1_000_000_000;
        let wall = UnixTime(adit_io::unix_now().0 - now);
        let params = translate::server_params(&config, server, &credentials, None, &[1; 32], wall).unwrap();
        let (shared, workers) = (SharedTunnel::default(), 2);
        let pool = shared.pool.clone();
        let driver = translate::driver_config(&config, OffloadSwitches::default(), workers);
        let mut beside = driver_config(driver.tun.clone(), workers);
        beside.dataplane.client_to_client = driver.dataplane.client_to_client;
        let driver: Driver<Server> = Driver::join(driver, codec::openvpn, &shared.device).unwrap();
        let settings = Settings {
            driver: beside,
            mtu: 1500,
            clamp_mss: MTU,
            tunnel: None,
            configuration: wireguard,
            shared: Some(shared),
        };
        let log = Logger::new(&LogSettings::default()).unwrap();
        let tunnel = Tunnel::set_up(settings, log).unwrap();
        let handles = (driver.handle(), tunnel.orders().handle());
        let (sender, up) = channel();
        let openvpn = thread::spawn(move || {
            let server = Server::with_pool(params, &pool, adit_io::clock(), [2; 32]);
            driver.run(server, &mut Up(Some(sender)))
        });
        is_dropped(&up);
        let (sender, begun) = channel();
        let begin = || {
            drop(sender);
            Ok(())
        };
        let wireguard = thread::spawn(move || tunnel.run(Box::new(begin)));
        is_dropped(&begun);
        Both { openvpn: handles.0, wireguard: handles.1, threads: [openvpn, wireguard] }
    }

    /// Ends them, the second one first or last, with a look in between.
    fn stop(self, wireguard_first: bool, between: impl FnOnce()) {
        let Both { openvpn, wireguard, threads: [server, interface] } = self;
        let end = |is_wireguard: bool| match is_wireguard {
            true => assert!(wireguard.command(Command::Shutdown)),
            false => assert!(openvpn.command(Command::Shutdown)),
        };
        let (first, last) = if wireguard_first { (interface, server) } else { (server, interface) };
        end(wireguard_first);
        assert_eq!(first.join().unwrap().unwrap(), Ended::Shutdown);
        between();
        end(!wireguard_first);
        assert_eq!(last.join().unwrap().unwrap(), Ended::Shutdown);
    }
}

/// Waits until the other end says that it has come so far.
fn is_dropped(word: &Receiver<()>) {
    assert_eq!(word.recv_timeout(WAIT), Err(RecvTimeoutError::Disconnected));
}

fn is_reached(from: &Namespace, target: &str) {
    let report = Ping::new(50, Duration::from_millis(2)).run(from, target.parse().unwrap()).unwrap();
    assert!(report.is_clean(), "{target}: {report:?}");
}

/// Clients of both reach each other and the server, and the end of one endpoint leaves the other's.
fn reach_each_other(lines: &str, wireguard_port: u16, wireguard_first: bool) {
    let bed = Bed::build(lines);
    let both = bed.start(wireguard_port);
    let (mut openvpn, mut wireguard) = (bed.connect_openvpn(), bed.connect_wireguard(wireguard_port));
    assert_ne!(bed.inner().to_string(), PEER);
    is_reached(&bed.openvpn, PEER);
    is_reached(&bed.wireguard, &bed.inner().to_string());
    both.stop(wireguard_first, || {
        is_reached(if wireguard_first { &bed.openvpn } else { &bed.wireguard }, SERVER);
    });
    drop(openvpn.terminate(WAIT));
    drop(wireguard.terminate(WAIT));
    wait_until("everything to go", WAIT, || bed.is_clean()).unwrap();
}

/// One after the other: the names of devices are those of the process.
#[test]
fn openvpn_and_wireguard_clients_of_one_tunnel_reach_each_other() {
    if !can_run("openvpn and wireguard in one tunnel", &["openvpn", "wg", "wireguard-go"]) {
        return;
    }
    reach_each_other("client-to-client\n", 51820, true);
    reach_each_other("client-to-client\n", PORT, true);
    reach_each_other("client-to-client\n", PORT, false);
}
