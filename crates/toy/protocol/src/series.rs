//! A series of sessions with a peer: one seals, the next one is agreed on while it does.

use std::time::Duration;

use adit_core::{DataEvent, Flow, Install, Instant, OnFirstOpened, PeerId, Rejected, Selector, SessionId};
use rand_core::RngCore;

use crate::Codec;
use crate::keys::{PairKeys, Secret};
use crate::peer::{ControlPath, Shared};
use crate::settings::PeerSettings;
use crate::wire::{self, Initiation, Response, Sealed};

/// An initiation that is not answered is followed by another one.
const RETRY: Duration = Duration::from_secs(1);
/// Without a session, a handshake ends so long after its first initiation; a packet begins another one.
const ATTEMPT_MAX: Duration = Duration::from_secs(20);
/// Sessions that open datagrams that are still in transit, beside the one that seals. Two ends that initiate at once
/// replace two in a moment.
const OLDER: usize = 3;

/// A series' part of its peer, and of the endpoint.
pub(crate) struct Context<'a> {
    pub(crate) peer: PeerId,
    pub(crate) settings: &'a PeerSettings,
    pub(crate) keys: &'a PairKeys,
    /// Where initiations go. `None`: not known yet.
    pub(crate) control: Option<ControlPath>,
    pub(crate) shared: &'a mut Shared,
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

/// The keys of one direction each.
struct SessionKeys {
    seal: Secret,
    open: Secret,
}

#[derive(Clone, Copy)]
pub(crate) struct Session {
    index: u32,
    /// By us.
    initiated: bool,
    pub(crate) created: Instant,
}

impl Session {
    pub(crate) fn id(self) -> SessionId {
        SessionId(self.index.into())
    }
}

pub(crate) struct Series {
    number: u8,
    attempt: Option<Attempt>,
    /// A packet waits, and it is not yet known where to send an initiation.
    wanted: bool,
    /// The session that answers an initiation, and opened nothing yet.
    next: Option<Session>,
    /// Seals.
    pub(crate) current: Option<Session>,
    /// The sessions that sealed before, the oldest first.
    older: Vec<Session>,
    /// The timestamp of the peer's last initiation.
    seen_timestamp: u64,
    pub(crate) rekeys: u64,
}

impl Series {
    pub(crate) fn new(number: u8) -> Self {
        Series {
            number,
            attempt: None,
            wanted: false,
            next: None,
            current: None,
            older: Vec::new(),
            seen_timestamp: 0,
            rekeys: 0,
        }
    }

    /// The selectors of its sessions; empty: they carry everything.
    fn selectors<'a>(&self, settings: &'a PeerSettings) -> &'a [Selector] {
        settings.series.get(usize::from(self.number)).map_or(&[], |selectors| selectors)
    }

    pub(crate) fn selects(&self, settings: &PeerSettings, flow: &Flow) -> bool {
        let selectors = self.selectors(settings);
        selectors.is_empty() || selectors.iter().any(|selector| selector.matches(flow))
    }

    /// A packet waits for a session.
    pub(crate) fn want(&mut self, cx: &mut Context<'_>) {
        if self.attempt.is_none() {
            self.initiate(cx);
        }
    }

    /// Begins the initiation that waited until the peer's place was known.
    pub(crate) fn reached(&mut self, cx: &mut Context<'_>) {
        if std::mem::take(&mut self.wanted) {
            self.initiate(cx);
        }
    }

    /// Sends an initiation.
    pub(crate) fn initiate(&mut self, cx: &mut Context<'_>) {
        let Some(control) = cx.control else {
            self.wanted = true;
            return;
        };
        let (index, nonce) = (self.fresh_index(cx), cx.shared.nonce());
        let timestamp = cx.shared.timestamp();
        let (identity, series) = (cx.settings.identity, self.number);
        let initiation = Initiation { series, identity, sender: index, timestamp, nonce }.encode(cx.keys);
        control.send(&initiation, cx.shared);
        let now = cx.shared.now;
        let began = self.attempt.as_ref().map_or(now, |attempt| attempt.began);
        self.attempt = Some(Attempt { index, nonce, initiation, began, retry_at: now + RETRY });
    }

    pub(crate) fn handle_initiation(
        &mut self,
        from: ControlPath,
        initiation: &Initiation,
        sealed: Sealed<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Rejected> {
        if !sealed.verifies(cx.keys, &[]) {
            return Err(Rejected::Unauthentic("the tag of an initiation"));
        }
        if initiation.timestamp <= self.seen_timestamp {
            return Err(Rejected::Replayed);
        }
        self.seen_timestamp = initiation.timestamp;
        let (index, nonce) = (self.fresh_index(cx), cx.shared.nonce());
        let (open, seal) = cx.keys.session(&initiation.nonce, &nonce);
        retire(self.next, cx);
        let session = Session { index, initiated: false, created: cx.shared.now };
        self.install(session, initiation.sender, SessionKeys { seal, open }, cx);
        self.next = Some(session);
        let response = Response { receiver: initiation.sender, sender: index, nonce };
        from.send(&response.encode(cx.keys, &sealed.bytes()), cx.shared);
        Ok(())
    }

    pub(crate) fn handle_response(
        &mut self,
        response: &Response,
        sealed: Sealed<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Rejected> {
        let Some(attempt) = self.attempt.take_if(|attempt| attempt.index == response.receiver) else {
            return Err(Rejected::Unexpected("a response to no initiation of ours"));
        };
        if !sealed.verifies(cx.keys, &attempt.initiation) {
            self.attempt = Some(attempt);
            return Err(Rejected::Unauthentic("the tag of a response"));
        }
        let (seal, open) = cx.keys.session(&attempt.nonce, &response.nonce);
        let session = Session { index: attempt.index, initiated: true, created: cx.shared.now };
        self.install(session, response.sender, SessionKeys { seal, open }, cx);
        self.seal_with(session, cx);
        Ok(())
    }

    /// A session opened something for the first time. Whether it seals from now on.
    pub(crate) fn confirm(&mut self, session: SessionId, cx: &mut Context<'_>) -> bool {
        let next = self.next.take_if(|next| next.id() == session);
        next.into_iter().for_each(|next| self.seal_with(next, cx));
        next.is_some()
    }

    fn fresh_index(&self, cx: &mut Context<'_>) -> u32 {
        loop {
            let index = wire::index(cx.shared.rng.next_u32(), self.number, cx.peer.0 as u8);
            if self.sessions().all(|session| session.index != index) {
                return index;
            }
        }
    }

    fn sessions(&self) -> impl Iterator<Item = Session> + '_ {
        self.next.into_iter().chain(self.current).chain(self.older.iter().copied())
    }

    fn install(&self, session: Session, remote_index: u32, keys: SessionKeys, cx: &mut Context<'_>) {
        let settings = cx.settings;
        let codec = Codec {
            remote_index,
            seal_key: keys.seal,
            open_key: keys.open,
            first_counter: settings.first_counter.into(),
            rekey_after_datagrams: settings.rekey_after_datagrams,
            selectors: self.selectors(settings).into(),
            expires: session.created + settings.expires_after,
        };
        let on_first_opened = match session.initiated {
            true => OnFirstOpened::Nothing,
            false => OnFirstOpened::Activate,
        };
        let install = Install::new(cx.peer, session.id(), codec);
        let install = Install { series: self.number.into(), on_first_opened, ..install };
        cx.shared.data(DataEvent::Install(Box::new(install)));
    }

    /// The peer has the keys of that session.
    fn seal_with(&mut self, session: Session, cx: &mut Context<'_>) {
        cx.shared.data(DataEvent::Activate { peer: cx.peer, session: session.id() });
        if let Some(before) = self.current.replace(session) {
            self.rekeys += 1;
            self.older.push(before);
        }
        if self.older.len() > OLDER {
            let oldest = self.older.remove(0);
            retire(Some(oldest), cx);
        }
    }

    /// Forgets all sessions.
    pub(crate) fn end(&mut self, cx: &mut Context<'_>) {
        self.sessions().for_each(|session| retire(Some(session), cx));
        (self.next, self.current, self.attempt, self.rekeys) = (None, None, None, 0);
        self.older.clear();
    }

    /// When [`Series::handle_timeout`] is due. `silent`: since then the peer is silent.
    pub(crate) fn timeout(&self, settings: &PeerSettings, silent: Option<Instant>) -> Option<Instant> {
        let attempt = self.attempt.as_ref().map(|attempt| attempt.retry_at);
        let expiry = self.sessions().map(|session| session.created + settings.expires_after).min();
        let rekey = if self.attempt.is_none() { self.rekey_at(settings, silent) } else { None };
        [attempt, expiry, rekey].into_iter().flatten().min()
    }

    /// When a new session is due: the current one is old, or the peer is silent.
    fn rekey_at(&self, settings: &PeerSettings, silent: Option<Instant>) -> Option<Instant> {
        let (current, silent) = (self.current?, silent?);
        let PeerSettings { rekey_after, expires_after, .. } = *settings;
        // The end that answered follows only if its peer did not. After two handshakes at once, each may seal with the
        // session that its peer initiated.
        let age = if current.initiated { rekey_after } else { (rekey_after + expires_after) / 2 };
        Some(silent.min(current.created + age))
    }

    pub(crate) fn handle_timeout(&mut self, silent: Option<Instant>, cx: &mut Context<'_>) {
        let now = cx.shared.now;
        self.expire(cx);
        match &self.attempt {
            Some(attempt) if self.current.is_none() && attempt.began + ATTEMPT_MAX <= now => {
                self.attempt = None
            }
            Some(attempt) if attempt.retry_at <= now => self.initiate(cx),
            None if self.rekey_at(cx.settings, silent).is_some_and(|at| at <= now) => self.initiate(cx),
            _ => {}
        }
    }

    fn expire(&mut self, cx: &mut Context<'_>) {
        let (now, most) = (cx.shared.now, cx.settings.expires_after);
        let is_over = |session: &Session| session.created + most <= now;
        let over: Vec<Session> = self.sessions().filter(is_over).collect();
        over.into_iter().for_each(|session| retire(Some(session), cx));
        self.next.take_if(|session| is_over(session));
        self.current.take_if(|session| is_over(session));
        self.older.retain(|session| !is_over(session));
    }
}

fn retire(session: Option<Session>, cx: &mut Context<'_>) {
    if let Some(session) = session {
        cx.shared.data(DataEvent::Retire { peer: cx.peer, session: session.id() });
    }
}
