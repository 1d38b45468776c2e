//! The flows that were let through, so that replies pass.
//!
//! A table has one writer, the half of the data plane that lets flows through in its direction, and readers in the other half.
//! Each entry has a sequence number around its fields, which is odd while they change: a reader that sees it change takes the
//! entry for another flow's.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use adit_core::Instant;

use crate::{Address, Facts};

/// Entries among which one of a flow is looked for.
const WAYS: usize = 4;
/// The entries of each part of a table. A part is allocated when there is no room in those before.
const PARTS: [usize; 3] = [64, 512, 2048];

const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// A table of flows of one peer in one direction, with room for 2,624 flows in 164 KiB at most, and for 64 in 4 KiB at first.
/// Where there is no room, a new flow takes the place of the one that has been silent longest among four.
#[derive(Debug, Default)]
pub struct Flows {
    parts: [OnceLock<Box<[Entry]>>; PARTS.len()],
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Entry {
    sequence: AtomicU64,
    fields: [AtomicU64; 5],
    /// When its last packet passed, in seconds.
    used: AtomicU64,
    /// The epoch in which the rules allowed it.
    epoch: AtomicU64,
}

/// A flow that was found.
#[derive(Clone, Copy)]
pub(crate) struct Flow<'a> {
    entry: &'a Entry,
    seconds: u64,
}

impl Flow<'_> {
    /// The epoch in which the rules allowed it.
    pub(crate) fn epoch(&self) -> u64 {
        self.entry.epoch.load(Ordering::Relaxed)
    }

    /// Notes that a packet of it passes now.
    #[inline]
    pub(crate) fn touch(&self) {
        if self.entry.used.load(Ordering::Relaxed) != self.seconds {
            self.entry.used.store(self.seconds, Ordering::Relaxed);
        }
    }

    /// Notes that the rules of that epoch allow it. For the table's writer alone.
    pub(crate) fn allowed_in(&self, epoch: u64) {
        self.entry.epoch.store(epoch, Ordering::Relaxed);
    }
}

impl Flows {
    /// How often the table allocates at most.
    pub const GROWTHS: usize = PARTS.len();

    /// How long a flow is remembered after its last packet: TCP for 2 hours and 4 minutes (RFC 5382, REQ-5), ICMP for 60 s
    /// (RFC 5508, REQ-2), all else for 5 minutes (RFC 4787, REQ-5).
    pub fn lifetime(protocol: u8) -> Duration {
        Duration::from_secs(match protocol {
            TCP => 2 * 3600 + 4 * 60,
            ICMP | ICMPV6 => 60,
            _ => 5 * 60,
        })
    }

    /// The flow of packets with these fields, if its last packet was not too long ago.
    #[inline]
    pub(crate) fn find(&self, facts: &Facts, now: Instant) -> Option<Flow<'_>> {
        let (fields, seconds) = (fields(facts), seconds(now));
        let hash = hash(&fields);
        for part in &self.parts {
            let set = set(part.get()?, hash);
            if let Some(entry) = set.iter().find(|entry| entry.is_of(&fields)) {
                let flow = Flow { entry, seconds };
                return entry.is_alive(seconds).then_some(flow);
            }
        }
        None
    }

    /// Notes a flow. For the table's writer alone, and for flows that [`Flows::find`] does not find.
    pub(crate) fn insert(&self, facts: &Facts, now: Instant, epoch: u64) {
        let (fields, seconds) = (fields(facts), seconds(now));
        let hash = hash(&fields);
        let mut oldest: Option<&Entry> = None;
        for (part, len) in self.parts.iter().zip(PARTS) {
            let entries = part.get_or_init(|| std::iter::repeat_with(Entry::default).take(len).collect());
            let set = set(entries, hash);
            // One that expired is written again: no flow is in two places.
            let free = set.iter().find(|entry| entry.is_of(&fields) || !entry.is_alive(seconds));
            if let Some(entry) = free {
                return entry.write(&fields, seconds, epoch);
            }
            oldest = set.iter().min_by_key(|entry| entry.used.load(Ordering::Relaxed));
        }
        if let Some(entry) = oldest {
            entry.write(&fields, seconds, epoch);
        }
    }
}

impl Entry {
    /// Whether it is the entry of the flow with these fields.
    #[inline]
    fn is_of(&self, fields: &[u64; 5]) -> bool {
        let before = self.sequence.load(Ordering::Acquire);
        let equal = self.fields.iter().zip(fields).all(|(own, field)| own.load(Ordering::Relaxed) == *field);
        fence(Ordering::Acquire);
        equal && before.is_multiple_of(2) && self.sequence.load(Ordering::Relaxed) == before
    }

    /// Whether it has a flow whose last packet was not too long ago.
    fn is_alive(&self, seconds: u64) -> bool {
        let last = self.fields[4].load(Ordering::Relaxed);
        let silent = seconds.saturating_sub(self.used.load(Ordering::Relaxed));
        last != 0 && silent < Flows::lifetime((last >> 32) as u8).as_secs()
    }

    fn write(&self, fields: &[u64; 5], seconds: u64, epoch: u64) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        for (own, field) in self.fields.iter().zip(fields) {
            own.store(*field, Ordering::Relaxed);
        }
        self.used.store(seconds, Ordering::Relaxed);
        self.epoch.store(epoch, Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(2), Ordering::Release);
    }
}

fn seconds(now: Instant) -> u64 {
    now.as_nanos() / 1_000_000_000
}

/// The fields as words, of which the last is not 0.
fn fields(facts: &Facts) -> [u64; 5] {
    const V4: u64 = 1 << 40;
    const V6: u64 = 1 << 41;
    let (family, source, destination) = match (facts.source, facts.destination) {
        (Address::V4(source), Address::V4(destination)) => (V4, source.into(), destination.into()),
        (Address::V6(source), Address::V6(destination)) => (V6, source, destination),
        // No packet has addresses of two families.
        (Address::V4(source), Address::V6(other)) | (Address::V6(other), Address::V4(source)) => {
            (V4 | V6, source.into(), other)
        }
    };
    let ports = u64::from(facts.source_port) << 16 | u64::from(facts.destination_port);
    let last = family | u64::from(facts.protocol) << 32 | ports;
    let halves = |address: u128| ((address >> 64) as u64, address as u64);
    let ((a, b), (c, d)) = (halves(source), halves(destination));
    [a, b, c, d, last]
}

fn hash(fields: &[u64; 5]) -> u64 {
    // The upper bits of a product with the golden ratio depend on all bits (Knuth, The Art of Computer Programming 3, 6.4).
    let mix = |hash: u64, field: &u64| (hash ^ field).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let hash = fields.iter().fold(0, mix);
    hash ^ hash >> 32
}

/// The entries of a part among which a flow with that hash may be.
fn set(entries: &[Entry], hash: u64) -> &[Entry] {
    let sets = entries.len() / WAYS;
    let start = hash as usize % sets.max(1) * WAYS;
    entries.get(start..start + WAYS).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(number: u32) -> Facts {
        Facts {
            source: Address::V4(number),
            destination: Address::V4(1),
            protocol: 17,
            source_port: 5,
            destination_port: 6,
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    #[test]
    fn a_flow_is_found_by_all_of_its_fields_alone() {
        let flows = Flows::default();
        let flow = facts(7);
        flows.insert(&flow, at(1), 3);
        assert_eq!(flows.find(&flow, at(1)).map(|flow| flow.epoch()), Some(3));
        for other in [
            Facts { source: Address::V4(8), ..flow },
            Facts { destination: Address::V4(8), ..flow },
            Facts { protocol: 6, ..flow },
            Facts { source_port: 6, ..flow },
            Facts { destination_port: 5, ..flow },
            Facts { source: Address::V6(7), destination: Address::V6(1), ..flow },
            flow.reversed(),
        ] {
            assert!(flows.find(&other, at(1)).is_none(), "{other:?}");
        }
    }

    #[test]
    fn a_flow_expires_after_its_last_packet() {
        let flows = Flows::default();
        flows.insert(&facts(7), at(0), 1);
        flows.find(&facts(7), at(299)).unwrap().touch();
        assert!(flows.find(&facts(7), at(598)).is_some());
        assert!(flows.find(&facts(7), at(599)).is_none());
        flows.insert(&facts(7), at(700), 2);
        assert_eq!(flows.find(&facts(7), at(700)).map(|flow| flow.epoch()), Some(2));
    }

    #[test]
    fn a_table_grows_to_its_bound_and_then_forgets_the_oldest() {
        let flows = Flows::default();
        (0..48).for_each(|number| flows.insert(&facts(number), at(number.into()), 1));
        let found =
            |now: u64, all: u32| (0..all).filter(|n| flows.find(&facts(*n), at(now)).is_some()).count();
        assert_eq!(found(48, 48), 48, "few flows");
        assert!(flows.parts[2].get().is_none(), "need little room");
        (0..20_000).for_each(|number| flows.insert(&facts(number), at(100), 1));
        let room: usize = PARTS.iter().sum();
        assert!((room / 2..=room).contains(&found(100, 20_000)));
        assert!(flows.find(&facts(19_999), at(100)).is_some(), "a new flow has a place");
    }
}
