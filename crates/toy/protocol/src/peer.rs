//! A peer: its handshakes, its sessions, where it is.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use adit_core::{
    Cipher, DataEvent, Install, Instant, OnFirstOpened, Path, PeerConfig, PeerId, PeerInfo, PeerOrder,
    Rejected, SessionId, UnixTime,
};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;

use crate::Codec;
use crate::endpoint::Event;
use crate::keys::{PairKeys, Secret};
use crate::settings::PeerSettings;
use crate::wire::{self, EXIT_NOTICE, Initiation, MARKER, Response, Sealed};

/// An initiation that is not answered is followed by another one.
const RETRY: Duration = Duration::from_secs(1);
/// Without a session, a handshake ends so long after its first initiation; a packet begins another one.
const ATTEMPT_MAX: Duration = Duration::from_secs(20);
/// A peer that sent nothing for so many keepalive intervals may have lost its sessions.
const SILENT_INTERVALS: u32 = 3;
/// Sessions that open what is still in transit, beside the one that seals. Two ends that initiate at once replace two in a
/// moment.
const OLDER: usize = 3;

/// What all peers of an endpoint share: its output, the time, randomness.
pub(crate) struct Shared {
    pub(crate) events: VecDeque<Event>,
    pub(crate) transmits: VecDeque<(Path, Vec<u8>)>,
    pub(crate) now: Instant,
    pub(crate) rng: ChaCha20Rng,
    /// The wall clock at the origin of [`Instant`].
    pub(crate) origin: UnixTime,
    /// The timestamp of the last initiation.
    pub(crate) timestamp: u64,
    /// What each socket is bound to, or which of our addresses stands for it.
    pub(crate) locals: BTreeMap<u32, SocketAddr>,
}

impl Shared {
    fn data(&mut self, event: DataEvent<Codec>) {
        self.events.push_back(Event::Data(event));
    }

    fn nonce(&mut self) -> [u8; 32] {
        let mut nonce = [0; 32];
        self.rng.fill_bytes(&mut nonce);
        nonce
    }

    /// Nanoseconds since 1970, or more, so that none comes twice.
    fn timestamp(&mut self) -> u64 {
        let wall = self.origin.0.saturating_mul(1_000_000_000).saturating_add(self.now.as_nanos());
        self.timestamp = wall.max(self.timestamp + 1);
        self.timestamp
    }
}

/// Where control messages go, and whether with a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlPath {
    pub(crate) path: Path,
    pub(crate) marked: bool,
}

impl ControlPath {
    /// The same by another path.
    pub(crate) fn at(self, path: Path) -> Self {
        ControlPath { path, ..self }
    }

    fn send(self, message: &[u8], shared: &mut Shared) {
        let marker = if self.marked { &MARKER[..] } else { &[] };
        shared.transmits.push_back((self.path, [marker, message].concat()));
    }
}

/// An initiation that is not answered yet.
struct Attempt {
    index: u32,
    nonce: [u8; 32],
    initiation: Vec<u8>,
    /// When the first one was sent.
    began: Instant,
    retry_at: Instant,
}

#[derive(Clone, Copy)]
struct Session {
    index: u32,
    /// By us.
    initiated: bool,
    created: Instant,
}

impl Session {
    fn id(self) -> SessionId {
        SessionId(self.index.into())
    }
}

pub(crate) struct Peer {
    pub(crate) id: PeerId,
    pub(crate) settings: PeerSettings,
    keys: PairKeys,
    pub(crate) control: Option<ControlPath>,
    data: Option<Path>,
    attempt: Option<Attempt>,
    /// A packet waits, and it is not yet known where to send an initiation.
    wanted: bool,
    /// It answers an initiation, and opened nothing yet.
    next: Option<Session>,
    /// Seals.
    current: Option<Session>,
    /// Those that sealed before, the oldest first.
    older: Vec<Session>,
    /// The timestamp of the peer's last initiation.
    seen_timestamp: u64,
    rekeys: u64,
    /// Since when there are sessions.
    up: Option<Instant>,
    /// When something authentic came from it, or it got a session.
    heard: Instant,
    keepalive_at: Instant,
}

impl Peer {
    pub(crate) fn new(id: PeerId, settings: PeerSettings, shared: &mut Shared) -> Self {
        shared.data(DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer: id,
            path: None,
            routes: settings.routes.clone(),
            selectors: Default::default(),
            max_mss: None,
            roams: true,
            staging: true,
            by_path: true,
        })));
        Peer {
            id,
            keys: PairKeys::new(&settings.key),
            settings,
            control: None,
            data: None,
            attempt: None,
            wanted: false,
            next: None,
            current: None,
            older: Vec::new(),
            seen_timestamp: 0,
            rekeys: 0,
            up: None,
            heard: shared.now,
            keepalive_at: shared.now,
        }
    }

    /// Where its data goes is known.
    pub(crate) fn reached(&mut self, path: Path, shared: &mut Shared) {
        self.data = Some(path);
        shared.data(DataEvent::Peer(PeerOrder::Move { peer: self.id, path }));
        if std::mem::take(&mut self.wanted) {
            self.initiate(shared);
        }
    }

    /// A packet waits for a session.
    pub(crate) fn want(&mut self, shared: &mut Shared) {
        if self.attempt.is_none() {
            self.initiate(shared);
        }
    }

    /// Sends an initiation.
    pub(crate) fn initiate(&mut self, shared: &mut Shared) {
        let is_opening = self.settings.remotes.is_some() && self.data.is_none();
        let Some(control) = self.control.filter(|_| !is_opening) else {
            self.wanted = true;
            return;
        };
        let (index, nonce) = (self.fresh_index(shared), shared.nonce());
        let timestamp = shared.timestamp();
        let identity = self.settings.identity;
        let initiation = Initiation { identity, sender: index, timestamp, nonce }.encode(&self.keys);
        control.send(&initiation, shared);
        let began = self.attempt.as_ref().map_or(shared.now, |attempt| attempt.began);
        self.attempt = Some(Attempt { index, nonce, initiation, began, retry_at: shared.now + RETRY });
    }

    pub(crate) fn handle_initiation(
        &mut self,
        from: ControlPath,
        initiation: &Initiation,
        sealed: Sealed<'_>,
        shared: &mut Shared,
    ) -> Result<(), Rejected> {
        if !sealed.verifies(&self.keys, &[]) {
            return Err(Rejected::Unauthentic("the tag of an initiation"));
        }
        if initiation.timestamp <= self.seen_timestamp {
            return Err(Rejected::Replayed);
        }
        self.seen_timestamp = initiation.timestamp;
        self.control = Some(from);
        let (index, nonce) = (self.fresh_index(shared), shared.nonce());
        let (open, seal) = self.keys.session(&initiation.nonce, &nonce);
        self.retire(self.next, shared);
        self.next = Some(self.install(index, initiation.sender, (seal, open), false, shared));
        let response = Response { receiver: initiation.sender, sender: index, nonce };
        from.send(&response.encode(&self.keys, &sealed.bytes()), shared);
        Ok(())
    }

    pub(crate) fn handle_response(
        &mut self,
        response: &Response,
        sealed: Sealed<'_>,
        shared: &mut Shared,
    ) -> Result<(), Rejected> {
        let Some(attempt) = self.attempt.take_if(|attempt| attempt.index == response.receiver) else {
            return Err(Rejected::Unexpected("a response to no initiation of ours"));
        };
        if !sealed.verifies(&self.keys, &attempt.initiation) {
            self.attempt = Some(attempt);
            return Err(Rejected::Unauthentic("the tag of a response"));
        }
        let (seal, open) = self.keys.session(&attempt.nonce, &response.nonce);
        let session = self.install(attempt.index, response.sender, (seal, open), true, shared);
        self.seal_with(session, shared);
        // It shows the peer that we have the keys, and where we are.
        self.keep_alive(shared);
        Ok(())
    }

    /// A session opened something for the first time.
    pub(crate) fn confirm(&mut self, session: SessionId, shared: &mut Shared) {
        if let Some(next) = self.next.take_if(|next| next.id() == session) {
            self.seal_with(next, shared);
        }
    }

    /// Where its data goes, if that is known.
    pub(crate) fn data_path(&self) -> Option<Path> {
        self.data
    }

    /// Data comes from there now.
    pub(crate) fn roamed(&mut self, path: Path, shared: &mut Shared) {
        self.data = Some(path);
        shared.data(DataEvent::Peer(PeerOrder::Move { peer: self.id, path }));
    }

    /// Something authentic came from it at that time.
    pub(crate) fn note_heard(&mut self, at: Instant) {
        self.heard = self.heard.max(at);
    }

    fn fresh_index(&self, shared: &mut Shared) -> u32 {
        loop {
            let index = wire::index(shared.rng.next_u32(), self.id.0 as u8);
            if self.sessions().all(|session| session.index != index) {
                return index;
            }
        }
    }

    fn sessions(&self) -> impl Iterator<Item = Session> + '_ {
        self.next.into_iter().chain(self.current).chain(self.older.iter().copied())
    }

    fn install(
        &self,
        index: u32,
        remote_index: u32,
        (seal_key, open_key): (Secret, Secret),
        initiated: bool,
        shared: &mut Shared,
    ) -> Session {
        let session = Session { index, initiated, created: shared.now };
        let settings = &self.settings;
        let codec = Codec {
            remote_index,
            seal_key,
            open_key,
            first_counter: settings.first_counter.into(),
            rekey_after_datagrams: settings.rekey_after_datagrams,
            selectors: settings.selectors.clone(),
            expires: shared.now + settings.expires_after,
        };
        let on_first_opened = match initiated {
            true => OnFirstOpened::Nothing,
            false => OnFirstOpened::Activate,
        };
        let install = Install { on_first_opened, ..Install::new(self.id, session.id(), codec) };
        shared.data(DataEvent::Install(Box::new(install)));
        session
    }

    /// The peer has the keys of that session.
    fn seal_with(&mut self, session: Session, shared: &mut Shared) {
        shared.data(DataEvent::Activate { peer: self.id, session: session.id() });
        self.older.extend(self.current.replace(session));
        if self.older.len() > OLDER {
            let oldest = self.older.remove(0);
            self.retire(Some(oldest), shared);
        }
        (self.heard, self.keepalive_at) = (shared.now, shared.now + self.settings.keepalive);
        if self.up.is_some() {
            self.rekeys += 1;
            return;
        }
        (self.up, self.rekeys) = (Some(shared.now), 0);
        if let Some(info) = self.info() {
            shared.events.push_back(Event::PeerUp { peer: self.id, info: Box::new(info) });
        }
    }

    fn retire(&self, session: Option<Session>, shared: &mut Shared) {
        if let Some(session) = session {
            shared.data(DataEvent::Retire { peer: self.id, session: session.id() });
        }
    }

    fn keep_alive(&mut self, shared: &mut Shared) {
        self.keepalive_at = shared.now + self.settings.keepalive;
        shared.data(DataEvent::Inject { peer: self.id, payload: Vec::new() });
    }

    /// Ends all sessions. `tell`: the peer hears of it.
    pub(crate) fn end(&mut self, reason: &str, tell: bool, shared: &mut Shared) {
        if tell && self.current.is_some() {
            shared.data(DataEvent::Inject { peer: self.id, payload: EXIT_NOTICE.to_vec() });
        }
        self.sessions().for_each(|session| self.retire(Some(session), shared));
        (self.next, self.current, self.attempt) = (None, None, None);
        self.older.clear();
        if self.up.take().is_some() {
            shared.events.push_back(Event::PeerDown { peer: self.id, reason: reason.to_owned() });
        }
    }

    /// When [`Peer::handle_timeout`] is due.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        let attempt = self.attempt.as_ref().map(|attempt| attempt.retry_at);
        let expiry = self.sessions().map(|session| session.created + self.settings.expires_after).min();
        let keepalive = self.current.map(|_| self.keepalive_at);
        let rekey = if self.attempt.is_none() { self.rekey_at() } else { None };
        [attempt, expiry, keepalive, rekey].into_iter().flatten().min()
    }

    /// When a new session is due: the current one is old, or the peer is silent.
    fn rekey_at(&self) -> Option<Instant> {
        let current = self.current.filter(|_| self.control.is_some())?;
        let silent = self.heard + self.settings.keepalive * SILENT_INTERVALS;
        let PeerSettings { rekey_after, expires_after, .. } = self.settings;
        // Who answered follows only if the other end did not. After two handshakes at once, each may seal with the session
        // that the other one initiated.
        let age = if current.initiated { rekey_after } else { (rekey_after + expires_after) / 2 };
        Some(silent.min(current.created + age))
    }

    pub(crate) fn handle_timeout(&mut self, shared: &mut Shared) {
        let now = shared.now;
        self.expire(shared);
        if self.current.is_some() && self.keepalive_at <= now {
            self.keep_alive(shared);
        }
        match &self.attempt {
            Some(attempt) if self.current.is_none() && attempt.began + ATTEMPT_MAX <= now => {
                self.attempt = None
            }
            Some(attempt) if attempt.retry_at <= now => self.initiate(shared),
            None if self.rekey_at().is_some_and(|at| at <= now) => self.initiate(shared),
            _ => {}
        }
    }

    fn expire(&mut self, shared: &mut Shared) {
        let (now, most) = (shared.now, self.settings.expires_after);
        let is_over = |session: &Session| session.created + most <= now;
        let over: Vec<Session> = self.sessions().filter(is_over).collect();
        over.into_iter().for_each(|session| self.retire(Some(session), shared));
        self.next.take_if(|session| is_over(session));
        self.current.take_if(|session| is_over(session));
        self.older.retain(|session| !is_over(session));
        if self.current.is_none() && self.up.take().is_some() {
            let reason = "its session expired".to_owned();
            shared.events.push_back(Event::PeerDown { peer: self.id, reason });
        }
    }

    /// What status shows, while there are sessions.
    pub(crate) fn info(&self) -> Option<PeerInfo<()>> {
        Some(PeerInfo {
            name: format!("{:08x}", self.settings.identity),
            path: self.data.or(self.control.map(|control| control.path))?,
            addresses: Vec::new(),
            cipher: Cipher::ChaCha20Poly1305,
            rekeys: self.rekeys,
            last_handshake: self.current?.created,
            since: self.up?,
            heard: self.heard,
            routes: self.settings.routes.clone(),
            detail: (),
        })
    }
}
