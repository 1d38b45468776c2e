//! How much the data keys of a peer were used: `reneg-bytes`, `reneg-pkts`, and the limits of GCM.
//!
//! It is counted once a second, from the totals of the data plane. The data plane itself counts exactly, and
//! never seals beyond a limit; but only here is it seen that a peer does that knows no limit.

/// Blocks and packets of one direction after which GCM's keys are due: 7/8 of the number that OpenVPN allows
/// (crypto.c, `cipher_get_aead_limits`), which leaves 10 seconds at 100 Gbit/s.
const GCM_WARN: u64 = ((1 << 36) - 1) / 8 * 7;

/// When data keys are renewed by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UseLimits {
    /// After so many bytes, both directions together (`reneg-bytes`). 0: no limit.
    pub bytes: u64,
    /// After so many packets, both directions together (`reneg-pkts`). 0: no limit.
    pub packets: u64,
}

/// The packets and bytes that passed in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Traffic {
    fn since(self, earlier: Traffic) -> Traffic {
        Traffic {
            packets: self.packets.saturating_sub(earlier.packets),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }

    /// Blocks and packets, rather too many: one more for a last block that is not full, one for the bytes that are
    /// authenticated only.
    fn blocks(self) -> u64 {
        (self.bytes / 16).saturating_add(self.packets.saturating_mul(3))
    }
}

/// The traffic that passed, and that had passed when the present keys came into use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    now: [Traffic; 2],
    begin: [Traffic; 2],
}

impl Usage {
    /// Notes the traffic received and sent in all.
    pub(crate) fn note(&mut self, received: Traffic, sent: Traffic) {
        self.now = [received, sent];
    }

    /// New keys are in use.
    pub(crate) fn restart(&mut self) {
        self.begin = self.now;
    }

    /// Whether the keys were used enough. `blocks_count`: they bear only so many blocks.
    pub(crate) fn is_enough(&self, limits: UseLimits, blocks_count: bool) -> bool {
        let [received, sent] = [0, 1].map(|way| self.now[way].since(self.begin[way]));
        let over = |limit: u64, a: u64, b: u64| limit > 0 && a.saturating_add(b) >= limit;
        over(limits.bytes, received.bytes, sent.bytes)
            || over(limits.packets, received.packets, sent.packets)
            || (blocks_count && received.blocks().max(sent.blocks()) >= GCM_WARN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(packets: u64, bytes: u64) -> Traffic {
        Traffic { packets, bytes }
    }

    #[test]
    fn both_directions_count_together_since_the_keys_came() {
        let limits = UseLimits { bytes: 1000, packets: 10 };
        let mut usage = Usage::default();
        let enough = |usage: &Usage| usage.is_enough(limits, true);
        usage.note(traffic(4, 400), traffic(5, 599));
        assert!(!enough(&usage));
        usage.note(traffic(4, 400), traffic(5, 600));
        assert!(enough(&usage), "1000 bytes");
        usage.note(traffic(4, 40), traffic(6, 60));
        assert!(enough(&usage), "10 packets");
        assert!(!usage.is_enough(UseLimits::default(), true));
        usage.restart();
        assert!(!enough(&usage));
        usage.note(traffic(4, 40), traffic(7, 1060));
        assert!(enough(&usage), "1000 bytes more");
    }

    #[test]
    fn gcm_bears_so_many_blocks_in_each_direction() {
        let none = UseLimits::default();
        let mut usage = Usage::default();
        let most = (GCM_WARN - 3000) * 16;
        usage.note(traffic(999, most), traffic(999, most));
        assert!(!usage.is_enough(none, true));
        usage.note(traffic(1000, most), traffic(999, most));
        assert!(usage.is_enough(none, true) && !usage.is_enough(none, false));
    }
}
