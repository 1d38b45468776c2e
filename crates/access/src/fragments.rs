//! The first fragments that passed, so that the later ones do.

use std::time::Duration;

use adit_core::Instant;

use crate::{Facts, Fragment, Nature};

/// Packets in fragments at a time.
const MAX: usize = 32;
/// How long later fragments may come after the first one: as long as Linux keeps fragments (`net.ipv4.ipfrag_time`).
const LIFETIME: Duration = Duration::from_secs(30);

/// The first fragments of late.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    entries: Vec<Entry>,
    /// The entry that is replaced next.
    next: usize,
}

#[derive(Debug)]
struct Entry {
    first: Fragment,
    expires: Instant,
    head: Head,
}

/// The packet that the fragments are of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) facts: Facts,
    pub(crate) nature: Nature,
    /// The epoch in which it passed.
    pub(crate) epoch: u64,
}

impl Fragments {
    /// Notes a first fragment that passed.
    pub(crate) fn note(&mut self, first: Fragment, head: Head, now: Instant) {
        let entry = Entry { first, expires: now + LIFETIME, head };
        if let Some(known) = self.entries.iter_mut().find(|known| known.first.key == first.key) {
            *known = entry;
        } else if self.entries.len() < MAX {
            self.entries.reserve_exact(MAX - self.entries.len());
            self.entries.push(entry);
        } else if let Some(oldest) = self.entries.get_mut(self.next) {
            *oldest = entry;
            self.next = (self.next + 1) % MAX;
        }
    }

    /// The packet of a later fragment that does not overlap the first one, if that has passed. The caller may note a newer
    /// epoch in which it passes.
    pub(crate) fn head(&mut self, later: &Fragment, now: Instant) -> Option<&mut Head> {
        let entry = self.entries.iter_mut().find(|entry| entry.first.key == later.key)?;
        (now < entry.expires && later.start >= entry.first.end).then_some(&mut entry.head)
    }

    /// Forgets the packet of a fragment.
    pub(crate) fn forget(&mut self, of: &Fragment) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.first.key == of.key) {
            entry.expires = Instant::ORIGIN;
        }
    }
}
