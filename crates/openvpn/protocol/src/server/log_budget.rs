//! How many lines of the log peers may cause that have not authenticated.

use std::net::IpAddr;

use adit_core::{Instant, PrefixTable, TableUsage};

use super::limits::{LOG_LINES, LOG_PERIOD};

/// The lines of the last [`LOG_PERIOD`]. Lines beyond the budget are counted, and the count is logged once in
/// that time.
///
/// A source that had a line in this time takes no more of the second half of the budget: that is left for the first
/// lines of others, so that a client's failure shows in the log also while an attacker fills it.
pub(super) struct LogBudget {
    lines: PrefixTable<u64, Instant>,
    written: u64,
    dropped: u64,
    /// When the count of dropped lines is logged.
    told_at: Option<Instant>,
}

impl LogBudget {
    /// `name` is for the status.
    pub(super) fn new(name: &'static str) -> Self {
        let lines = PrefixTable::new(name, LOG_LINES);
        LogBudget { lines, written: 0, dropped: 0, told_at: None }
    }

    /// Whether one more line about a peer there is written.
    pub(super) fn admits(&mut self, now: Instant, source: IpAddr) -> bool {
        while let Some((&number, &at)) = self.lines.oldest()
            && now >= at + LOG_PERIOD
        {
            self.lines.remove(&number);
        }
        // In a flood the table is full, and which source this is does not matter.
        let is_full = self.lines.len() >= LOG_LINES.total;
        let is_shared = self.lines.len() >= LOG_LINES.total / 2;
        let admitted = if is_full || is_shared && self.lines.entries_from(source) > 0 {
            self.lines.count_refusal();
            false
        } else {
            self.lines.try_insert(source, self.written, (), now).is_ok()
        };
        if admitted {
            self.written += 1;
        } else {
            self.dropped += 1;
            self.told_at.get_or_insert(now + LOG_PERIOD);
        }
        admitted
    }

    /// How many lines were dropped, when it is time to tell.
    pub(super) fn poll_dropped(&mut self, now: Instant) -> Option<u64> {
        self.told_at.take_if(|at| now >= *at).map(|_| std::mem::take(&mut self.dropped))
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.told_at
    }

    pub(super) fn usage(&self) -> TableUsage {
        self.lines.usage()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    fn source(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[test]
    fn one_source_has_its_lines_and_others_have_theirs() {
        let mut budget = LogBudget::new("lines");
        let mut admitted = |from, count| (0..count).filter(|_| budget.admits(at(1), source(from))).count();
        assert_eq!(admitted(1, 1000), LOG_LINES.ipv4);
        assert_eq!(
            (2..=250).map(|from| admitted(from, 100)).sum::<usize>(),
            LOG_LINES.total - LOG_LINES.ipv4
        );
        assert_eq!(budget.poll_dropped(at(60)), None);
        assert_eq!(budget.poll_dropped(at(61)), Some(1000 + 24_900 - LOG_LINES.total as u64));
        assert_eq!((budget.poll_dropped(at(200)), budget.poll_timeout()), (None, None), "told once");
        assert!(budget.admits(at(61), source(1)), "a minute later");
    }

    #[test]
    fn who_fills_the_log_leaves_room_for_the_first_line_of_others() {
        let mut budget = LogBudget::new("lines");
        let greedy: usize = (0..100).map(|n| usize::from(budget.admits(at(1), source(n % 8)))).sum();
        assert_eq!(greedy, LOG_LINES.total / 2);
        assert!(budget.admits(at(2), source(99)));
    }
}
