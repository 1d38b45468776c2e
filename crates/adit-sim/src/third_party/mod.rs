//! Third-party ends, which change keys as other programs do: clients as OpenVPN 3 (OpenVPN Connect on phones and desktops) and MirageVPN,
//! and a server as MirageVPN ([`server`]).
//!
//! They share the codecs with our own ends, but not the code that decides which keys come into use, which is what they
//! are here for. It follows what the programs were seen to do and what their sources say (openvpn3
//! `openvpn/ssl/proto.hpp`, miragevpn `src/engine.ml`):
//!
//! | | OpenVPN 3 | MirageVPN |
//! |---|---|---|
//! | answers SOFT_RESET with | its TLS as packet 0, no reset | the same |
//! | keeps | a primary and a secondary key | the active key, the one before, the one being made |
//! | seals with a new key | `min(hand-window, reneg-sec / 2)` after it is complete | as soon as it has the server's key method 2 |
//! | opens with a key | when all it sent was acknowledged, until another takes its place | until `tran-window` after the next, or the one after |
//! | a SOFT_RESET while keys are being made | with the next key id: takes their place | is ignored |
//! | its own `reneg-sec` runs out in an exchange | drops that exchange and begins the next key id | waits |
//! | an exchange that is late | begins the next key id | stalls; here it is dropped, or no tunnel would live on |
//! | wrapping after the first renegotiation | dynamic tls-crypt for all key ids | as before |

mod exchange;
mod keys;
mod server;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use adit_core::{
    Cipher, Command, CompressionFraming, Digest, Ended, Framing, Instant, IpNet, Ipv4Net, Ipv6Net, Notice,
    OpenVpnFraming, OpenVpnHeader, Path, PeerConfig, PeerId, Protocol, Rejected, ReplayWindow, SessionId,
    TableUsage, TunnelSettings, UnixTime,
};
use adit_openvpn::Role;
use adit_openvpn::control_message::{ControlMessage, PushAssembler, split};
use adit_openvpn::data_message::PING;
use adit_openvpn::keys::KeyMaterial;
use adit_openvpn::request::{DataEvent, Event, Install, PeerDetail, PeerInfo, Reply, Request};
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::tls::TlsConfig;
use adit_openvpn::wire::{ControlBody, Header, Opcode, Sid};
use adit_openvpn::wrap::{Wrap, WrapConfig, WrapReplay};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};

use self::exchange::{Exchange, Hello};
use self::keys::{Change, Keys};

const EXPORT_DATA_KEYS: &str = "EXPORTER-OpenVPN-datakeys";
const EXPORT_DYNAMIC_TLS_CRYPT: &str = "EXPORTER-OpenVPN-dynamic-tls-crypt";
/// How long an exit notification may be in transit.
const EXIT_NOTIFY_TIME: Duration = Duration::from_secs(1);
/// The interval of requests for the settings.
const ASK_EVERY: Duration = Duration::from_secs(5);

pub(crate) use self::server::{Network, ThirdPartyServer, ifconfig};

/// The program whose behaviour it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Implementation {
    OpenVpn3,
    MirageVpn,
}

impl Implementation {
    /// `IV_PROTO`: OpenVPN 3 knows what OpenVPN 2.7 knows; MirageVPN knows `DATA_V2`, the unasked push and the exporter.
    fn proto(self) -> u32 {
        match self {
            Implementation::OpenVpn3 => 8094,
            Implementation::MirageVpn => 2 + 4 + 8,
        }
    }
}

/// The parameters of a third-party end.
pub(crate) struct Params {
    pub(crate) implementation: Implementation,
    pub(crate) name: String,
    pub(crate) wrap: WrapConfig,
    pub(crate) brings_key: bool,
    pub(crate) tls: TlsConfig,
    /// The wall clock at the simulation's origin.
    pub(crate) wall: UnixTime,
    pub(crate) remotes: usize,
    pub(crate) ciphers: Vec<Cipher>,
    pub(crate) digest: Digest,
    pub(crate) compression: CompressionFraming,
    pub(crate) epochs: bool,
    pub(crate) hand_window: Duration,
    pub(crate) reneg: Option<Duration>,
    pub(crate) tran_window: Duration,
    /// How long it waits for a server's first answer.
    pub(crate) server_poll_timeout: Duration,
    /// How long it waits before it connects anew.
    pub(crate) retry: Duration,
}

/// What the server pushed.
#[derive(Clone, Debug, Default)]
struct Pushed {
    addresses: Vec<IpNet>,
    peer_id: u32,
    cipher: Option<Cipher>,
    exporter: bool,
    dynamic: bool,
    epochs: bool,
    exit: bool,
    ping: Duration,
    ping_restart: Duration,
}

impl Pushed {
    fn read(options: &[String]) -> Self {
        let mut pushed = Pushed {
            ping: Duration::from_secs(8),
            ping_restart: Duration::from_secs(40),
            ..Pushed::default()
        };
        for option in options {
            pushed.apply(option);
        }
        pushed.addresses.sort_by_key(|address| matches!(address, IpNet::V6(_)));
        pushed
    }

    fn apply(&mut self, option: &str) {
        let words: Vec<&str> = option.split(' ').collect();
        let seconds = |word: &str| Duration::from_secs(word.parse().unwrap_or(10));
        match words.as_slice() {
            ["ifconfig", address, mask] => {
                let network = address.parse().ok().zip(mask.parse().ok());
                let network = network.and_then(|(address, mask)| Ipv4Net::with_netmask(address, mask).ok());
                self.addresses.extend(network.map(IpNet::V4));
            }
            ["ifconfig-ipv6", network, ..] => {
                self.addresses.extend(network.parse::<Ipv6Net>().ok().map(IpNet::V6));
            }
            ["peer-id", id] => self.peer_id = id.parse().unwrap_or_default(),
            ["cipher", name] => self.cipher = Cipher::from_name(name),
            ["key-derivation", "tls-ekm"] => self.exporter = true,
            ["protocol-flags", flags @ ..] => {
                self.exporter = flags.contains(&"tls-ekm");
                self.dynamic = flags.contains(&"dyn-tls-crypt");
                self.epochs = flags.contains(&"aead-epoch");
                self.exit = flags.contains(&"cc-exit");
            }
            ["ping", time] => self.ping = seconds(time),
            ["ping-restart", time] => self.ping_restart = seconds(time),
            _ => {}
        }
    }
}

/// One connection to the server.
struct Connection {
    path: Path,
    own_sid: Sid,
    peer_sid: Option<Sid>,
    wrap: Wrap,
    replay: WrapReplay,
    /// What wraps, from the first renegotiation on.
    dynamic: Option<(Wrap, WrapReplay)>,
    keys: Keys,
    push: PushAssembler,
    pushed: Option<Pushed>,
    ask_at: Option<Instant>,
    heard: Instant,
    received: u64,
    ping_at: Instant,
    began: Instant,
    up_since: Instant,
}

/// What follows for a connection.
enum Outcome {
    GoOn,
    Again,
    Refused(String),
}

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
        self.connection = Some(Connection {
            path,
            own_sid: Sid(sid),
            peer_sid: None,
            wrap: self.params.wrap.instantiate(wall),
            replay: WrapReplay::new(),
            dynamic: None,
            keys: Keys::new(&self.params, first),
            push: PushAssembler::default(),
            pushed: None,
            ask_at: None,
            heard: self.now,
            received: 0,
            ping_at: self.now,
            began: self.now,
            up_since: self.now,
        });
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
                self.events.push_back(Event::Data(DataEvent::RemovePeer(PeerId::SERVER)));
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

    /// Handles what follows from the last input.
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
    type Codec = Framing;

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

    /// It asks nothing.
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

impl Connection {
    fn info(&self) -> Option<PeerInfo> {
        let pushed = self.pushed.as_ref()?;
        Some(PeerInfo {
            name: "server".to_owned(),
            path: self.path,
            addresses: pushed.addresses.iter().map(IpNet::addr).collect(),
            cipher: pushed.cipher.unwrap_or(Cipher::Aes256Gcm),
            rekeys: 0,
            last_handshake: self.up_since,
            since: self.up_since,
            heard: self.heard,
            routes: Vec::new(),
            detail: PeerDetail { epochs: pushed.epochs, ..PeerDetail::default() },
        })
    }

    /// OpenVPN 3 wraps everything alike from its first renegotiation on (`set_dynamic_tls_crypt`), under a counter that
    /// starts anew each time that it renegotiates with the first keys still the primary ones.
    fn new_wrapping(&mut self, params: &Params, wall: UnixTime) -> Option<(Wrap, WrapReplay)> {
        let first = self.keys.primary();
        if !self.pushed.as_ref().is_some_and(|pushed| pushed.dynamic) || first.key_id() != 0 {
            return None;
        }
        let exported = first.export::<256>(EXPORT_DYNAMIC_TLS_CRYPT)?;
        let config = params.wrap.dynamic(&StaticKey::from_bytes(&exported), Role::Client);
        Some((config.instantiate(wall), WrapReplay::new()))
    }

    fn take_datagram(
        &mut self,
        now: Instant,
        datagram: &[u8],
        params: &Params,
        (wall, hello): (UnixTime, Hello),
        events: &mut VecDeque<Event>,
    ) -> Result<(), Rejected> {
        let header = datagram.first().and_then(|first| Header::from_byte(*first));
        let header = header.ok_or(Rejected::Malformed("unknown opcode"))?;
        let begins = header.opcode == Opcode::SoftReset && self.keys.may_begin(header.key_id);
        if !begins && self.keys.find(header.key_id).is_none() {
            return Err(Rejected::Unexpected("no exchange with this key id"));
        }
        let mut new = if begins { self.new_wrapping(params, wall) } else { None };
        let opened = match new.as_ref().or(self.dynamic.as_ref()) {
            Some((wrap, _)) => wrap.open(datagram)?,
            None => self.wrap.open(datagram)?,
        };
        let body = ControlBody::decode(header.opcode, &opened.body)?;
        let sids_match = self.peer_sid.is_none_or(|sid| sid == opened.sid)
            && body.peer_sid.map_or(self.peer_sid.is_some(), |sid| sid == self.own_sid);
        if !sids_match {
            return Err(Rejected::Unexpected("another session"));
        }
        if let Some(id) = opened.wrap_id {
            let wrapping = new.as_mut().or(self.dynamic.as_mut());
            wrapping.map_or(&mut self.replay, |(_, replay)| replay).check(now, id)?;
        }
        self.dynamic = new.or(self.dynamic.take());
        self.peer_sid = Some(opened.sid);
        if begins && body.packet_id == Some(0) {
            let next = Exchange::new(now, (header.key_id, None), params, hello);
            let next = next.map_err(|_| Rejected::Unexpected("TLS"))?;
            let changes = self.keys.take(next);
            self.follow(changes, params, events);
        }
        if let Some(exchange) = self.keys.find(header.key_id) {
            exchange.handle(now, header.opcode, body);
        }
        Ok(())
    }

    /// Handles the results of its exchanges.
    fn settle(&mut self, now: Instant, params: &Params, events: &mut VecDeque<Event>) -> Outcome {
        let changes = self.keys.advance(now);
        self.follow(changes, params, events);
        if self.keys.is_over() {
            return Outcome::Again;
        }
        for message in self.keys.take_messages() {
            match self.read_message(now, message, params, events) {
                Outcome::GoOn => {}
                other => return other,
            }
        }
        if self.pushed.is_none() && self.keys.primary().is_active() && self.ask_at.is_none_or(|at| now >= at)
        {
            self.keys.primary().send_message("PUSH_REQUEST");
            self.ask_at = Some(now + ASK_EVERY);
        }
        let Some(pushed) = &self.pushed else {
            let silent = self.peer_sid.is_none() && now >= self.began + params.server_poll_timeout;
            let late = now >= self.began + params.server_poll_timeout + 2 * params.hand_window;
            return if silent || late { Outcome::Again } else { Outcome::GoOn };
        };
        if now >= self.heard + pushed.ping_restart {
            return Outcome::Again;
        }
        if now >= self.ping_at {
            self.ping_at = now + pushed.ping;
            let payload = PING.to_vec();
            events.push_back(Event::Data(DataEvent::Inject { peer: PeerId::SERVER, payload }));
        }
        Outcome::GoOn
    }

    fn read_message(
        &mut self,
        now: Instant,
        mut record: Vec<u8>,
        params: &Params,
        events: &mut VecDeque<Event>,
    ) -> Outcome {
        record.push(0);
        for text in split(&mut record).into_iter().flatten() {
            match ControlMessage::parse(&text) {
                ControlMessage::PushReply(options) if self.pushed.is_none() => {
                    if let Ok(Some(options)) = self.push.add(options) {
                        self.establish(now, Pushed::read(&options), params, events);
                    }
                }
                ControlMessage::AuthFailed(reason) => {
                    return Outcome::Refused(format!("AUTH_FAILED {reason}"));
                }
                ControlMessage::Restart(_) | ControlMessage::Halt(_) | ControlMessage::Exit => {
                    return Outcome::Again;
                }
                _ => {}
            }
        }
        Outcome::GoOn
    }

    fn establish(&mut self, now: Instant, pushed: Pushed, params: &Params, events: &mut VecDeque<Event>) {
        events.push_back(Event::Data(DataEvent::AddPeer(PeerConfig {
            peer: PeerId::SERVER,
            path: Some(self.path),
            routes: vec![IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())],
            max_mss: None,
            roams: false,
            staging: false,
        })));
        let settings =
            TunnelSettings { addresses: pushed.addresses.clone(), mtu: 1500, ..TunnelSettings::default() };
        (self.heard, self.up_since, self.ping_at) = (now, now, now + pushed.ping);
        self.pushed = Some(pushed);
        let all = self.keys.ready();
        self.follow(all, params, events);
        events.push_back(Event::Up(settings));
    }

    /// Applies changes of keys to the data plane.
    fn follow(&mut self, changes: Vec<Change>, params: &Params, events: &mut VecDeque<Event>) {
        if self.pushed.is_none() {
            return;
        }
        for change in changes {
            let session = |key_id| SessionId::openvpn(PeerId::SERVER, key_id);
            events.extend(match change {
                Change::Install(key_id) => self.install(key_id, params),
                Change::Seal(key_id) => {
                    let session = session(key_id);
                    Some(Event::Data(DataEvent::Activate { peer: PeerId::SERVER, session }))
                }
                Change::Drop(key_id) => {
                    let session = session(key_id);
                    Some(Event::Data(DataEvent::Retire { peer: PeerId::SERVER, session }))
                }
            });
        }
    }

    fn install(&mut self, key_id: u8, params: &Params) -> Option<Event> {
        let pushed = self.pushed.clone()?;
        let (own_sid, peer_sid) = (self.own_sid, self.peer_sid?);
        let exchange = self.keys.find(key_id)?;
        let material = match pushed.exporter {
            true => KeyMaterial::from_bytes(&exchange.export::<256>(EXPORT_DATA_KEYS)?),
            false => exchange.prf(own_sid, peer_sid)?,
        };
        let header = OpenVpnHeader::V2 { peer_id: pushed.peer_id };
        let framing = OpenVpnFraming { header, key_id, compression: params.compression };
        let cipher = pushed.cipher?;
        let (framing, (seal, open)) = match pushed.epochs {
            true => (Framing::OpenVpnEpoch(framing), material.epoch_directions(Role::Client)),
            false => (Framing::OpenVpn(framing), material.directions(Role::Client, cipher, params.digest)),
        };
        let session = SessionId::openvpn(PeerId::SERVER, key_id);
        let replay_window = ReplayWindow::default();
        let install = Install { peer: PeerId::SERVER, session, framing, cipher, seal, open, replay_window };
        Some(Event::Data(DataEvent::Install(Box::new(install))))
    }

    fn poll_timeout(&self, params: &Params) -> Instant {
        let own = match &self.pushed {
            Some(pushed) => (self.heard + pushed.ping_restart).min(self.ping_at),
            None => {
                let first = self.began + params.server_poll_timeout;
                let last = first + 2 * params.hand_window;
                let next = if self.peer_sid.is_none() { first } else { last };
                self.ask_at.map_or(next, |at| at.min(next))
            }
        };
        self.keys.poll_timeout().map_or(own, |at| at.min(own))
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let peer_sid = self.peer_sid;
        let Some((header, body)) = self.keys.poll_packet(now, peer_sid) else { return false };
        let mut bytes = Vec::new();
        body.encode(&mut bytes);
        let wrap = self.dynamic.as_mut().map_or(&mut self.wrap, |(wrap, _)| wrap);
        wrap.seal(header, self.own_sid, &bytes, out).is_ok()
    }
}
