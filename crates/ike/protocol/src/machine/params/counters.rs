//! The packets and bytes of a child SA, which its codec counts in the data plane, and the machine reads.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of a child SA. The codec and the machine share them.
#[derive(Debug, Default)]
pub struct ChildCounters {
    /// Packets that were authentic and new.
    pub received: DirectionCounter,
    /// Packets that were sealed.
    pub sent: DirectionCounter,
}

/// The counter of one direction, alone on its cache line: each direction has a thread of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct DirectionCounter {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl DirectionCounter {
    /// Counts a packet with its bytes inside ESP. The one thread that has the codec may call this alone: it is no atomic addition.
    #[inline]
    pub fn count(&self, bytes: usize) {
        let add = |to: &AtomicU64, amount: u64| {
            to.store(to.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        };
        add(&self.packets, 1);
        add(&self.bytes, bytes as u64);
    }

    /// The packets and bytes so far.
    pub fn get(&self) -> DirectionCount {
        DirectionCount {
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// The packets in one direction since their child SA was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionCount {
    /// Their number.
    pub packets: u64,
    /// Their bytes inside ESP: those of the inner packets, as strongSwan counts them.
    pub bytes: u64,
}
