//! A server that changes keys as MirageVPN's does: over TCP, for one client.
//!
//! It answers the client's reset of a renegotiation that it began itself with a second reset, packet 1; and it seals with
//! new keys as soon as it has the client's key method 2, in the step that queues its own (`src/engine.ml`). Unlike the
//! program it takes control packets that come twice, as ends of ours may send them.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use adit_core::{
    Cipher, Command, Ended, Instant, IpNet, Ipv4Net, Notice, Path, PeerConfig, PeerId, PeerOrder, Protocol,
    Rejected, ReplayWindow, TableUsage, TunnelSettings, UnixTime,
};
use adit_openvpn::TlsRole;
use adit_openvpn::codec::{Codec, DataFraming, DataHeader, Framing, Payloads, session_id};
use adit_openvpn::data_message::PING;
use adit_openvpn::keys::KeyMaterial;
use adit_openvpn::request::{DataEvent, Event, Install, PeerDetail, PeerInfo, Reply, Request};
use adit_openvpn::wire::{ControlBody, Header, Opcode, Sid};
use adit_openvpn::wrap::{Wrap, WrapReplay};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};

use super::exchange::{Exchange, Hello};
use super::keys::{Change, Keys};
use super::{EXPORT_DATA_KEYS, Params};

/// The client's peer-id.
const PEER: PeerId = PeerId(0);

/// The addresses and routes that the server pushes, and its own addresses.
pub(crate) struct Network {
    pub(crate) own: Vec<IpNet>,
    pub(crate) client: Vec<IpAddr>,
    pub(crate) push: Vec<String>,
    /// How often it pings.
    pub(crate) ping: Duration,
}

/// The connection with the client.
struct Connection {
    path: Path,
    own_sid: Sid,
    peer_sid: Sid,
    wrap: Wrap,
    replay: WrapReplay,
    keys: Keys,
    is_up: bool,
    heard: Instant,
    ping_at: Instant,
}

/// The server.
pub(crate) struct ThirdPartyServer {
    params: Params,
    network: Network,
    rng: ChaCha20Rng,
    now: Instant,
    connection: Option<Connection>,
    events: VecDeque<Event>,
}

impl ThirdPartyServer {
    pub(crate) fn new(params: Params, network: Network, now: Instant, seed: [u8; 32]) -> Self {
        let settings =
            TunnelSettings { addresses: network.own.clone(), mtu: 1500, ..TunnelSettings::default() };
        ThirdPartyServer {
            params,
            network,
            rng: ChaCha20Rng::from_seed(seed),
            now,
            connection: None,
            events: VecDeque::from([Event::Up(settings)]),
        }
    }

    fn info(&self, connection: &Connection) -> PeerInfo {
        PeerInfo {
            name: self.params.name.clone(),
            path: connection.path,
            addresses: self.network.client.clone(),
            cipher: self.cipher(),
            rekeys: 0,
            last_handshake: self.now,
            since: self.now,
            heard: connection.heard,
            routes: Vec::new(),
            detail: PeerDetail::default(),
        }
    }

    fn cipher(&self) -> Cipher {
        self.params.ciphers.first().copied().unwrap_or(Cipher::Aes256Gcm)
    }

    fn hello(&mut self) -> Hello {
        let mut random = [0; 112];
        self.rng.fill_bytes(&mut random);
        Hello { random, username: String::new(), info: String::new() }
    }

    fn drop_client(&mut self, reason: &str) {
        let Some(connection) = self.connection.take() else { return };
        if connection.is_up {
            self.events.push_back(Event::Data(DataEvent::Peer(PeerOrder::Remove(PEER))));
            self.events.push_back(Event::PeerDown { peer: PEER, reason: reason.to_owned() });
        }
        self.events.push_back(Event::Close { path: connection.path });
    }

    /// A client's first packet.
    fn admit(&mut self, path: Path, datagram: &[u8]) -> Result<(), Rejected> {
        let opened = self.params.wrap.open(datagram)?;
        let hello = self.hello();
        let first = Exchange::new(self.now, (0, Some(Opcode::HardResetServerV2)), &self.params, hello);
        let first = first.map_err(|_| Rejected::Unexpected("TLS"))?;
        let mut sid = [2; 8];
        self.rng.fill_bytes(&mut sid[1..]);
        let wall = UnixTime(self.params.wall.0 + (self.now - Instant::ORIGIN).as_secs());
        // A newer connection replaces an older one.
        self.drop_client("another connection");
        self.connection = Some(Connection {
            path,
            own_sid: Sid(sid),
            peer_sid: opened.sid,
            wrap: self.params.wrap.instantiate(wall),
            replay: WrapReplay::new(),
            keys: Keys::new(&self.params, first),
            is_up: false,
            heard: self.now,
            ping_at: self.now,
        });
        Ok(())
    }

    fn settle(&mut self) {
        let hello = self.hello();
        let Some(connection) = &mut self.connection else { return };
        if let Some(key_id) = connection.keys.wants_exchange(self.now)
            && let Ok(next) = Exchange::new(self.now, (key_id, Some(Opcode::SoftReset)), &self.params, hello)
        {
            connection.keys.take(next.answers_reset_with_another());
        }
        let changes = connection.keys.advance(self.now);
        if connection.keys.is_over() {
            return self.drop_client("its exchange failed");
        }
        self.follow(changes);
        self.read_messages();
        if let Some(connection) = self.connection.as_mut().filter(|it| it.is_up && self.now >= it.ping_at) {
            connection.ping_at = self.now + self.network.ping;
            let payload = PING.to_vec();
            self.events.push_back(Event::Data(DataEvent::Inject { peer: PEER, payload }));
        }
    }

    fn read_messages(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        for message in connection.keys.take_messages() {
            match message.strip_suffix(b"\0").unwrap_or(&message) {
                b"PUSH_REQUEST" => self.establish(),
                b"EXIT" => return self.drop_client("left (exit notice)"),
                _ => {}
            }
        }
    }

    /// The client asked for its settings.
    fn establish(&mut self) {
        let push = format!("PUSH_REPLY,{}", self.network.push.join(","));
        let Some(connection) = &mut self.connection else { return };
        connection.keys.primary().send_message(&push);
        if std::mem::replace(&mut connection.is_up, true) {
            return;
        }
        self.events.push_back(Event::Data(DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer: PEER,
            path: Some(connection.path),
            routes: self.network.client.iter().copied().map(IpNet::from).collect(),
            selectors: Default::default(),
            max_mss: None,
            roams: false,
            staging: false,
            device: Default::default(),
            by_path: true,
            identity: Default::default(),
        }))));
        let first = connection.keys.ready();
        let info = self.connection.as_ref().map(|connection| self.info(connection));
        self.follow(first);
        self.events.extend(info.map(|info| Event::PeerUp { peer: PEER, info: Box::new(info) }));
    }

    /// Applies changes of keys to the data plane.
    fn follow(&mut self, changes: Vec<Change>) {
        for change in changes {
            let event = match change {
                Change::Install(key_id) => self.install(key_id),
                Change::Seal(key_id) => {
                    let session = session_id(PEER, key_id);
                    Some(DataEvent::Activate { peer: PEER, session })
                }
                Change::Drop(key_id) => {
                    let session = session_id(PEER, key_id);
                    Some(DataEvent::Retire { peer: PEER, session })
                }
            };
            self.events.extend(event.map(Event::Data));
        }
    }

    fn install(&mut self, key_id: u8) -> Option<DataEvent> {
        let cipher = self.cipher();
        let exchange = self.connection.as_mut()?.keys.find(key_id)?;
        let material = KeyMaterial::from_bytes(&exchange.export::<256>(EXPORT_DATA_KEYS)?);
        let (seal, open) = material.directions(TlsRole::Server, cipher, self.params.digest);
        let header = DataHeader::V2 { peer_id: PEER.0 };
        let framing = Framing::Data(DataFraming { header, key_id, compression: self.params.compression });
        let (replay_window, payloads) = (ReplayWindow::default(), Payloads::default());
        let codec = Codec { framing, cipher, seal, open, replay_window, payloads };
        let session = session_id(PEER, key_id);
        Some(DataEvent::Install(Box::new(Install::new(PEER, session, codec))))
    }

    fn take_datagram(&mut self, path: Path, datagram: &[u8]) -> Result<(), Rejected> {
        let header = datagram.first().and_then(|first| Header::from_byte(*first));
        let header = header.ok_or(Rejected::Malformed("unknown opcode"))?;
        let known = self.connection.as_ref().is_some_and(|connection| connection.path == path);
        if header.opcode == Opcode::HardResetClientV2 && !known {
            self.admit(path, datagram)?;
        }
        let (now, hello) = (self.now, self.hello());
        let Some(connection) = self.connection.as_mut().filter(|connection| connection.path == path) else {
            return Err(Rejected::Unexpected("no connection"));
        };
        let opened = connection.wrap.open(datagram)?;
        let body = ControlBody::decode(header.opcode, &opened.body)?;
        if opened.sid != connection.peer_sid || body.peer_sid.is_some_and(|sid| sid != connection.own_sid) {
            return Err(Rejected::Unexpected("another control channel"));
        }
        if let Some(id) = opened.wrap_id {
            connection.replay.check(now, id)?;
        }
        connection.heard = now;
        if header.opcode == Opcode::SoftReset && connection.keys.may_begin(header.key_id) {
            let next = Exchange::new(now, (header.key_id, Some(Opcode::SoftReset)), &self.params, hello);
            connection.keys.take(next.map_err(|_| Rejected::Unexpected("TLS"))?);
        }
        if let Some(exchange) = connection.keys.find(header.key_id) {
            exchange.handle(now, header.opcode, body);
        }
        Ok(())
    }
}

impl Protocol for ThirdPartyServer {
    type Request = Request;
    type Reply = Reply;
    type Detail = PeerDetail;
    type Codec = Codec;

    fn handle_datagram(&mut self, now: Instant, path: Path, datagram: &[u8]) -> Result<(), Rejected> {
        self.now = now;
        let taken = self.take_datagram(path, datagram);
        self.settle();
        taken
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        self.now = now;
        match command {
            Command::Closed { path, .. } if self.connection.as_ref().is_some_and(|it| it.path == path) => {
                self.drop_client("closed");
            }
            Command::Disconnect { .. } | Command::Restart => self.drop_client("told so"),
            Command::Rekey { .. } => {
                if let Some(connection) = &mut self.connection {
                    connection.keys.ask_for_exchange();
                }
            }
            Command::Shutdown => {
                self.drop_client("told to end");
                self.events.push_back(Event::Ended(Ended::Shutdown));
            }
            _ => {}
        }
        self.settle();
    }

    /// Takes only the time of the reply: the server asks nothing.
    fn handle_reply(&mut self, now: Instant, _: Reply) {
        self.now = now;
    }

    fn handle_notice(&mut self, now: Instant, notice: Notice) {
        self.now = now;
        if let (Notice::Traffic { .. }, Some(connection)) = (notice, &mut self.connection) {
            connection.heard = now;
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.settle();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let connection = self.connection.as_ref()?;
        let ping = connection.is_up.then_some(connection.ping_at);
        connection.keys.poll_timeout().into_iter().chain(ping).min()
    }

    fn poll_transmit(&mut self, buf: &mut Vec<u8>) -> Option<Path> {
        let now = self.now;
        let connection = self.connection.as_mut()?;
        let (header, body) = connection.keys.poll_packet(now, Some(connection.peer_sid))?;
        let mut bytes = Vec::new();
        body.encode(&mut bytes);
        connection.wrap.seal(header, connection.own_sid, &bytes, buf).ok()?;
        Some(connection.path)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn peers(&self) -> Vec<(PeerId, PeerInfo)> {
        let up = self.connection.as_ref().filter(|connection| connection.is_up);
        up.map(|connection| (PEER, self.info(connection))).into_iter().collect()
    }

    fn tables(&self) -> Vec<TableUsage> {
        Vec::new()
    }
}

/// The address and the mask of a pushed `ifconfig`.
pub(crate) fn ifconfig(address: Ipv4Net) -> String {
    format!("ifconfig {} {}", address.addr(), address.netmask())
}
