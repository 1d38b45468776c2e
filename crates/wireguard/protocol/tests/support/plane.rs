//! A data plane that names keys instead of using them, and what must hold of it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use adit_core::{
    Activity, Flow, Install, Instant, IpNet, Notice, OnFirstOpened, Path, PeerActivity, PeerConfig, PeerId,
    PeerOrder, SessionId, Transport,
};
use adit_wireguard::{Codec, DataEvent};

use super::length;

/// The use of keys by the ends of a world.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Keys that were installed to seal. Each is installed once in a world: else counters would begin again.
    sealers: BTreeSet<[u8; 32]>,
    /// Keys that were installed to open.
    openers: BTreeSet<[u8; 32]>,
    /// Keys and counters that were used.
    used: BTreeSet<([u8; 32], u64)>,
}

/// A data message. `packet` is `None` for a keepalive and for a message of the protocol's own, which is not empty.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    pub(crate) receiver: u32,
    pub(crate) key: [u8; 32],
    pub(crate) counter: u64,
    pub(crate) packet: Option<u64>,
    pub(crate) message: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) codec: Codec,
    /// The number of its installation.
    number: u64,
    on_first_opened: OnFirstOpened,
    began_by_packet: bool,
    made: Instant,
    counter: u64,
    seen: BTreeSet<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct PlanePeer {
    pub(crate) path: Option<Path>,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) active: Option<SessionId>,
    staged: VecDeque<u64>,
    next_wanted: Option<Instant>,
    last_install: Option<Instant>,
    newest: Option<(Instant, u64)>,
    received: Activity,
    sent: Activity,
    received_bytes: u64,
    sent_bytes: u64,
    told: (u64, u64),
}

impl PlanePeer {
    /// Whether the session with this number of installation may begin to seal: no session that was installed later seals.
    fn may_begin(&self, number: u64) -> bool {
        let active = self.active.and_then(|active| self.sessions.get(&active));
        active.is_none_or(|active| active.number <= number)
    }

    fn began_by_packet(&self) -> bool {
        let active = self.active.and_then(|active| self.sessions.get(&active));
        active.is_some_and(|active| active.began_by_packet)
    }

    /// Makes the change of the first packet that a session opened.
    fn first_opened(&mut self, id: SessionId) {
        let Session { number, on_first_opened, .. } = self.sessions[&id];
        if self.may_begin(number) {
            match on_first_opened {
                OnFirstOpened::Nothing => {}
                OnFirstOpened::Activate => {
                    self.sessions.get_mut(&id).expect("it opened").began_by_packet = true;
                    self.active = Some(id);
                }
                OnFirstOpened::Deactivate => self.deactivate(number),
            }
        }
    }

    fn deactivate(&mut self, up_to: u64) {
        self.active = None;
        let earlier = self.sessions.values_mut().filter(|session| session.number <= up_to);
        earlier.for_each(|session| session.on_first_opened = OnFirstOpened::Nothing);
    }
}

#[derive(Debug)]
pub(crate) struct Plane {
    pub(crate) peers: BTreeMap<PeerId, PlanePeer>,
    pub(crate) routes: BTreeMap<IpNet, PeerId>,
    ledger: Rc<RefCell<Ledger>>,
    /// Sessions installed so far.
    pub(crate) installed: u64,
    /// Packets that were not sealed although their peer had a session once.
    pub(crate) dropped: u64,
}

type Outgoing = Vec<(Path, Sealed)>;

impl Plane {
    pub(crate) fn new(ledger: Rc<RefCell<Ledger>>) -> Self {
        Plane { peers: BTreeMap::new(), routes: BTreeMap::new(), ledger, installed: 0, dropped: 0 }
    }

    pub(crate) fn order(&mut self, now: Instant, order: DataEvent) -> Outgoing {
        match order {
            DataEvent::Peer(PeerOrder::Add(config)) => self.add(config),
            DataEvent::Peer(PeerOrder::Remove(peer)) => {
                assert!(self.peers.remove(&peer).is_some(), "removes a peer that is not there");
                self.routes.retain(|_, owner| *owner != peer);
            }
            DataEvent::Peer(PeerOrder::Move { peer, path }) => {
                self.peer(peer).path = Some(path);
                return self.flush(now, peer);
            }
            DataEvent::Peer(PeerOrder::SetMaxMss { peer, .. }) => {
                self.peer(peer);
            }
            DataEvent::Peer(PeerOrder::AddRoute { peer, route }) => {
                self.peer(peer);
                assert_eq!(route, route.trunc());
                self.routes.insert(route, peer);
            }
            DataEvent::Peer(PeerOrder::RemoveRoute { peer, route }) => {
                assert_eq!(self.routes.get(&route), Some(&peer), "removes a route that is another's");
                self.routes.remove(&route);
            }
            DataEvent::Expect(_) => {}
            DataEvent::Install(install) => self.install(now, *install),
            DataEvent::Activate { peer, session } => {
                self.activate(peer, session);
                return self.flush(now, peer);
            }
            DataEvent::Deactivate(peer) => self.peer(peer).deactivate(u64::MAX),
            DataEvent::Retire { peer, session } => {
                let peer = self.peer(peer);
                assert!(peer.sessions.remove(&session).is_some(), "retires a session that is not there");
                peer.active = peer.active.filter(|active| *active != session);
            }
            DataEvent::Inject { peer, payload } => {
                assert!(
                    payload.is_empty() || payload[0] == 0xad,
                    "what goes out must not look like a packet"
                );
                return self.seal(now, peer, None, payload).into_iter().collect();
            }
            DataEvent::InjectInto { peer, session, payload } => {
                assert!(
                    payload.is_empty() || payload[0] == 0xad,
                    "what goes out must not look like a packet"
                );
                let active = self.peer(peer).active.replace(session);
                let sealed = self.seal(now, peer, None, payload);
                self.peer(peer).active = active;
                return sealed.into_iter().collect();
            }
        }
        Vec::new()
    }

    fn peer(&mut self, id: PeerId) -> &mut PlanePeer {
        self.peers.get_mut(&id).expect("an order for a peer that is not there")
    }

    fn add(&mut self, config: PeerConfig) {
        assert!(config.roams && config.staging);
        let peer = self.peers.entry(config.peer).or_default();
        peer.path = config.path;
        self.routes.retain(|_, owner| *owner != config.peer);
        self.routes.extend(config.routes.into_iter().map(|route| (route, config.peer)));
    }

    fn install(&mut self, now: Instant, install: Install<Codec>) {
        let Install { peer, session, on_first_opened, codec, .. } = install;
        self.installed += 1;
        let number = self.installed;
        let mut ledger = self.ledger.borrow_mut();
        assert!(ledger.sealers.insert(*codec.seal), "a key seals in two sessions");
        ledger.openers.insert(*codec.open);
        drop(ledger);
        assert_eq!(codec.expires, now + Duration::from_secs(180), "a session lasts 180 s");
        let peers = self.peers.values();
        assert!(!peers.clone().any(|peer| peer.sessions.contains_key(&session)), "an index in use");
        let peer = self.peer(peer);
        peer.last_install = Some(now);
        let new = Session {
            codec,
            number,
            on_first_opened,
            began_by_packet: false,
            made: now,
            counter: 0,
            seen: BTreeSet::new(),
        };
        peer.sessions.insert(session, new);
        assert!(peer.sessions.len() <= 4, "previous, current, next, and one that is about to go");
    }

    fn activate(&mut self, peer: PeerId, session: SessionId) {
        let ledger = self.ledger.clone();
        let peer = self.peer(peer);
        let found = peer.sessions.get(&session).expect("activates a session that is not there");
        let has_key = ledger.borrow().openers.contains(&*found.codec.seal);
        assert!(has_key, "seals with a key that the other end does not have yet");
        let number = found.number;
        if peer.may_begin(number) || !peer.began_by_packet() {
            peer.active = Some(session);
        }
    }

    fn seal(
        &mut self,
        now: Instant,
        id: PeerId,
        packet: Option<u64>,
        message: Vec<u8>,
    ) -> Option<(Path, Sealed)> {
        let ledger = self.ledger.clone();
        let peer = self.peer(id);
        let path = peer.path?;
        let session = peer.sessions.get_mut(&peer.active?).filter(|session| now < session.codec.expires)?;
        let (key, counter) = (*session.codec.seal, session.counter);
        session.counter += 1;
        assert!(ledger.borrow_mut().used.insert((key, counter)), "a nonce is used twice");
        match packet {
            Some(_) => peer.sent.last_data = Some(now),
            None if !message.is_empty() => peer.sent.last_other = Some(now),
            None => (peer.sent.last_keepalive, peer.sent.keepalives) = (Some(now), peer.sent.keepalives + 1),
        }
        peer.sent_bytes += length(packet, &message);
        Some((path, Sealed { receiver: session.codec.remote_index, key, counter, packet, message }))
    }

    /// Sends what waited.
    fn flush(&mut self, now: Instant, id: PeerId) -> Outgoing {
        let mut sent = Vec::new();
        while let Some(number) = self.peer(id).staged.front().copied()
            && let Some(sealed) = self.seal(now, id, Some(number), Vec::new())
        {
            self.peer(id).staged.pop_front();
            sent.push(sealed);
        }
        sent
    }

    pub(crate) fn send(
        &mut self,
        now: Instant,
        to: IpAddr,
        number: u64,
    ) -> (Option<(Path, Sealed)>, Vec<Notice>) {
        let routes = self.routes.iter().filter(|(route, _)| route.contains(&to));
        let Some((_, &id)) = routes.max_by_key(|(route, _)| route.prefix_len()) else {
            return (None, Vec::new());
        };
        if let Some(sealed) = self.seal(now, id, Some(number), Vec::new()) {
            return (Some(sealed), Vec::new());
        }
        self.dropped += 1;
        let peer = self.peer(id);
        peer.staged.push_back(number);
        if peer.staged.len() > 128 {
            peer.staged.pop_front();
        }
        if peer.next_wanted.is_some_and(|next| now < next) {
            return (None, Vec::new());
        }
        peer.next_wanted = Some(now + Duration::from_secs(1));
        (None, vec![Notice::Wanted { peer: id, flow: Flow::between(to, to) }])
    }

    pub(crate) fn receive(
        &mut self,
        now: Instant,
        path: Path,
        sealed: &Sealed,
    ) -> (Option<(PeerId, u64)>, Vec<Notice>) {
        let session_id = SessionId(sealed.receiver.into());
        let found = self.peers.iter_mut().find(|(_, peer)| peer.sessions.contains_key(&session_id));
        let Some((&id, peer)) = found else { return (None, Vec::new()) };
        let Some(session) = peer.sessions.get_mut(&session_id) else { return (None, Vec::new()) };
        let opens = *session.codec.open == sealed.key && now < session.codec.expires;
        let first = session.seen.is_empty();
        if !opens || !session.seen.insert(sealed.counter) {
            return (None, Vec::new());
        }
        match sealed.packet {
            Some(_) => peer.received.last_data = Some(now),
            None if !sealed.message.is_empty() => peer.received.last_other = Some(now),
            None => {
                peer.received.last_keepalive = Some(now);
                peer.received.keepalives += 1;
            }
        }
        peer.received_bytes += length(sealed.packet, &sealed.message);
        let mut notices = Vec::new();
        let age = (session.made, sealed.counter);
        if first {
            peer.first_opened(session_id);
            notices.push(Notice::FirstOpened { peer: id, session: session_id });
        }
        if peer.newest.is_none_or(|newest| newest < age) {
            peer.newest = Some(age);
            if peer.path != Some(path) {
                // To a connection, or from one, only the machine moves it.
                let is_udp = |path: &Path| path.transport() == Transport::Udp;
                if is_udp(&path) && peer.path.as_ref().is_none_or(is_udp) {
                    peer.path = Some(path);
                }
                notices.push(Notice::Moved { peer: id, path });
            }
        }
        if !sealed.message.is_empty() {
            let mut payload = sealed.message.clone();
            payload.resize(payload.len().next_multiple_of(16), 0);
            notices.push(Notice::Message { peer: id, session: session_id, payload });
        }
        (sealed.packet.map(|number| (id, number)), notices)
    }

    /// The driver's totals of each second, if something changed.
    pub(crate) fn totals(&mut self) -> Vec<Notice> {
        let mut notices = Vec::new();
        for (&id, peer) in &mut self.peers {
            let now = (peer.received_bytes, peer.sent_bytes);
            if std::mem::replace(&mut peer.told, now) == now {
                continue;
            }
            let (received_bytes, sent_bytes) = now;
            let message_bytes = 0;
            notices.push(Notice::Traffic {
                peer: id,
                received: peer.received.keepalives,
                sent: peer.sent.keepalives,
                received_bytes,
                sent_bytes,
                message_bytes,
                activity: PeerActivity { received: peer.received, sent: peer.sent },
            });
        }
        notices
    }

    /// Asserts the conditions that hold at all times.
    pub(crate) fn check(&self, now: Instant) {
        for peer in self.peers.values() {
            assert!(peer.sessions.len() <= 3, "previous, current and next");
            let silent = peer.last_install.map_or(Duration::ZERO, |last| now - last);
            assert!(
                peer.sessions.is_empty() || silent <= Duration::from_secs(540),
                "keys are there {silent:?} after the last handshake"
            );
        }
    }
}
