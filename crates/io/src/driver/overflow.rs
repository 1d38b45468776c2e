//! Watches the drops of the TUN device's queue, and logs them, rarely.

use std::time::Duration;

use adit_core::Instant;

/// Between two looks at the device's counter.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Between two lines in the log.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// The time of the next look, and the count of drops that was logged last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overflow {
    next_look: Instant,
    told: u64,
}

impl Overflow {
    pub(super) fn new(now: Instant) -> Self {
        Overflow { next_look: now + LOOK_EVERY, told: 0 }
    }

    /// Whether it is time to ask for the counter.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next_look
    }

    /// The log line, when the device has dropped that many packets since the start and the count has grown. `name` is
    /// the device's, `length` its `txqueuelen`.
    pub(super) fn look(&mut self, now: Instant, dropped: u64, name: &str, length: u32) -> Option<String> {
        let fresh = dropped.saturating_sub(self.told);
        self.told = dropped;
        self.next_look = now + if fresh > 0 { TELL_EVERY } else { LOOK_EVERY };
        (fresh > 0).then(|| {
            format!(
                "{name} dropped {fresh} packets: they came faster than adit took them, and the queue of {length} \
                 was full; a larger `txqueuelen` takes longer bursts"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_told_once_a_minute_at_most() {
        let start = Instant::from_nanos(0);
        let mut overflow = Overflow::new(start);
        let mut told = Vec::new();
        // Nothing for 20 seconds, then 10 drops a second, until they end after 100 seconds.
        for second in 0..400 {
            let now = start + Duration::from_secs(second);
            let dropped = 10 * second.clamp(20, 100) - 200;
            if overflow.is_due(now)
                && let Some(text) = overflow.look(now, dropped, "tun0", 100)
            {
                assert!(text.contains("tun0") && text.contains("txqueuelen") && text.contains("of 100 "));
                told.push((second, text.split(' ').nth(2).unwrap().parse::<u64>().unwrap()));
            }
        }
        assert_eq!(told, [(25, 50), (85, 600), (145, 150)], "in all 800, within seconds of the first");
    }
}
