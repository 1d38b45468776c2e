//! The data plane's reports on the datagrams that pass: when data and keepalives passed last, in each direction, once a
//! second. It is enough for the timers, as they go by the first packet that was not answered: if the last one sent is
//! newer than the last one received, it was not answered.

use adit_core::{Instant, PeerActivity};

use super::Peer;
use super::timers::{KEEPALIVE_TIMEOUT, LAST_MINUTE, REKEY_TIMEOUT};
use crate::shared::Shared;

/// The activity that is known so far.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The last packet received.
    data: Option<Instant>,
    /// The last authentic datagram received, of any kind.
    any: Option<Instant>,
    /// The last packet sent.
    sent_data: Option<Instant>,
    /// The last authentic datagram sent, of any kind.
    sent_any: Option<Instant>,
}

impl Heard {
    pub(super) fn note_handshake(&mut self, now: Instant) {
        self.any = self.any.max(Some(now));
    }

    pub(super) fn note_sent(&mut self, at: Instant) {
        self.sent_any = self.sent_any.max(Some(at));
    }

    pub(super) const fn last_received(&self) -> Option<Instant> {
        self.any
    }
}

/// Puts a later moment in, and says whether it is later.
fn advance(known: &mut Option<Instant>, at: Option<Instant>) -> Option<Instant> {
    let newer = at.filter(|at| known.is_none_or(|known| known < *at))?;
    *known = Some(newer);
    Some(newer)
}

impl Peer {
    /// Bytes of data datagrams since the peer was added.
    pub(crate) fn traffic(&mut self, received: u64, sent: u64) {
        (self.received.data, self.sent.data) = (received, sent);
    }

    /// When datagrams passed last. Keepalives sent are our own, and were counted when they were ordered.
    pub(crate) fn passed(&mut self, shared: &mut Shared, activity: PeerActivity) {
        let PeerActivity { received, sent } = activity;
        // A datagram that was dropped for its content wants an answer as well, as it does in wireguard-go.
        let received_data = advance(&mut self.heard.data, received.last_data.max(received.last_other));
        let received_any = advance(&mut self.heard.any, received.last());
        let sent_data = advance(&mut self.heard.sent_data, sent.last_data);
        if received_any.is_some() {
            self.timers.unanswered = None;
            self.stream_is_good();
        }
        if let Some(at) = sent_data {
            self.sent_anything(at);
            if self.heard.any.is_none_or(|received| received < at) {
                self.note_unanswered(shared, at);
            }
        }
        if let Some(at) = received_any {
            self.restart_persistent(self.heard.sent_any.map_or(at, |sent| sent.max(at)));
        }
        if let Some(at) = received_data
            && self.heard.sent_any.is_none_or(|sent| sent < at)
        {
            self.note_unacknowledged(at);
        }
        if let Some(at) = sent_data {
            self.keep_key_fresh(shared, at);
        }
        if let Some(at) = received_any {
            self.rekey_in_last_minute(shared, at);
        }
    }

    fn note_unanswered(&mut self, shared: &mut Shared, at: Instant) {
        if self.timers.unanswered.is_none() {
            let wait = KEEPALIVE_TIMEOUT + REKEY_TIMEOUT + shared.jitter();
            self.timers.unanswered = Some(at + wait);
        }
    }

    fn note_unacknowledged(&mut self, at: Instant) {
        match self.timers.keepalive {
            Some(_) => self.timers.another_keepalive = true,
            None => self.timers.keepalive = Some(at + KEEPALIVE_TIMEOUT),
        }
    }

    /// An initiator that only receives replaces its session before it ends.
    fn rekey_in_last_minute(&mut self, shared: &mut Shared, at: Instant) {
        let session = self.sessions.current.filter(|session| session.is_initiator);
        if session.is_some_and(|session| session.age(at) >= LAST_MINUTE) && !self.timers.last_minute {
            self.timers.last_minute = true;
            self.initiate(shared, false);
        }
    }
}
