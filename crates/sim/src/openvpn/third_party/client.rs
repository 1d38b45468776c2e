use std::collections::VecDeque;
use std::time::Duration;

use adit_core::{
    Command, Ended, Instant, Notice, Path, PeerId, PeerOrder, Protocol, Rejected, TableUsage, UnixTime,
};
use adit_openvpn::codec::Codec;
use adit_openvpn::request::{DataEvent, Event, PeerDetail, PeerInfo, Reply, Request};
use adit_openvpn::wire::{Opcode, Sid};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};

use super::Params;
use super::connection::{Connection, Outcome};
use super::exchange::{Exchange, Hello};

/// How long an exit notification may be in transit.
const EXIT_NOTIFY_TIME: Duration = Duration::from_secs(1);

/// A third-party client.
pub(crate) struct ThirdPartyClient {
    params: Params,
    rng: ChaCha20Rng,
    now: Instant,
    remote: usize,
    connection: Option<Connection>,
    /// When it opens its next path.
    open_at: Option<Instant>,
    exit_until: Option<Instant>,
    ended: bool,
    events: VecDeque<Event>,
}

impl ThirdPartyClient {
    pub(crate) fn new(params: Params, now: Instant, seed: [u8; 32]) -> Self {
        ThirdPartyClient {
            params,
            rng: ChaCha20Rng::from_seed(seed),
            now,
            remote: 0,
            connection: None,
            open_at: None,
            exit_until: None,
            ended: false,
            events: VecDeque::from([Event::Open { remote: 0 }]),
        }
    }

    fn connect(&mut self, path: Path) {
        let mut sid = [1; 8];
        self.rng.fill_bytes(&mut sid[1..]);
        let reset =
            if self.params.brings_key { Opcode::HardResetClientV3 } else { Opcode::HardResetClientV2 };
        let hello = self.hello();
        let Ok(first) = Exchange::new(self.now, (0, Some(reset)), &self.params, hello) else {
            return self.end(Ended::Failed("TLS cannot be set up".to_owned()));
        };
        let wall = self.wall();
        self.connection = Some(Connection::new(self.now, path, (Sid(sid), first), &self.params, wall));
    }

    fn wall(&self) -> UnixTime {
        UnixTime(self.params.wall.0 + (self.now - Instant::ORIGIN).as_secs())
    }

    fn hello(&mut self) -> Hello {
        let mut random = [0; 112];
        self.rng.fill_bytes(&mut random);
        let mut proto = self.params.implementation.proto();
        if !self.params.epochs {
            proto &= !(1 << 10);
        }
        let names: Vec<&str> = self.params.ciphers.iter().map(|cipher| cipher.name()).collect();
        let info = format!("IV_VER=3.11\nIV_PROTO={proto}\nIV_NCP=2\nIV_CIPHERS={}\n", names.join(":"));
        Hello { random, username: self.params.name.clone(), info }
    }

    /// The connection is over; another follows.
    fn reconnect(&mut self, reason: &str) {
        if let Some(connection) = self.connection.take() {
            if connection.pushed.is_some() {
                self.events.push_back(Event::Data(DataEvent::Peer(PeerOrder::Remove(PeerId::SERVER))));
                self.events.push_back(Event::PeerDown { peer: PeerId::SERVER, reason: reason.to_owned() });
            }
            self.events.push_back(Event::Close { path: connection.path });
        }
        if self.exit_until.is_some() {
            return self.end(Ended::Shutdown);
        }
        self.remote = (self.remote + 1) % self.params.remotes.max(1);
        self.open_at = Some(self.now + self.params.retry);
    }

    fn end(&mut self, how: Ended) {
        if !self.ended {
            self.ended = true;
            self.events.push_back(Event::Ended(how));
        }
    }

    /// Handles the consequences of the last input.
    fn settle(&mut self) {
        for _ in 0..8 {
            let Some(connection) = &mut self.connection else { return };
            if let Some(key_id) = connection.keys.wants_exchange(self.now) {
                self.begin(key_id);
                continue;
            }
            match connection.settle(self.now, &self.params, &mut self.events) {
                Outcome::GoOn => break,
                Outcome::Again => return self.reconnect("over"),
                Outcome::Refused(reason) => {
                    self.reconnect(&reason);
                    return self.end(Ended::Failed(reason));
                }
            }
        }
    }

    /// Begins a renegotiation of its own.
    fn begin(&mut self, key_id: u8) {
        let (now, wall, hello) = (self.now, self.wall(), self.hello());
        let Some(connection) = &mut self.connection else { return };
        let wrapping = connection.new_wrapping(&self.params, wall);
        connection.dynamic = wrapping.or(connection.dynamic.take());
        if let Ok(next) = Exchange::new(now, (key_id, Some(Opcode::SoftReset)), &self.params, hello) {
            let changes = connection.keys.take(next);
            connection.follow(changes, &self.params, &mut self.events);
        }
    }
}

impl Protocol for ThirdPartyClient {
    type Request = Request;
    type Reply = Reply;
    type Detail = PeerDetail;
    type Codec = Codec;

    fn handle_datagram(&mut self, now: Instant, path: Path, datagram: &[u8]) -> Result<(), Rejected> {
        self.now = now;
        let (wall, hello) = (self.wall(), self.hello());
        let Some(connection) = self.connection.as_mut().filter(|connection| connection.path == path) else {
            return Err(Rejected::Unexpected("no connection"));
        };
        let taken = connection.take_datagram(now, datagram, &self.params, (wall, hello), &mut self.events);
        self.settle();
        taken
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        self.now = now;
        match command {
            Command::Opened { path } => self.connect(path),
            Command::OpenFailed { .. } => self.reconnect("cannot be reached"),
            Command::Closed { path, .. } if self.connection.as_ref().is_some_and(|it| it.path == path) => {
                self.reconnect("closed");
            }
            Command::Restart => self.reconnect("restarted"),
            Command::Shutdown => {
                self.exit_until = Some(now + EXIT_NOTIFY_TIME);
                match &mut self.connection {
                    Some(connection) if connection.pushed.as_ref().is_some_and(|it| it.exit) => {
                        connection.keys.primary().send_message("EXIT");
                    }
                    _ => self.reconnect("told to end"),
                }
            }
            _ => {}
        }
        self.settle();
    }

    /// Takes only the time of the reply: the client asks nothing.
    fn handle_reply(&mut self, now: Instant, _: Reply) {
        self.now = now;
    }

    fn handle_notice(&mut self, now: Instant, notice: Notice) {
        self.now = now;
        if let (Notice::Traffic { received, .. }, Some(connection)) = (notice, &mut self.connection)
            && received != connection.received
        {
            (connection.received, connection.heard) = (received, now);
        }
        self.settle();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if self.exit_until.is_some_and(|at| now >= at) {
            self.reconnect("told to end");
        }
        if self.open_at.is_some_and(|at| now >= at) {
            self.open_at = None;
            self.events.push_back(Event::Open { remote: self.remote });
        }
        self.settle();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.ended {
            return None;
        }
        let connection = self.connection.as_ref().map(|connection| connection.poll_timeout(&self.params));
        [self.open_at, self.exit_until, connection].into_iter().flatten().min()
    }

    fn poll_transmit(&mut self, buf: &mut Vec<u8>) -> Option<Path> {
        let connection = self.connection.as_mut()?;
        connection.poll_transmit(self.now, buf).then_some(connection.path)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn peers(&self) -> Vec<(PeerId, PeerInfo)> {
        let info = self.connection.as_ref().and_then(Connection::info);
        info.into_iter().map(|info| (PeerId::SERVER, info)).collect()
    }

    fn tables(&self) -> Vec<TableUsage> {
        Vec::new()
    }
}
