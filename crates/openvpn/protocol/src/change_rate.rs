//! How often a peer has the tunnel changed.

use std::time::Duration;

use adit_core::Instant;

/// Changes that are made at once after a time without any.
const BURST: u32 = 8;
/// After those, one change is made in this time.
const INTERVAL: Duration = Duration::from_secs(10);

/// The changes that a peer has caused: [`BURST`] at once, then one in [`INTERVAL`] (a token bucket). Those that come sooner
/// wait, and the last of them is made.
#[derive(Debug, Default)]
pub(crate) struct ChangeRate {
    /// When all of [`BURST`] may be made again.
    full_at: Instant,
    waits: bool,
}

impl ChangeRate {
    /// Whether a change is made now. If it is not, one waits until [`ChangeRate::due`].
    pub(crate) fn admits(&mut self, now: Instant) -> bool {
        self.waits = self.is_early(now);
        if !self.waits {
            self.full_at = self.full_at.max(now) + INTERVAL;
        }
        !self.waits
    }

    /// The change that waits is not needed any more.
    pub(crate) fn withdraw(&mut self) {
        self.waits = false;
    }

    /// When the change that waits may be made, if one does.
    pub(crate) fn due(&self) -> Option<Instant> {
        let wait = self.full_at.saturating_since(Instant::ORIGIN + INTERVAL * (BURST - 1));
        self.waits.then(|| Instant::ORIGIN + wait)
    }

    fn is_early(&self, now: Instant) -> bool {
        self.full_at > now + INTERVAL * (BURST - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_changes_are_made_at_once_and_then_one_in_a_time() {
        let at = |seconds| Instant::ORIGIN + Duration::from_secs(seconds);
        let mut rate = ChangeRate::default();
        assert_eq!((0..1000).filter(|_| rate.admits(at(100))).count(), BURST as usize);
        assert_eq!(rate.due(), Some(at(110)));
        assert!(!rate.admits(at(109)));
        assert!(rate.admits(at(110)));
        assert_eq!(rate.due(), None, "nothing waits");
        assert!(!rate.admits(at(110)));
        rate.withdraw();
        assert_eq!(rate.due(), None);
        assert_eq!((0..1000).filter(|_| rate.admits(at(300))).count(), BURST as usize);
    }
}
