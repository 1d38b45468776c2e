use std::collections::VecDeque;
use std::time::Duration;

use adit_core::{
    Cipher, Instant, IpNet, Ipv4Net, Ipv6Net, Path, PeerConfig, PeerId, PeerOrder, Rejected, ReplayWindow,
    TunnelSettings, UnixTime,
};
use adit_openvpn::TlsRole;
use adit_openvpn::codec::{Codec, DataFraming, DataHeader, Framing, Payloads, session_id};
use adit_openvpn::control_message::{ControlMessage, PushAssembler, split};
use adit_openvpn::data_message::PING;
use adit_openvpn::keys::KeyMaterial;
use adit_openvpn::request::{DataEvent, Event, Install, PeerDetail, PeerInfo};
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wire::{ControlBody, Header, Opcode, Sid};
use adit_openvpn::wrap::{Wrap, WrapReplay};

use super::exchange::{Exchange, Hello};
use super::keys::{Change, Keys};
use super::pushed::Pushed;
use super::{EXPORT_DATA_KEYS, Params};

/// TLS exporter label of the key that wraps renegotiations.
const EXPORT_DYNAMIC_TLS_CRYPT: &str = "EXPORTER-OpenVPN-dynamic-tls-crypt";
/// The interval of requests for the settings.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// One connection to the server.
pub(super) struct Connection {
    pub(super) path: Path,
    pub(super) own_sid: Sid,
    pub(super) peer_sid: Option<Sid>,
    pub(super) wrap: Wrap,
    pub(super) replay: WrapReplay,
    /// The wrapping from the first renegotiation on.
    pub(super) dynamic: Option<(Wrap, WrapReplay)>,
    pub(super) keys: Keys,
    pub(super) push: PushAssembler,
    pub(super) pushed: Option<Pushed>,
    pub(super) ask_at: Option<Instant>,
    pub(super) heard: Instant,
    pub(super) received: u64,
    pub(super) ping_at: Instant,
    pub(super) began: Instant,
    pub(super) up_since: Instant,
}

/// The next step of a connection.
pub(super) enum Outcome {
    GoOn,
    Again,
    Refused(String),
}

impl Connection {
    /// A connection on that path, under that session id, with its first exchange.
    pub(super) fn new(
        now: Instant,
        path: Path,
        (own_sid, first): (Sid, Exchange),
        params: &Params,
        wall: UnixTime,
    ) -> Self {
        Connection {
            path,
            own_sid,
            peer_sid: None,
            wrap: params.wrap.instantiate(wall),
            replay: WrapReplay::new(),
            dynamic: None,
            keys: Keys::new(params, first),
            push: PushAssembler::default(),
            pushed: None,
            ask_at: None,
            heard: now,
            received: 0,
            ping_at: now,
            began: now,
            up_since: now,
        }
    }

    pub(super) fn info(&self) -> Option<PeerInfo> {
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
    pub(super) fn new_wrapping(&mut self, params: &Params, wall: UnixTime) -> Option<(Wrap, WrapReplay)> {
        let first = self.keys.primary();
        if !self.pushed.as_ref().is_some_and(|pushed| pushed.dynamic) || first.key_id() != 0 {
            return None;
        }
        let exported = first.export::<256>(EXPORT_DYNAMIC_TLS_CRYPT)?;
        let config = params.wrap.dynamic(&StaticKey::from_bytes(&exported), TlsRole::Client);
        Some((config.instantiate(wall), WrapReplay::new()))
    }

    pub(super) fn take_datagram(
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
            return Err(Rejected::Unexpected("another control channel"));
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
    pub(super) fn settle(&mut self, now: Instant, params: &Params, events: &mut VecDeque<Event>) -> Outcome {
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
        events.push_back(Event::Data(DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer: PeerId::SERVER,
            path: Some(self.path),
            routes: vec![IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())],
            selectors: Default::default(),
            max_mss: None,
            roams: false,
            staging: false,
            device: Default::default(),
            by_path: true,
            identity: Default::default(),
        }))));
        let settings =
            TunnelSettings { addresses: pushed.addresses.clone(), mtu: 1500, ..TunnelSettings::default() };
        (self.heard, self.up_since, self.ping_at) = (now, now, now + pushed.ping);
        self.pushed = Some(pushed);
        let all = self.keys.ready();
        self.follow(all, params, events);
        events.push_back(Event::Up(settings));
    }

    /// Applies changes of keys to the data plane.
    pub(super) fn follow(&mut self, changes: Vec<Change>, params: &Params, events: &mut VecDeque<Event>) {
        if self.pushed.is_none() {
            return;
        }
        for change in changes {
            let session = |key_id| session_id(PeerId::SERVER, key_id);
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
        let header = DataHeader::V2 { peer_id: pushed.peer_id };
        let framing = DataFraming { header, key_id, compression: params.compression };
        let cipher = pushed.cipher?;
        let (framing, (seal, open)) = match pushed.epochs {
            true => (Framing::Epoch(framing), material.epoch_directions(TlsRole::Client)),
            false => (Framing::Data(framing), material.directions(TlsRole::Client, cipher, params.digest)),
        };
        let session = session_id(PeerId::SERVER, key_id);
        let (replay_window, payloads) = (ReplayWindow::default(), Payloads::default());
        let codec = Codec { framing, cipher, seal, open, replay_window, payloads };
        let install = Install::new(PeerId::SERVER, session, codec);
        Some(Event::Data(DataEvent::Install(Box::new(install))))
    }

    pub(super) fn poll_timeout(&self, params: &Params) -> Instant {
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

    pub(super) fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let peer_sid = self.peer_sid;
        let Some((header, body)) = self.keys.poll_packet(now, peer_sid) else { return false };
        let mut bytes = Vec::new();
        body.encode(&mut bytes);
        let wrap = self.dynamic.as_mut().map_or(&mut self.wrap, |(wrap, _)| wrap);
        wrap.seal(header, self.own_sid, &bytes, out).is_ok()
    }
}
