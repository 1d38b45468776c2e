//! A peer of the half that seals, and its sessions.

use std::sync::Arc;

use adit_core::{DeviceId, Flow, Instant, Notice, OnFirstOpened, Path, PeerId, SessionId};

use super::choices::Chosen;
use crate::access::PeerAccess;
use crate::codec::{Place, Run, SealSession, Sealer};
use crate::counters::{DropReason, PeerCounter};
use crate::headers::Ip;
use crate::outer::{OuterHeader, OuterPolicy};
use crate::selectors::{Selectors, outbound};
use crate::staging::Staging;
use crate::transmit::TransmitBatch;

pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) series: u32,
    pub(super) seal: Box<dyn Sealer>,
    pub(super) is_keepalive: fn(&[u8]) -> bool,
    /// When it seals no more.
    pub(super) expires: Option<Instant>,
    pub(super) outer: OuterPolicy,
    /// The packets that it seals; `None`: all.
    pub(super) selectors: Option<Arc<Selectors>>,
    /// Whether it seals, of its series.
    pub(super) is_active: bool,
    pub(super) on_first_opened: OnFirstOpened,
    /// The session has begun to seal by its first opened packet.
    pub(super) began_by_packet: bool,
}

/// The sessions of a peer that seal packets, as indices.
pub(super) enum Active {
    None,
    /// A session without selectors.
    One(usize),
    /// Sessions of several series, or with selectors: by series.
    Selected(Vec<usize>),
}

pub(super) struct Peer {
    pub(super) id: PeerId,
    /// `None`: not known yet.
    pub(super) path: Option<Path>,
    pub(super) max_mss: Option<u16>,
    pub(super) device: DeviceId,
    /// A handful at most, in the order in which they were installed.
    pub(super) sessions: Vec<Session>,
    pub(super) active: Active,
    /// The packets that are the peer's; `None`: all that its routes lead to.
    pub(super) selectors: Option<Selectors>,
    pub(super) counter: Arc<PeerCounter>,
    /// The worker that serves it, if it is another one. Then there are no sessions.
    pub(super) worker: Option<u32>,
    /// The packets that wait for a session or a path; `None` where they are dropped.
    pub(super) staging: Option<Box<Staging>>,
    pub(super) access: PeerAccess,
}

impl Session {
    pub(super) fn new(
        id: SessionId,
        series: u32,
        on_first_opened: OnFirstOpened,
        session: SealSession,
    ) -> Self {
        let SealSession { codec: seal, is_keepalive, expires, outer, selectors } = session;
        Session {
            id,
            series,
            seal,
            is_keepalive,
            expires,
            outer,
            selectors,
            is_active: false,
            on_first_opened,
            began_by_packet: false,
        }
    }

    #[inline]
    fn is_alive(&self, now: Instant) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    fn selects(&self, flow: &Flow) -> bool {
        self.selectors.as_ref().is_none_or(|selectors| selectors.select(flow))
    }
}

impl Peer {
    pub(super) fn install(&mut self, session: Session) {
        // One with the same id is replaced; if it was active, it stops being so until activated anew.
        self.sessions.retain(|other| other.id != session.id);
        self.sessions.reserve_exact(1);
        self.sessions.push(session);
        self.note_active();
    }

    /// Has the session seal. Returns false, and changes nothing, if there is no such session. Returns true, and changes nothing,
    /// if a later session of its series has begun to seal by its first packet, which came after the order was given.
    pub(super) fn activate(&mut self, id: SessionId) -> bool {
        let Some(index) = self.position(id) else { return false };
        let active = self.active_of_series(index);
        let later = active.filter(|active| index < *active).and_then(|active| self.sessions.get(active));
        if !later.is_some_and(|later| later.began_by_packet) {
            self.begin(index);
        }
        true
    }

    /// The session at an index seals, in place of the one of its series that did.
    fn begin(&mut self, index: usize) {
        let Some(series) = self.sessions.get(index).map(|session| session.series) else { return };
        for (other, session) in self.sessions.iter_mut().enumerate() {
            session.is_active = other == index || session.is_active && session.series != series;
        }
        self.note_active();
    }

    /// Makes the change of the session's first opened packet, unless a later session of its series seals.
    pub(super) fn first_opened(&mut self, id: SessionId) {
        let Some(index) = self.position(id) else { return };
        if self.active_of_series(index).is_some_and(|active| active >= index) {
            return;
        }
        let Some(session) = self.sessions.get_mut(index) else { return };
        match session.on_first_opened {
            OnFirstOpened::Activate => {
                session.began_by_packet = true;
                self.begin(index);
            }
            OnFirstOpened::Deactivate => self.deactivate_up_to(index),
            OnFirstOpened::Nothing => {}
        }
    }

    /// Lets no session of the series of the session at an index seal. The first opened packets of these sessions change
    /// nothing any more.
    fn deactivate_up_to(&mut self, index: usize) {
        let Some(series) = self.sessions.get(index).map(|session| session.series) else { return };
        let sessions = self.sessions.iter_mut().enumerate();
        for (other, session) in sessions.filter(|(_, session)| session.series == series) {
            session.is_active = false;
            if other <= index {
                session.on_first_opened = OnFirstOpened::Nothing;
            }
        }
        self.note_active();
    }

    /// Lets no session seal. The first opened packets of those that are there change nothing any more.
    pub(super) fn deactivate_all(&mut self) {
        for session in &mut self.sessions {
            (session.is_active, session.on_first_opened) = (false, OnFirstOpened::Nothing);
        }
        self.note_active();
    }

    pub(super) fn retire(&mut self, id: SessionId) {
        self.sessions.retain(|session| session.id != id);
        self.note_active();
    }

    /// Notes which sessions seal, after a change.
    fn note_active(&mut self) {
        let mut active = self.sessions.iter().enumerate().filter(|(_, session)| session.is_active);
        self.active = match (active.next(), active.next()) {
            (None, _) => Active::None,
            (Some((index, session)), None) if session.selectors.is_none() => Active::One(index),
            _ => {
                let all = self.sessions.iter().enumerate().filter(|(_, session)| session.is_active);
                let mut by_series: Vec<(u32, usize)> =
                    all.map(|(index, session)| (session.series, index)).collect();
                by_series.sort_unstable();
                Active::Selected(by_series.into_iter().map(|(_, index)| index).collect())
            }
        };
    }

    /// The session that seals, of the series of the session at an index.
    fn active_of_series(&self, index: usize) -> Option<usize> {
        let series = self.sessions.get(index)?.series;
        self.sessions.iter().position(|session| session.is_active && session.series == series)
    }

    /// The first session that seals.
    pub(super) fn first_active(&self, now: Instant) -> Option<usize> {
        let is_alive = |index: &usize| self.sessions.get(*index).is_some_and(|session| session.is_alive(now));
        match &self.active {
            Active::None => None,
            Active::One(index) => Some(*index).filter(is_alive),
            Active::Selected(indices) => indices.iter().copied().find(is_alive),
        }
    }

    /// Whether it is known where the peer is, and there is a session that seals.
    pub(super) fn is_ready(&self, now: Instant) -> bool {
        self.path.is_some() && self.first_active(now).is_some()
    }

    pub(super) fn can_seal(&self, packet: &[u8], now: Instant) -> bool {
        Ip::parse(packet).is_some_and(|ip| self.session_for(&outbound(&ip, packet), now).is_ok())
    }

    /// The session that seals all packets, if it is known where the peer is. `None`: it depends on the packet.
    #[inline]
    pub(super) fn only_session(&self, now: Instant) -> Option<Result<usize, DropReason>> {
        let found = match &self.active {
            Active::One(index) => {
                let session = self.sessions.get(*index).filter(|session| session.is_alive(now));
                session.map(|_| *index)
            }
            Active::Selected(_) => return None,
            Active::None => None,
        };
        Some(found.filter(|_| self.path.is_some()).ok_or(DropReason::NoSession))
    }

    /// The choice of the session at an index, of the peer in that slot.
    pub(super) fn choice(&self, slot: u32, session: usize) -> Chosen {
        Chosen { slot, session, expires: self.sessions.get(session).and_then(|session| session.expires) }
    }

    /// The session that seals a packet, if it is known where the peer is.
    pub(super) fn session_for(&self, flow: &Flow, now: Instant) -> Result<usize, DropReason> {
        match &self.active {
            Active::Selected(indices) => {
                let session = self.select(indices, flow, now)?;
                self.path.map(|_| session).ok_or(DropReason::NoSession)
            }
            _ => self.only_session(now).unwrap_or(Err(DropReason::NoSession)),
        }
    }

    /// The first of the sessions at these indices that may carry a packet.
    fn select(&self, indices: &[usize], flow: &Flow, now: Instant) -> Result<usize, DropReason> {
        let mut reason = DropReason::NoSession;
        for index in indices {
            let Some(session) = self.sessions.get(*index).filter(|session| session.is_alive(now)) else {
                continue;
            };
            if session.selects(flow) {
                return Ok(*index);
            }
            reason = DropReason::NotSelected;
        }
        Err(reason)
    }

    /// Where a session is among the peer's.
    pub(super) fn position(&self, id: SessionId) -> Option<usize> {
        self.sessions.iter().position(|session| session.id == id)
    }

    /// Seals a message of the protocol's own with the session at an index, if that has not expired, and counts it.
    pub(super) fn seal_message(
        &mut self,
        session: usize,
        payload: &[u8],
        now: Instant,
        notices: &mut Vec<Notice>,
        out: &mut TransmitBatch,
    ) -> Result<(), DropReason> {
        let alive = self.sessions.get(session).filter(|session| session.is_alive(now));
        let is_keepalive = alive.ok_or(DropReason::NoSession)?.is_keepalive;
        let before = self.counter.bytes();
        let sealed = self.seal(session, None, payload, notices, out);
        match sealed {
            Ok(()) if is_keepalive(payload) => self.counter.add_keepalive(now),
            Ok(()) => self.counter.stamp_other(now),
            Err(_) => {}
        }
        self.counter.add_message(self.counter.bytes().wrapping_sub(before));
        sealed
    }

    /// Seals one payload with the session at an index: a packet with that header, or something else. Datagrams that were sealed
    /// before an error are counted, too: they are sent.
    #[inline]
    pub(super) fn seal(
        &mut self,
        session: usize,
        ip: Option<&Ip>,
        payload: &[u8],
        notices: &mut Vec<Notice>,
        out: &mut TransmitBatch,
    ) -> Result<(), DropReason> {
        let session = self.sessions.get_mut(session).ok_or(DropReason::NoSession)?;
        let outer = match ip {
            Some(ip) => session.outer.header(ip, payload)?,
            None => OuterHeader::default(),
        };
        let mut place = Place::new(out, self.path.as_ref().ok_or(DropReason::NoSession)?, outer);
        let sealed = session.seal.seal(payload, &mut place);
        if sealed.is_ok() {
            place.commit();
        }
        let (datagrams, bytes) = place.taken();
        self.counter.add(datagrams, bytes);
        if place.is_limit_near() {
            notices.push(Notice::LimitNear { peer: self.id, session: session.id });
        }
        sealed
    }

    /// Seals the packets of a super-packet with that header with the session at an index, up to the first that cannot be.
    #[inline]
    pub(super) fn seal_run(
        &mut self,
        session: usize,
        ip: &Ip,
        mut run: Run<'_>,
        notices: &mut Vec<Notice>,
        out: &mut TransmitBatch,
    ) -> Result<(), DropReason> {
        let session = self.sessions.get_mut(session).ok_or(DropReason::NoSession)?;
        let outer = session.outer.header(ip, run.packet)?;
        let mut place = Place::new(out, self.path.as_ref().ok_or(DropReason::NoSession)?, outer);
        let sealed = session.seal.seal_run(&mut run, &mut place);
        let (datagrams, bytes) = place.taken();
        self.counter.add(datagrams, bytes);
        if place.is_limit_near() {
            notices.push(Notice::LimitNear { peer: self.id, session: session.id });
        }
        sealed
    }
}
