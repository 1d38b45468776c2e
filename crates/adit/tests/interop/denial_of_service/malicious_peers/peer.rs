//! A malicious peer over UDP: adit's own machine, which sends control messages as fast as the other end acknowledges them.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use adit_core::{Command, Path, Protocol, drive_with};
use adit_openvpn::codec::Codec;
use adit_openvpn::params::{ClientParams, ServerParams};
use adit_openvpn::request::{Event, PeerDetail, Progress, Reply, Request};
use adit_openvpn::testing::messages::message;
use adit_openvpn::{Client, Server};
use adit_testbed::Namespace;

/// Bytes of messages that are said together: some packets.
const BATCH: usize = 2000;
/// Bytes that TLS adds to each message.
const RECORD: usize = 24;
/// Batches that are under way at first. Each datagram that comes lets another go.
const WINDOW: usize = 4;
/// How long the socket is waited for before the machine's timers are looked at.
const TICK: Duration = Duration::from_millis(2);
/// How long nothing may come before a batch goes nevertheless.
const PAUSE: Duration = Duration::from_millis(20);
/// How long nothing may come before a client takes its connection for lost; and how long while the server's scripts judge it.
const SILENCE: Duration = Duration::from_millis(700);
const JUDGEMENT: Duration = Duration::from_secs(10);
/// The kind of a peer that sends no messages.
const QUIET: usize = usize::MAX;

/// A machine that can be the malicious end.
trait Machine: Protocol<Request = Request, Reply = Reply, Detail = PeerDetail, Codec = Codec> {
    fn say(&mut self, now: adit_core::Instant, text: &str);
}

impl Machine for Client {
    fn say(&mut self, now: adit_core::Instant, text: &str) {
        Client::say(self, now, text);
    }
}

impl Machine for Server {
    fn say(&mut self, now: adit_core::Instant, text: &str) {
        Server::say(self, now, text);
    }
}

/// Whether a client's connection is lost.
fn is_lost(talk: &Talk<'_, Client>) -> bool {
    let is_up = talk.shared.is_up.load(Relaxed);
    let is_quiet = talk.shared.kind.load(Relaxed) == QUIET;
    let patience = if is_up { SILENCE } else { JUDGEMENT };
    !(is_up && is_quiet) && talk.heard.elapsed() > patience
}

/// The state that the thread of the peer and the test share.
struct Shared {
    stop: AtomicBool,
    /// The kind of messages that are sent.
    kind: AtomicUsize,
    /// Whether there is an other end that takes messages.
    is_up: AtomicBool,
    connections: AtomicUsize,
    said: AtomicUsize,
    heard: AtomicUsize,
}

/// The peer, as the test sees it. It ends when this is dropped.
pub(super) struct Peer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    /// A server at that address.
    pub(super) fn server(place: &Namespace, at: SocketAddr, params: ServerParams) -> Peer {
        Peer::start(place, move |shared| {
            let server = Server::new(params, adit_core::Instant::ORIGIN, [7; 32]);
            Talk::new(shared, server, UdpSocket::bind(at).unwrap(), at).run(|_| false);
        })
    }

    /// A client of the server at that address; `params` are those of a connection. It begins another one when it hears nothing.
    pub(super) fn client(
        place: &Namespace,
        server: SocketAddr,
        params: impl Fn() -> ClientParams + Send + 'static,
    ) -> Peer {
        Peer::start(place, move |shared| {
            for attempt in (1..).take_while(|_| !shared.stop.load(Relaxed)) {
                let client = Client::new(params(), adit_core::Instant::ORIGIN, [attempt; 32]);
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                Talk::new(shared, client, socket, server).run(is_lost);
            }
        })
    }

    fn start(place: &Namespace, work: impl FnOnce(&Shared) + Send + 'static) -> Peer {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            kind: AtomicUsize::new(QUIET),
            is_up: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            said: AtomicUsize::new(0),
            heard: AtomicUsize::new(0),
        });
        let own = Arc::clone(&shared);
        // A thread begins in the namespace of the one that starts it.
        let thread = place.enter(|| std::thread::spawn(move || work(&own))).unwrap();
        Peer { shared, thread: Some(thread) }
    }

    /// From now on it sends messages of that kind, or none.
    pub(super) fn say(&self, kind: Option<usize>) {
        self.shared.kind.store(kind.unwrap_or(QUIET), Relaxed);
    }

    /// How many connections there were so far.
    pub(super) fn connections(&self) -> usize {
        self.shared.connections.load(Relaxed)
    }

    /// How many messages it has sent.
    pub(super) fn said(&self) -> usize {
        self.shared.said.load(Relaxed)
    }

    /// How many datagrams of the control channel have come.
    pub(super) fn heard(&self) -> usize {
        self.shared.heard.load(Relaxed)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// One machine and its socket.
struct Talk<'a, M> {
    shared: &'a Shared,
    machine: M,
    socket: UdpSocket,
    /// The remote of a client.
    remote: SocketAddr,
    start: Instant,
    heard: Instant,
    /// A client is to wait, and perhaps to answer a question.
    is_asked: bool,
    /// Batches that may go.
    credit: usize,
    number: usize,
}

impl<'a, M: Machine> Talk<'a, M> {
    fn new(shared: &'a Shared, machine: M, socket: UdpSocket, remote: SocketAddr) -> Self {
        socket.set_read_timeout(Some(TICK)).unwrap();
        shared.is_up.store(false, Relaxed);
        let start = Instant::now();
        Talk {
            shared,
            machine,
            socket,
            remote,
            start,
            heard: start,
            is_asked: false,
            credit: WINDOW,
            number: 0,
        }
    }

    fn now(&self) -> adit_core::Instant {
        adit_core::Instant::ORIGIN + self.start.elapsed()
    }

    /// Goes on until the peer ends, or until `is_over`.
    fn run(&mut self, is_over: impl Fn(&Self) -> bool) {
        self.follow();
        while !self.shared.stop.load(Relaxed) {
            self.receive();
            if self.machine.poll_timeout().is_some_and(|at| at <= self.now()) {
                self.machine.handle_timeout(self.now());
            }
            self.flood();
            self.follow();
            if is_over(self) {
                return;
            }
        }
    }

    fn receive(&mut self) {
        let mut buffer = [0; 2048];
        let (length, remote) = match self.socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            // The other end has none at its port, or no way there, for a while.
            Err(_) => return std::thread::sleep(TICK),
        };
        // Packets of data are none for a machine.
        if self
            .machine
            .handle_datagram(self.now(), Path::Udp { socket: 0, remote }, &buffer[..length])
            .is_ok()
        {
            self.heard = Instant::now();
            self.shared.heard.fetch_add(1, Relaxed);
            self.credit = (self.credit + 1).min(WINDOW);
        }
    }

    fn flood(&mut self) {
        let kind = self.shared.kind.load(Relaxed);
        if self.heard.elapsed() > PAUSE {
            self.credit = self.credit.max(1);
        }
        if !self.shared.is_up.load(Relaxed) || self.credit == 0 {
            return;
        }
        let mut bytes = 0;
        while bytes < BATCH {
            let Some(message) = message(kind, self.number) else { return };
            let text = message.to_string();
            bytes += text.len() + RECORD;
            self.machine.say(self.now(), &text);
            self.number += 1;
            self.shared.said.fetch_add(1, Relaxed);
        }
        self.credit -= 1;
    }

    /// Carries out what the machine asks for.
    fn follow(&mut self) {
        let (now, shared, socket, is_asked) = (self.now(), self.shared, &self.socket, &mut self.is_asked);
        let path = Path::Udp { socket: 0, remote: self.remote };
        drive_with(
            &mut self.machine,
            |machine, event| match event {
                Event::Open { .. } => machine.handle_command(now, Command::Opened { path }),
                Event::PeerUp { .. } => {
                    shared.connections.fetch_add(1, Relaxed);
                }
                Event::Request(Request::Progress(Progress::Pending(_)))
                    if !std::mem::replace(is_asked, true) =>
                {
                    shared.connections.fetch_add(1, Relaxed);
                }
                _ => {}
            },
            |path, datagram| {
                if let Path::Udp { remote, .. } = path {
                    // A datagram that does not fit is sent again.
                    let _ = socket.send_to(datagram, remote);
                }
            },
        );
        self.shared.is_up.store(self.is_asked || !self.machine.peers().is_empty(), Relaxed);
    }
}
