//! A peer: where it is, whether it is up, and its series of sessions.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use adit_core::{
    Cipher, DataEvent, Flow, Identity, Instant, Path, PeerConfig, PeerId, PeerInfo, PeerOrder, Rejected,
    Selector, SessionId, UnixTime,
};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;

use crate::Codec;
use crate::endpoint::Event;
use crate::keys::PairKeys;
use crate::series::{Context, Series};
use crate::settings::PeerSettings;
use crate::wire::{self, EXIT_NOTICE, Initiation, MARKER, Response, Sealed};

/// A peer that sent nothing for so many keepalive intervals may have lost its sessions.
const SILENT_INTERVALS: u32 = 3;
/// The state that all peers of an endpoint share: its output, the time, randomness.
pub(crate) struct Shared {
    pub(crate) events: VecDeque<Event>,
    pub(crate) transmits: VecDeque<(Path, Vec<u8>)>,
    pub(crate) now: Instant,
    pub(crate) rng: ChaCha20Rng,
    /// The wall clock at the origin of [`Instant`].
    pub(crate) origin: UnixTime,
    /// The timestamp of the last initiation.
    pub(crate) timestamp: u64,
    /// The address of each socket, or our address that the number of a socket stands for.
    pub(crate) locals: BTreeMap<u32, SocketAddr>,
}

impl Shared {
    pub(crate) fn data(&mut self, event: DataEvent<Codec>) {
        self.events.push_back(Event::Data(event));
    }

    pub(crate) fn nonce(&mut self) -> [u8; 32] {
        let mut nonce = [0; 32];
        self.rng.fill_bytes(&mut nonce);
        nonce
    }

    /// Nanoseconds since 1970, or more, so that none comes twice.
    pub(crate) fn timestamp(&mut self) -> u64 {
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
    /// This control path with another path.
    pub(crate) fn at(self, path: Path) -> Self {
        ControlPath { path, ..self }
    }

    pub(crate) fn send(self, message: &[u8], shared: &mut Shared) {
        let marker = if self.marked { &MARKER[..] } else { &[] };
        shared.transmits.push_back((self.path, [marker, message].concat()));
    }
}

pub(crate) struct Peer {
    pub(crate) id: PeerId,
    pub(crate) settings: PeerSettings,
    keys: PairKeys,
    pub(crate) control: Option<ControlPath>,
    data: Option<Path>,
    series: Vec<Series>,
    /// Since when there are sessions.
    up: Option<Instant>,
    /// When something authentic came from it, or it got a session.
    heard: Instant,
    keepalive_at: Instant,
}

/// The name of a peer: its identity in hexadecimal.
fn name(settings: &PeerSettings) -> String {
    format!("{:08x}", settings.identity)
}

impl Peer {
    pub(crate) fn new(id: PeerId, settings: PeerSettings, shared: &mut Shared) -> Self {
        // A series without selectors carries everything.
        let selectors: Vec<Selector> = match settings.series.iter().any(|selectors| selectors.is_empty()) {
            true => Vec::new(),
            false => settings.series.iter().flat_map(|selectors| selectors.iter().cloned()).collect(),
        };
        shared.data(DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer: id,
            path: None,
            routes: settings.routes.clone(),
            selectors: selectors.into(),
            max_mss: None,
            roams: true,
            staging: true,
            device: settings.device,
            by_path: true,
            identity: Identity { name: name(&settings), groups: Vec::new() },
        })));
        let numbers = (0..=u8::MAX).zip(&settings.series);
        Peer {
            id,
            keys: PairKeys::new(&settings.key),
            series: numbers.map(|(number, _)| Series::new(number)).collect(),
            settings,
            control: None,
            data: None,
            up: None,
            heard: shared.now,
            keepalive_at: shared.now,
        }
    }

    /// Its series, with their part of the peer.
    fn parts<'a>(&'a mut self, shared: &'a mut Shared) -> (&'a mut [Series], Context<'a>) {
        let is_opening = self.settings.remotes.is_some() && self.data.is_none();
        let control = self.control.filter(|_| !is_opening);
        let Peer { id, settings, keys, series, .. } = self;
        (series, Context { peer: *id, settings, keys, control, shared })
    }

    fn each_series(&mut self, shared: &mut Shared, change: impl Fn(&mut Series, &mut Context<'_>)) {
        let (series, mut cx) = self.parts(shared);
        series.iter_mut().for_each(|series| change(series, &mut cx));
    }

    /// Where its data goes is known.
    pub(crate) fn reached(&mut self, path: Path, shared: &mut Shared) {
        self.data = Some(path);
        shared.data(DataEvent::Peer(PeerOrder::Move { peer: self.id, path }));
        self.each_series(shared, Series::reached);
    }

    /// A packet waits for a session.
    pub(crate) fn want(&mut self, flow: &Flow, shared: &mut Shared) {
        let (series, mut cx) = self.parts(shared);
        let wanted = series.iter_mut().find(|series| series.selects(cx.settings, flow));
        wanted.into_iter().for_each(|series| series.want(&mut cx));
    }

    /// A session nears its limit.
    pub(crate) fn limit_near(&mut self, session: SessionId, shared: &mut Shared) {
        let (series, mut cx) = self.parts(shared);
        let used = series.get_mut(wire::series_of(session.0 as u32));
        used.into_iter().for_each(|series| series.want(&mut cx));
    }

    /// Sends an initiation for each series.
    pub(crate) fn initiate(&mut self, shared: &mut Shared) {
        self.each_series(shared, Series::initiate);
    }

    pub(crate) fn handle_initiation(
        &mut self,
        from: ControlPath,
        initiation: &Initiation,
        sealed: Sealed<'_>,
        shared: &mut Shared,
    ) -> Result<(), Rejected> {
        let (series, mut cx) = self.parts(shared);
        let series = series.get_mut(usize::from(initiation.series));
        let series = series.ok_or(Rejected::Unexpected("an unknown series"))?;
        series.handle_initiation(from, initiation, sealed, &mut cx)?;
        self.control = Some(from);
        Ok(())
    }

    pub(crate) fn handle_response(
        &mut self,
        response: &Response,
        sealed: Sealed<'_>,
        shared: &mut Shared,
    ) -> Result<(), Rejected> {
        let (series, mut cx) = self.parts(shared);
        let series = series.get_mut(wire::series_of(response.receiver));
        let series = series.ok_or(Rejected::Unexpected("an unknown index"))?;
        series.handle_response(response, sealed, &mut cx)?;
        self.has_session(shared);
        // It shows the peer that we have the keys, and where we are.
        self.keep_alive(shared);
        Ok(())
    }

    /// A session opened something for the first time.
    pub(crate) fn confirm(&mut self, session: SessionId, shared: &mut Shared) {
        let (series, mut cx) = self.parts(shared);
        let series = series.get_mut(wire::series_of(session.0 as u32));
        if series.is_some_and(|series| series.confirm(session, &mut cx)) {
            self.has_session(shared);
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

    /// One of its series seals with a new session.
    fn has_session(&mut self, shared: &mut Shared) {
        (self.heard, self.keepalive_at) = (shared.now, shared.now + self.settings.keepalive);
        if self.up.is_some() {
            return;
        }
        self.up = Some(shared.now);
        if let Some(info) = self.info() {
            shared.events.push_back(Event::PeerUp { peer: self.id, info: Box::new(info) });
        }
    }

    /// Sends a keepalive in each series.
    fn keep_alive(&mut self, shared: &mut Shared) {
        self.keepalive_at = shared.now + self.settings.keepalive;
        for session in self.series.iter().filter_map(|series| series.current) {
            let (peer, session) = (self.id, session.id());
            shared.data(DataEvent::InjectInto { peer, session, payload: Vec::new() });
        }
    }

    fn is_keyed(&self) -> bool {
        self.series.iter().any(|series| series.current.is_some())
    }

    /// Ends all sessions. `tell`: the peer gets the exit message.
    pub(crate) fn end(&mut self, reason: &str, tell: bool, shared: &mut Shared) {
        if tell && self.is_keyed() {
            shared.data(DataEvent::Inject { peer: self.id, payload: EXIT_NOTICE.to_vec() });
        }
        self.each_series(shared, Series::end);
        self.down(reason, shared);
    }

    fn down(&mut self, reason: &str, shared: &mut Shared) {
        if self.up.take().is_some() {
            self.series.iter_mut().for_each(|series| series.rekeys = 0);
            shared.events.push_back(Event::PeerDown { peer: self.id, reason: reason.to_owned() });
        }
    }

    /// Since when it is silent, if it can be asked.
    fn silent(&self) -> Option<Instant> {
        self.control.map(|_| self.heard + self.settings.keepalive * SILENT_INTERVALS)
    }

    /// When [`Peer::handle_timeout`] is due.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        let keepalive = self.is_keyed().then_some(self.keepalive_at);
        let series = self.series.iter().filter_map(|series| series.timeout(&self.settings, self.silent()));
        series.chain(keepalive).min()
    }

    pub(crate) fn handle_timeout(&mut self, shared: &mut Shared) {
        let silent = self.silent();
        self.each_series(shared, |series, cx| series.handle_timeout(silent, cx));
        if !self.is_keyed() {
            self.down("its session expired", shared);
        } else if self.keepalive_at <= shared.now {
            self.keep_alive(shared);
        }
    }

    /// The peer as status shows it, while there are sessions.
    pub(crate) fn info(&self) -> Option<PeerInfo<()>> {
        Some(PeerInfo {
            name: name(&self.settings),
            path: self.data.or(self.control.map(|control| control.path))?,
            addresses: Vec::new(),
            cipher: Cipher::ChaCha20Poly1305,
            rekeys: self.series.iter().map(|series| series.rekeys).sum(),
            last_handshake: self.series.iter().filter_map(|series| Some(series.current?.created)).max()?,
            since: self.up?,
            heard: self.heard,
            routes: self.settings.routes.clone(),
            detail: (),
        })
    }
}
