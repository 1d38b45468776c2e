//! Many clients in one thread: adit's client machines with a socket each and no device.

use std::convert::Infallible;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use adit_core::{
    Cipher, Command, Drive, Ended, Instant, Notice, Path, PeerId, PeerOrder, Protocol, UnixTime, drive,
};
use adit_dataplane::{
    Config, Counters, Egress, Ingress, MergePolicy, Offload, ReceiveBatch, TransmitBatch, split,
};

use adit_load::{LoadError, seed};
use adit_openvpn::credentials::{Credentials, TlsEnvironment, client_tls};
use adit_openvpn::params::{ClientParams, ControlParams, DataParams, RemoteParams};
use adit_openvpn::request::{DataEvent, Event};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{Client, PeerRequirements, TlsConfig};
use rustix::event::{Timespec, epoll};

use crate::echoes::{EchoTotals, Echoes};

/// Handshakes under way at once.
const IN_FLIGHT: usize = 32;
/// Datagrams taken from one socket in a row.
const BATCH: usize = 8;
/// How often timers are looked at.
const TICK: Duration = Duration::from_millis(50);
/// How often echo requests that are due are sent.
const ECHO_TICK: Duration = Duration::from_millis(5);
/// How often a client gets its totals of traffic.
const TOTALS: Duration = Duration::from_secs(1);

/// The state that a thread of clients and its owner share.
#[derive(Default)]
struct Shared {
    connected: AtomicUsize,
    /// Clients that gave up.
    ended: AtomicUsize,
    /// The counts of the echo requests of all clients, at the last tick.
    echoes: Mutex<EchoTotals>,
    stop: AtomicBool,
}

/// Clients that connect over UDP, one soon after the other, and stay. When this is dropped, they end without an exit
/// message.
pub struct Clients {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Clients {
    /// Lets `count` clients with the same certificate connect to `server`. Each that is connected sends `echoes` echo
    /// requests a second to the server's inner address; 0 is none.
    ///
    /// # Errors
    /// When the system has not so many sockets, or the credentials cannot be used.
    pub fn start(
        credentials: &Credentials,
        server: SocketAddr,
        count: usize,
        echoes: u32,
    ) -> Result<Clients, LoadError> {
        let failed = || LoadError::system("cannot open the clients' sockets");
        let open = || -> std::io::Result<Vec<UdpSocket>> { (0..count).map(|_| socket(server)).collect() };
        let sockets = open().map_err(failed())?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| failed()(error.into()))?;
        for (number, socket) in (0..).zip(&sockets) {
            let data = epoll::EventData::new_u64(number);
            epoll::add(&poll, socket, data, epoll::EventFlags::IN).map_err(|error| failed()(error.into()))?;
        }
        let path = Path::Udp { socket: 0, remote: server };
        let params = params(credentials)?;
        let shared = Arc::new(Shared::default());
        let runner = Runner {
            start: std::time::Instant::now(),
            path,
            params,
            poll,
            waiting: sockets,
            members: Vec::new(),
            echoes,
            shared: Arc::clone(&shared),
            receive_batch: ReceiveBatch::new(MergePolicy::Off),
            transmit_batch: TransmitBatch::new(),
            datagram: Vec::new(),
        };
        Ok(Clients { shared, thread: Some(std::thread::spawn(move || runner.run())) })
    }

    /// How many have their addresses and keys.
    pub fn connected(&self) -> usize {
        self.shared.connected.load(Ordering::Relaxed)
    }

    /// How many gave up.
    pub fn ended(&self) -> usize {
        self.shared.ended.load(Ordering::Relaxed)
    }

    /// The results of the echo requests of all clients.
    pub fn echoes(&self) -> EchoTotals {
        *self.shared.echoes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn socket(server: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(server)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn params(credentials: &Credentials) -> Result<ClientParams, LoadError> {
    let wall = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let environment = TlsEnvironment::new(Arc::new(rustls::time_provider::DefaultTimeProvider));
    let requirements = PeerRequirements { require_usage: true, ..PeerRequirements::default() };
    let tls = client_tls(credentials, requirements, &environment)
        .map_err(LoadError::key("the clients' credentials"))?;
    let tls = TlsConfig::Client(tls);
    let control = ControlParams::new(WrapConfig::Plain, tls, UnixTime(wall));
    let server = RemoteParams::new("the server".to_owned(), adit_core::Transport::Udp);
    let data = DataParams { ciphers: vec![Cipher::Aes256Gcm], ..DataParams::default() };
    Ok(ClientParams { data, ..ClientParams::new(control, vec![server]) })
}

struct Member {
    socket: UdpSocket,
    client: Client,
    egress: Egress,
    ingress: Ingress,
    counters: Counters,
    traffic: Option<(PeerId, (u64, u64))>,
    up: bool,
    echoes: Option<Echoes>,
}

struct Runner {
    start: std::time::Instant,
    path: Path,
    params: ClientParams,
    poll: OwnedFd,
    /// The sockets of clients that have not begun.
    waiting: Vec<UdpSocket>,
    /// The members in the reverse order of `waiting`: the number an event brings counts from the other end.
    members: Vec<Member>,
    /// Echo requests a second from each.
    echoes: u32,
    shared: Arc<Shared>,
    receive_batch: ReceiveBatch,
    transmit_batch: TransmitBatch,
    datagram: Vec<u8>,
}

impl Runner {
    fn run(mut self) {
        let count = self.waiting.len();
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        let (mut next_tick, mut next_totals) = (Duration::ZERO, TOTALS);
        let mut next_echoes = Duration::ZERO;
        let timeout = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.begin_some();
            events.clear();
            let _ = epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&timeout));
            for event in &events {
                let number = event.data.u64() as usize;
                self.receive(count.saturating_sub(number + 1));
            }
            let elapsed = self.start.elapsed();
            if self.echoes > 0 && elapsed >= next_echoes {
                next_echoes = elapsed + ECHO_TICK;
                self.send_echoes();
            }
            if elapsed >= next_tick {
                next_tick = elapsed + TICK;
                self.tick(elapsed >= next_totals);
                if elapsed >= next_totals {
                    next_totals = elapsed + TOTALS;
                }
            }
        }
    }

    fn now(&self) -> Instant {
        Instant::ORIGIN + self.start.elapsed()
    }

    fn begin_some(&mut self) {
        while self.members.len() < IN_FLIGHT + self.shared.connected.load(Ordering::Relaxed) {
            let Some(socket) = self.waiting.pop() else { return };
            let (egress, ingress, counters) = adit_dataplane::new(Config::new(adit_openvpn_codec::Client));
            let client = Client::new(self.params.clone(), self.now(), seed());
            let index = self.members.len();
            let echoes = (self.echoes > 0).then(|| Echoes::new(self.echoes, self.now()));
            let (traffic, up) = (None, false);
            self.members.push(Member { socket, client, egress, ingress, counters, traffic, up, echoes });
            self.drain(index);
        }
    }

    fn receive(&mut self, index: usize) {
        let mut buffer = [0; 2048];
        for _ in 0..BATCH {
            let now = self.now();
            let Some(member) = self.members.get_mut(index) else { return };
            let Ok(length) = member.socket.recv(&mut buffer) else { return };
            let Some(bytes) = buffer.get_mut(..length) else { return };
            member.ingress.tick(now);
            member.ingress.open_datagrams(self.path, bytes, 0, &mut self.receive_batch);
            for (path, range) in self.receive_batch.control() {
                if let Some(datagram) = bytes.get(range.clone()) {
                    // A datagram that does not fit is dropped, as anywhere.
                    let _ = member.client.handle_datagram(now, *path, datagram);
                }
            }
            if let Some(echoes) = &mut member.echoes {
                for range in self.receive_batch.packets().flat_map(|packet| packet.pieces()) {
                    echoes.take(bytes.get(range).unwrap_or_default());
                }
            }
            for notice in self.receive_batch.notices().drain(..) {
                member.client.handle_notice(now, notice);
            }
            self.receive_batch.clear();
            self.drain(index);
        }
    }

    /// Sends the echo requests that are due, and adds up the counts of all.
    fn send_echoes(&mut self) {
        let now = self.now();
        let mut all = EchoTotals::default();
        for member in &mut self.members {
            let Some(echoes) = &mut member.echoes else { continue };
            while let Some(mut packet) = echoes.due(now) {
                member.egress.seal_packet(Offload::NONE, &mut packet, &mut self.transmit_batch);
            }
            all.add(echoes.totals());
            member.send(&mut self.transmit_batch);
        }
        *self.shared.echoes.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }

    fn tick(&mut self, totals: bool) {
        let now = self.now();
        for index in 0..self.members.len() {
            let Some(member) = self.members.get_mut(index) else { return };
            let mut busy = member.client.poll_timeout().is_some_and(|at| at <= now);
            if busy {
                member.client.handle_timeout(now);
            }
            if totals
                && let Some((peer, told)) = &mut member.traffic
                && let Some(traffic) = member.counters.traffic(*peer)
                && traffic != *told
            {
                *told = traffic;
                let (received, sent) = traffic;
                let (received_bytes, sent_bytes) = member.counters.traffic_bytes(*peer).unwrap_or_default();
                let message_bytes = member.counters.message_bytes(*peer).unwrap_or_default();
                let activity = member.counters.activity(*peer).unwrap_or_default();
                let totals = Notice::Traffic {
                    peer: *peer,
                    received,
                    sent,
                    received_bytes,
                    sent_bytes,
                    message_bytes,
                    activity,
                };
                member.client.handle_notice(now, totals);
                busy = true;
            }
            if busy {
                self.drain(index);
            }
        }
    }

    /// Carries out a client's events.
    fn drain(&mut self, index: usize) {
        let (now, path) = (self.now(), self.path);
        let Some(member) = self.members.get_mut(index) else { return };
        let mut driven =
            Driven { member, now, path, shared: &self.shared, transmit_batch: &mut self.transmit_batch };
        let Ok(()) = drive(&mut driven, &mut self.datagram);
        member.send(&mut self.transmit_batch);
    }
}

/// A client while its wishes are carried out.
struct Driven<'a> {
    member: &'a mut Member,
    now: Instant,
    path: Path,
    shared: &'a Shared,
    /// The batch for the data datagrams that its orders make.
    transmit_batch: &'a mut TransmitBatch,
}

impl Drive for Driven<'_> {
    type Protocol = Client;
    type Error = Infallible;

    fn protocol(&mut self) -> &mut Client {
        &mut self.member.client
    }

    fn event(&mut self, event: Event) -> Result<(), Infallible> {
        let member = &mut *self.member;
        member.egress.tick(self.now);
        match event {
            Event::Data(order) => member.apply(order, self.transmit_batch),
            Event::Open { .. } => member.client.handle_command(self.now, Command::Opened { path: self.path }),
            Event::Up(settings) => {
                if let Some(echoes) = &mut member.echoes {
                    echoes.begin(&settings.addresses, self.now);
                }
                if !std::mem::replace(&mut member.up, true) {
                    self.shared.connected.fetch_add(1, Ordering::Relaxed);
                }
            }
            Event::Ended(Ended::Failed(_)) => {
                self.shared.ended.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        Ok(())
    }

    fn transmit(&mut self, _: Path, datagram: &[u8]) -> Result<(), Infallible> {
        let _ = self.member.socket.send(datagram);
        Ok(())
    }
}

impl Member {
    /// Sends the sealed datagrams.
    fn send(&self, transmit_batch: &mut TransmitBatch) {
        for batch in transmit_batch.iter() {
            for datagram in batch.bytes.chunks(batch.segment.max(1)) {
                let _ = self.socket.send(datagram);
            }
        }
        transmit_batch.clear();
    }

    fn apply(&mut self, order: DataEvent, transmit_batch: &mut TransmitBatch) {
        match &order {
            DataEvent::Peer(PeerOrder::Add(config)) => self.traffic = Some((config.peer, (0, 0))),
            DataEvent::Peer(PeerOrder::Remove(_)) => self.traffic = None,
            _ => {}
        }
        let (egress, ingress) = split(order, adit_openvpn_codec::session);
        if let Some(order) = ingress {
            self.ingress.apply(order);
        }
        if let Some(order) = egress {
            self.egress.apply(order, transmit_batch);
        }
    }
}
