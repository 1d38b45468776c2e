//! Drivers with a toy protocol: it agrees on nothing, for both ends know the keys.

mod access;
mod binding;
mod codec;
mod demultiplexers;
mod device;
mod endpoints;
mod expected;
mod helpers;
mod not_up;
mod port_share;
mod preambles;
mod protocols;
mod sources;
mod tcp;
mod tls;
mod toy;
mod toy_device;
mod toy_ip;
mod toy_ports;
mod toy_series;
mod transfers;
mod turns;
mod udp;
mod workers;

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fs, process};

use adit_core::{
    Command, DataEvent, HandshakeStage, Install, Instant, IpNet, Notice, Path, PeerConfig, PeerId, PeerInfo,
    PeerOrder, Redirect, Rejected, TableUsage, Transport, TunnelSettings,
};
use adit_dataplane::{Config, Egress, Ingress, Offload, ReceiveBatch, TransmitBatch, split};
use adit_system::testing::in_fresh_network;
use adit_system::{Netlink, SocketRouting};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use self::codec::{CONTROL, Codec, Header, Sockets, make_codec, session_id};
use super::*;
use crate::config::{Buffers, Execution, Family, Listen, Remote, StreamOptions};
use crate::tun::TunConfig;
use crate::{OffloadState, OffloadStatus, OffloadSwitches, clock};

type Event = adit_core::Event<(), Codec, ()>;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Which end of the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Client,
    Server,
}

/// A message of a driver to its test.
#[derive(Debug, PartialEq)]
enum Heard {
    Event(String),
    Datagram(Path, Vec<u8>),
    Notice(Notice),
    Closed(String),
    Bound(u32, SocketAddr),
    Prepared(Path, Option<usize>),
}

struct Toy {
    role: Role,
    address: IpNet,
    events: VecDeque<Event>,
    transmits: VecDeque<(Path, Vec<u8>)>,
    path: Option<Path>,
    heard: Sender<Heard>,
    panics: bool,
    redirect: Option<Redirect>,
    /// The time that each datagram takes.
    slow: Duration,
    /// Whether it expects the session of its peer, and installs it when the peer says so.
    expects: bool,
    /// The events that install the session that it expects.
    later: Vec<Event>,
}

impl Toy {
    fn new(role: Role, address: &str) -> (Toy, Receiver<Heard>) {
        let (heard, receiver) = channel();
        let address = address.parse().unwrap();
        let mut toy = Toy {
            role,
            address,
            events: VecDeque::new(),
            transmits: VecDeque::new(),
            path: None,
            heard,
            panics: false,
            redirect: None,
            slow: Duration::ZERO,
            expects: false,
            later: Vec::new(),
        };
        match role {
            Role::Client => toy.events.push_back(Event::Open { remote: 0 }),
            Role::Server => toy.establish(),
        }
        (toy, receiver)
    }

    fn establish(&mut self) {
        let addresses = vec![self.address];
        self.events.push_back(Event::Up(TunnelSettings {
            addresses,
            mtu: 1400,
            redirect: self.redirect,
            ..TunnelSettings::default()
        }));
    }

    fn add_peer(&mut self, path: Path) {
        self.path = Some(path);
        let [add, install, activate] = peer_events(self.role, path).map(Event::Data);
        self.events.push_back(add);
        if self.expects {
            self.events.push_back(Event::Data(DataEvent::Expect(session_id(PeerId::SERVER))));
            self.later = vec![install, activate];
        } else {
            self.events.extend([install, activate]);
        }
    }
}

/// One peer behind `path` with an active session.
fn peer_events(role: Role, path: Path) -> [DataEvent<Codec>; 3] {
    let peer = PeerId::SERVER;
    let session = session_id(peer);
    let (seal, open) = match role {
        Role::Client => (1, 2),
        Role::Server => (2, 1),
    };
    let codec = Codec { header: Header::Number(peer.0), seal, open };
    let routes = vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
    [
        DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer,
            path: Some(path),
            routes,
            selectors: Default::default(),
            max_mss: None,
            roams: false,
            staging: false,
            device: Default::default(),
            by_path: true,
            identity: Default::default(),
        })),
        DataEvent::Install(Box::new(Install::new(peer, session, codec))),
        DataEvent::Activate { peer, session },
    ]
}

/// The datagram upon which a session that is expected is installed.
const INSTALL: [u8; 2] = [CONTROL, b'i'];
/// The second byte of a first packet. The answer is the datagram itself.
const FIRST: u8 = 0xf1;

fn is_first(datagram: &[u8]) -> bool {
    datagram.get(1) == Some(&FIRST)
}

impl Protocol for Toy {
    type Request = ();
    type Reply = ();
    type Detail = ();
    type Codec = Codec;

    fn handle_datagram(&mut self, _now: Instant, path: Path, datagram: &[u8]) -> Result<(), Rejected> {
        assert!(!self.panics, "told to panic");
        thread::sleep(self.slow);
        let _ = self.heard.send(Heard::Datagram(path, datagram.to_vec()));
        if datagram == INSTALL {
            self.events.extend(self.later.drain(..));
        }
        if is_first(datagram) {
            self.transmits.push_back((path, datagram.to_vec()));
            return Ok(());
        }
        if self.role == Role::Server && self.path != Some(path) {
            self.add_peer(path);
            self.transmits.push_back((path, vec![CONTROL, b'!']));
        }
        Ok(())
    }

    fn stage_of(&self, _path: Path, datagram: &[u8]) -> HandshakeStage {
        match is_first(datagram) {
            true => HandshakeStage::First,
            false => HandshakeStage::Established,
        }
    }

    fn handle_command(&mut self, _now: Instant, command: Command) {
        match command {
            Command::Opened { path } if self.role == Role::Client => {
                self.add_peer(path);
                self.establish();
                self.transmits.push_back((path, vec![CONTROL, b'?']));
            }
            Command::Prepared { path, remote } => {
                let _ = self.heard.send(Heard::Prepared(path, remote));
            }
            Command::OpenFailed { failure, .. } => {
                let _ = self.heard.send(Heard::Closed(format!("{failure:?}")));
            }
            Command::Closed { reason, .. } => {
                let _ = self.heard.send(Heard::Closed(reason));
            }
            Command::NotUp { reason } => {
                let _ = self.heard.send(Heard::Closed(reason));
            }
            Command::SocketBound { socket, local } => {
                let _ = self.heard.send(Heard::Bound(socket, local));
            }
            Command::Shutdown => {
                self.transmits.extend(self.path.map(|path| (path, vec![CONTROL, b'.'])));
                self.events.push_back(Event::Ended(Ended::Shutdown));
            }
            _ => {}
        }
    }

    fn handle_reply(&mut self, _now: Instant, (): ()) {}

    fn handle_notice(&mut self, _now: Instant, notice: Notice) {
        let _ = self.heard.send(Heard::Notice(notice));
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_transmit(&mut self, buf: &mut Vec<u8>) -> Option<Path> {
        let (path, datagram) = self.transmits.pop_front()?;
        buf.extend_from_slice(&datagram);
        Some(path)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn peers(&self) -> Vec<(PeerId, PeerInfo<()>)> {
        Vec::new()
    }

    fn tables(&self) -> Vec<TableUsage> {
        Vec::new()
    }
}

struct Log(Sender<Heard>);

impl<P: Protocol<Request = (), Codec = Codec, Detail = ()>> Observer<P> for Log {
    fn event(&mut self, event: &Event, tun_name: &str) {
        let word = match event {
            Event::Up(_) => format!("up {tun_name}"),
            Event::Report(report) => report.to_string(),
            Event::Ended(_) => "ended".to_owned(),
            Event::Open { .. } => return,
            other => format!("{other:?}"),
        };
        let _ = self.0.send(Heard::Event(word));
    }

    fn request(&mut self, (): (), _tun_name: &str) {}
}

fn config(role: Role) -> DriverConfig {
    DriverConfig {
        tun: TunConfig::default(),
        single_peer: role == Role::Client,
        changes_routing: role == Role::Client,
        listen: Vec::new(),
        multihome: false,
        remotes: Vec::new(),
        buffers: Buffers::default(),
        socket_routing: SocketRouting::default(),
        port_share: None,
        workers: 1,
        max_connections: 100,
        resolv_conf: None,
        kill_switch: false,
        dataplane: Config::new(Sockets(role)),
        execution: Execution::default(),
        demultiplexers: BTreeMap::new(),
        streams: StreamOptions::default(),
    }
}

fn client_config(transport: Transport, server: SocketAddr) -> DriverConfig {
    let remote = Remote {
        host: server.ip().to_string(),
        random_hostname: false,
        port: server.port(),
        transport,
        family: Family::Any,
        bind: None,
        connect_timeout: TIMEOUT,
        proxy: None,
        mark: None,
    };
    DriverConfig { remotes: vec![remote], ..config(Role::Client) }
}

fn server_config(transport: Transport, address: &str) -> DriverConfig {
    let listen = Listen { transport, address: address.parse().unwrap() };
    DriverConfig { listen: vec![listen], ..config(Role::Server) }
}

struct Running {
    handle: Handle<Toy>,
    heard: Receiver<Heard>,
    addresses: Vec<SocketAddr>,
    thread: JoinHandle<Result<Ended, DriverError>>,
}

fn start(config: DriverConfig, address: &str) -> Running {
    let role = if config.remotes.is_empty() { Role::Server } else { Role::Client };
    let (toy, heard) = Toy::new(role, address);
    start_toy(config, toy, heard)
}

fn start_toy(config: DriverConfig, toy: Toy, heard: Receiver<Heard>) -> Running {
    run_driver(Driver::new(config, make_codec).unwrap(), toy, heard)
}

fn run_driver(driver: Driver<Toy>, toy: Toy, heard: Receiver<Heard>) -> Running {
    let (handle, addresses) = (driver.handle(), driver.local_addresses());
    let mut log = Log(toy.heard.clone());
    let thread = thread::spawn(move || driver.run(toy, &mut log));
    Running { handle, heard, addresses, thread }
}

impl Running {
    /// Waits for something that the test wants; the rest is passed over.
    fn wait_for(&self, wanted: impl Fn(&Heard) -> bool) -> Heard {
        let mut others = Vec::new();
        loop {
            match self.heard.recv_timeout(TIMEOUT) {
                Ok(heard) if wanted(&heard) => return heard,
                Ok(other) => others.push(other),
                Err(error) => panic!("{error}; heard only {others:?}"),
            }
        }
    }

    fn wait_until_up(&self) {
        self.wait_for(|heard| matches!(heard, Heard::Event(word) if word.starts_with("up")));
    }

    fn stop(self) {
        assert!(self.handle.command(Command::Shutdown));
        assert_eq!(self.thread.join().unwrap().unwrap(), Ended::Shutdown);
    }
}

/// The far end without a driver: the data plane alone.
struct Peer {
    egress: Egress,
    ingress: Ingress,
    transmit_batch: TransmitBatch,
}

impl Peer {
    fn new(role: Role, path: Path) -> Peer {
        let (egress, ingress, _) = adit_dataplane::new(config(role).dataplane);
        let mut peer = Peer { egress, ingress, transmit_batch: TransmitBatch::new() };
        for event in peer_events(role, path) {
            let (out, into) = split(event, make_codec);
            out.into_iter().for_each(|event| peer.egress.apply(event, &mut peer.transmit_batch));
            into.into_iter().for_each(|event| peer.ingress.apply(event));
        }
        peer
    }

    /// The IPv4 packet in a datagram or record, if there is one.
    fn open(&mut self, path: Path, bytes: &mut [u8]) -> Option<Vec<u8>> {
        let mut receive_batch = ReceiveBatch::default();
        self.ingress.open_datagrams(path, bytes, bytes.len(), &mut receive_batch);
        let range = receive_batch.packets().next()?.pieces().next()?;
        Some(bytes[range].to_vec()).filter(|packet| packet[0] >> 4 == 4)
    }

    fn seal(&mut self, packet: &[u8]) -> Vec<u8> {
        self.transmit_batch.clear();
        self.egress.seal_packet(Offload::NONE, &mut packet.to_vec(), &mut self.transmit_batch);
        self.transmit_batch.iter().next().unwrap().bytes.to_vec()
    }
}

/// Exchanges source and destination, which keeps all checksums.
fn turned_around(mut packet: Vec<u8>) -> Vec<u8> {
    let source = packet[12..16].to_vec();
    packet.copy_within(16..20, 12);
    packet[16..20].copy_from_slice(&source);
    let port = packet[20..22].to_vec();
    packet.copy_within(22..24, 20);
    packet[22..24].copy_from_slice(&port);
    packet
}

/// Binds to an address that is free, or was until now: a process that another test is just starting may still hold a copy of
/// the socket before.
fn bind_free(address: &str) -> UdpSocket {
    let try_once = |_| {
        let bound = UdpSocket::bind(address).ok();
        bound.or_else(|| {
            thread::sleep(Duration::from_millis(10));
            None
        })
    };
    (0..2000).find_map(try_once).expect("the address is free")
}

/// This process has no UDP socket there. A process that another test is just starting may still hold a copy of one.
fn assert_closed(address: &str) {
    let local: SocketAddr = address.parse().unwrap();
    let IpAddr::V4(ip) = local.ip() else { panic!("{address} is no IPv4 address") };
    // proc_net(5): the second column is the local address in hexadecimal, with the bytes of IP in the machine's order; the tenth
    // is the inode.
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), local.port());
    let table = fs::read_to_string("/proc/thread-self/net/udp").unwrap();
    let inodes = table.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        (columns.get(1) == Some(&local.as_str())).then(|| format!("socket:[{}]", columns[9]))
    });
    let inodes: Vec<String> = inodes.collect();
    let own = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let held = own.filter_map(|entry| fs::read_link(entry.path()).ok()?.into_os_string().into_string().ok());
    let held: Vec<String> = held.filter(|name| inodes.contains(name)).collect();
    assert!(held.is_empty(), "{address} is still bound: {held:?}");
    drop(bind_free(address));
}

/// The device goes at once, unless a process that another test is just starting still holds a copy of its
/// descriptor.
fn assert_no_device() {
    let mut netlink = Netlink::open().unwrap();
    let gone = (0..2000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        netlink.link("tun0").is_err()
    });
    assert!(gone, "tun0 is still there");
}

#[test]
fn setup_errors_name_port_and_way_out() {
    in_fresh_network(|| {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let error =
            Driver::<Toy>::new(server_config(Transport::Udp, &address), make_codec).unwrap_err().to_string();
        let port = format!("UDP port {}", taken.local_addr().unwrap().port());
        assert!(error.contains(&port) && error.contains("choose another"), "{error}");
        let error =
            Driver::<Toy>::new(server_config(Transport::Tcp, "192.0.2.1:1194"), make_codec).unwrap_err();
        assert!(error.to_string().contains("no address of this machine"), "{error}");
        assert_no_device();
    });
}

#[test]
fn a_panic_leaves_no_device_behind() {
    in_fresh_network(|| {
        let (mut toy, heard) = Toy::new(Role::Server, "10.9.0.1/24");
        toy.panics = true;
        let running = start_toy(server_config(Transport::Udp, "127.0.0.1:0"), toy, heard);
        running.wait_until_up();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(&[CONTROL], running.addresses[0]).unwrap();
        assert!(running.thread.join().is_err());
        assert_no_device();
    });
}

#[test]
fn a_full_queue_is_counted_and_told() {
    in_fresh_network(|| {
        let mut config = server_config(Transport::Udp, "127.0.0.1:0");
        config.tun.txqueuelen = 2;
        let running = start(config, "10.9.0.1/24");
        running.wait_until_up();
        let link = process::Command::new("ip").args(["-o", "link", "show", "tun0"]).output().unwrap();
        let link = String::from_utf8(link.stdout).unwrap();
        assert!(link.contains("qlen 2\\"), "{link}");
        let application = UdpSocket::bind("10.9.0.1:0").unwrap();
        let dropped = (0..100).any(|_| {
            for _ in 0..1000 {
                // The device's own queueing may refuse some, too.
                let _ = application.send_to(&[7; 100], "10.9.0.2:9");
            }
            let (tell, told) = channel();
            running.handle.inspect(Box::new(move |_, _, status| tell.send(status.tun_dropped).unwrap()));
            told.recv_timeout(TIMEOUT).unwrap() > 0
        });
        assert!(dropped);
        running.wait_for(|heard| matches!(heard, Heard::Event(word) if word.contains("`txqueuelen`")));
        running.stop();
    });
}

fn ip(arguments: &str) {
    let status = process::Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

#[test]
fn clock_is_the_drivers() {
    assert!(clock() >= Instant::from_nanos(1_000_000_000), "a second ago exists");
}
