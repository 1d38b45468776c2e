//! The waits between attempts to connect, and their end (`connect-retry`, `connect-retry-max`).

use std::time::Duration;

/// Attempts at one remote before the wait between attempts begins to double (OpenVPN `connect-retry`).
const STEADY_ATTEMPTS: u32 = 5;

/// Addresses that refuse datagrams and are tried without a wait between them.
pub(crate) const MOST_REFUSED_ADDRESSES: u32 = 8;

/// The rules for attempts at the remotes of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    /// The first wait between attempts, and the longest.
    pub(crate) waits: (Duration, Duration),
    /// The most rounds through all remotes.
    pub(crate) most_rounds: Option<u32>,
    /// The number of remotes.
    pub(crate) remotes: usize,
}

impl Retry {
    /// The wait after so many attempts, of which the last is over; `None` if no further attempt is allowed. `was_up`: the last
    /// one had a connection, whose end ends no round.
    pub(crate) fn wait_after(&self, attempts: u32, was_up: bool) -> Option<Duration> {
        let remotes = u32::try_from(self.remotes).unwrap_or(u32::MAX).max(1);
        let rounds = attempts.saturating_sub(1) / remotes + 1;
        let ends_round = !was_up && attempts.is_multiple_of(remotes);
        if self.most_rounds.is_some_and(|most| ends_round && rounds >= most) {
            return None;
        }
        let (first, longest) = self.waits;
        let doublings = rounds.saturating_sub(STEADY_ATTEMPTS).min(16);
        Some((first * (1 << doublings)).min(longest.max(first)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_after_five_rounds_and_end_after_the_last() {
        let second = Duration::from_secs(1);
        let mut retry = Retry { waits: (second, second * 300), most_rounds: None, remotes: 2 };
        for (attempts, seconds) in [(1, 1), (10, 1), (11, 2), (12, 2), (13, 4), (1000, 300), (u32::MAX, 300)]
        {
            assert_eq!(retry.wait_after(attempts, false), Some(second * seconds), "{attempts}");
        }
        retry.most_rounds = Some(2);
        assert!(retry.wait_after(3, false).is_some() && retry.wait_after(4, true).is_some());
        assert_eq!(retry.wait_after(4, false), None);
    }
}
