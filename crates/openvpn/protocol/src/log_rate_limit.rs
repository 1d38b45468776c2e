//! How many lines of the log of one kind are written, such as those that a peer causes after it has authenticated.

use std::time::Duration;

use adit_core::Instant;

/// Lines in [`PERIOD`]: more than a peer causes that keeps to the protocol.
const LINES: u32 = 16;
/// See [`LINES`].
const PERIOD: Duration = Duration::from_secs(60);

/// The lines of the last [`PERIOD`].
#[derive(Debug, Default)]
pub(crate) struct LogRateLimit {
    /// When the first of them was written.
    since: Option<Instant>,
    written: u32,
    dropped: u64,
}

impl LogRateLimit {
    /// Whether one more of a kind that has no text is passed on.
    pub(crate) fn admits(&mut self, now: Instant) -> bool {
        self.admit(now, String::new()).is_some()
    }

    /// The line as it is to be written; `None` if there were enough. The last that is written says so, and the first
    /// of the next time how many were left out.
    pub(crate) fn admit(&mut self, now: Instant, mut line: String) -> Option<String> {
        if self.since.is_none_or(|since| now >= since + PERIOD) {
            if self.dropped > 0 {
                line = format!("{line} ({} such lines before it were not written)", self.dropped);
            }
            *self = LogRateLimit { since: Some(now), ..LogRateLimit::default() };
        }
        if self.written == LINES {
            self.dropped += 1;
            return None;
        }
        self.written += 1;
        if self.written == LINES {
            let seconds = PERIOD.as_secs();
            line = format!("{line} (further such lines are not written for up to {seconds} s)");
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    #[test]
    fn a_peer_causes_so_many_lines_a_minute() {
        let mut lines = LogRateLimit::default();
        let mut written = |second| -> Vec<String> {
            (0..10_000).filter_map(|_| lines.admit(at(second), "line".to_owned())).collect()
        };
        let first = written(5);
        assert_eq!((first.len(), first[0].as_str(), first[14].as_str()), (16, "line", "line"));
        assert!(first[15].contains("not written for up to 60 s"), "{first:?}");
        assert!(written(64).is_empty());
        let next = written(65);
        assert_eq!(next.len(), 16);
        assert_eq!(next[0], "line (19984 such lines before it were not written)");
    }
}
