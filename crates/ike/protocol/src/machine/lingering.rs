//! Child SAs that are gone and whose sessions still open packets for a short time: the peer may have sealed packets with them before
//! it had the answer to its DELETE, and packets overtake each other.

use std::collections::VecDeque;
use std::time::Duration;

use adit_core::{Instant, PeerId};

/// How long a session opens packets after its child SA is gone. strongSwan: 5 s (`charon.delete_rekeyed_delay`).
pub(crate) const LINGERS_FOR: Duration = Duration::from_secs(1);
/// Most sessions that do. Of more, the oldest are retired at once.
const MOST: usize = 4096;

/// A session that is to be retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lingering {
    pub(crate) peer: PeerId,
    pub(crate) spi: u32,
    until: Instant,
}

/// The sessions that are to be retired, in the order of their times.
#[derive(Debug, Default)]
pub(crate) struct LingeringSessions(VecDeque<Lingering>);

impl LingeringSessions {
    /// The child SA of a session is gone. Gives the oldest session if there are too many: it is to be retired at once.
    pub(crate) fn add(&mut self, peer: PeerId, spi: u32, now: Instant) -> Option<Lingering> {
        self.0.push_back(Lingering { peer, spi, until: now + LINGERS_FOR });
        if self.0.len() > MOST { self.0.pop_front() } else { None }
    }

    /// A session whose time is over, which is to be retired.
    pub(crate) fn next_over(&mut self, now: Instant) -> Option<Lingering> {
        let is_over = self.0.front().is_some_and(|first| first.until <= now);
        if is_over { self.0.pop_front() } else { None }
    }

    /// The time when a session is to be retired.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.front().map(|first| first.until)
    }

    /// The sessions of a peer that is gone. They are forgotten.
    pub(crate) fn take_of(&mut self, peer: PeerId) -> Vec<u32> {
        let of_peer = self.0.iter().filter(|session| session.peer == peer).map(|session| session.spi);
        let of_peer = of_peer.collect();
        self.0.retain(|session| session.peer != peer);
        of_peer
    }

    #[cfg(test)]
    pub(crate) fn spis(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|session| session.spi)
    }
}
