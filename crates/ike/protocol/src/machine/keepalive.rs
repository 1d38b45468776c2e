//! Datagrams that keep the mapping of a NAT in front of this end while no packet passes (RFC 3948 section 4). Those of the peer the data
//! plane ignores.

use std::time::Duration;

use adit_core::{Instant, PeerActivity};

use super::context::Context;
use super::sa::{IkeSa, Phase};

/// The time without a datagram to the peer after which one keeps the mapping (RFC 3948 section 4: 20 s by default).
const INTERVAL: Duration = Duration::from_secs(20);
/// The datagram, which has no marker in front (RFC 3948 section 2.3).
const DATAGRAM: [u8; 1] = [0xff];

impl IkeSa {
    /// The time when a datagram is due that keeps the mapping. `None`: no NAT is in front of this end.
    pub(crate) fn keepalive_at(&self, cx: &Context<'_>) -> Option<Instant> {
        let is_there = self.nat.is_local && matches!(self.phase, Phase::Established);
        (is_there && cx.shared.is_marked(self.path)).then(|| self.sent_at + INTERVAL)
    }

    pub(crate) fn keep_mapping(&mut self, cx: &mut Context<'_>) {
        if self.keepalive_at(cx).is_some_and(|at| at <= cx.now()) {
            self.sent_at = cx.now();
            cx.shared.send_as_it_is(self.path, &DATAGRAM);
        }
    }

    /// The data plane says when it received and sent last.
    pub(crate) fn note_activity(&mut self, activity: &PeerActivity) {
        self.heard = self.heard.max(activity.received.last().unwrap_or(self.heard));
        self.sent_at = self.sent_at.max(activity.sent.last().unwrap_or(self.sent_at));
    }
}
