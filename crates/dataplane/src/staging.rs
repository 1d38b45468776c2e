//! Packets that wait for a session or a path.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use adit_core::Instant;

use crate::offload::Offload;

/// Packets that wait for one peer, at most; a new one takes the place of the oldest.
const PEER_PACKETS: usize = 128;
/// Bytes that wait for one peer, at most: two of the longest reads from a TUN device.
const PEER_BYTES: usize = 128 * 1024;
/// Bytes that wait for all peers, at most.
const ALL_BYTES: usize = 8 * 1024 * 1024;
/// Shortest time between two notices that a peer is wanted.
const NOTICE_INTERVAL: Duration = Duration::from_secs(1);

/// A packet that waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Staged {
    pub(crate) offload: Offload,
    /// A read from the TUN device.
    pub(crate) packet: Vec<u8>,
    /// The place of the peer's selector that selects it; 0 without selectors.
    pub(crate) selector: usize,
}

/// The packets that wait for one peer.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    packets: VecDeque<Staged>,
    bytes: usize,
    /// The earliest time of the next notice, by selector.
    next_notices: BTreeMap<usize, Instant>,
}

/// How much waits for all peers.
#[derive(Debug, Default)]
pub(crate) struct StagedBytes(usize);

impl Staging {
    /// Takes a copy of a read from the TUN device. Gives how many packets were dropped for it, itself among them if
    /// there is no room.
    pub(crate) fn push(&mut self, staged: Staged, all: &mut StagedBytes) -> u64 {
        let (mut dropped, len) = (0, staged.packet.len());
        while self.packets.len() >= PEER_PACKETS || self.bytes + len > PEER_BYTES {
            let Some(oldest) = self.to_drop() else { return dropped + 1 };
            self.remove(oldest, all);
            dropped += 1;
        }
        if all.0 + len > ALL_BYTES {
            return dropped + 1;
        }
        self.bytes += len;
        all.0 += len;
        self.packets.push_back(staged);
        dropped
    }

    /// The place of the packet that makes room: the oldest of the selector that has most packets, so that packets for which no
    /// session comes do not displace those of other selectors.
    fn to_drop(&self) -> Option<usize> {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for staged in &self.packets {
            *counts.entry(staged.selector).or_default() += 1;
        }
        let (most, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        self.packets.iter().position(|staged| staged.selector == most)
    }

    /// The packet that has waited longest of those from place `from` on that can be sealed now, and its place.
    pub(crate) fn take(
        &mut self,
        from: usize,
        can_seal: impl Fn(&[u8]) -> bool,
        all: &mut StagedBytes,
    ) -> Option<(usize, Staged)> {
        let place = from + self.packets.iter().skip(from).position(|staged| can_seal(&staged.packet))?;
        Some((place, self.remove(place, all)?))
    }

    /// Forgets the notices of all selectors whose packets have sessions by now. When they are gone, the next packet
    /// gives a notice at once.
    pub(crate) fn forget_notices(&mut self) {
        let packets = &self.packets;
        self.next_notices.retain(|selector, _| packets.iter().any(|staged| staged.selector == *selector));
    }

    fn remove(&mut self, place: usize, all: &mut StagedBytes) -> Option<Staged> {
        let staged = self.packets.remove(place)?;
        self.bytes -= staged.packet.len();
        all.0 = all.0.saturating_sub(staged.packet.len());
        Some(staged)
    }

    /// Whether a notice that a session for that selector is wanted is due now.
    pub(crate) fn take_notice(&mut self, selector: usize, now: Instant) -> bool {
        let due = self.next_notices.get(&selector).is_none_or(|next| *next <= now);
        if due {
            self.next_notices.insert(selector, now + NOTICE_INTERVAL);
        }
        due
    }

    /// Forgets all; gives how many there were.
    pub(crate) fn clear(&mut self, all: &mut StagedBytes) -> u64 {
        let count = self.packets.len() as u64;
        while self.remove(0, all).is_some() {}
        self.next_notices.clear();
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staged(packet: &[u8], selector: usize) -> Staged {
        Staged { offload: Offload::NONE, packet: packet.to_vec(), selector }
    }

    #[test]
    fn the_oldest_make_room_for_the_newest() {
        let (mut staging, mut all) = (Staging::default(), StagedBytes::default());
        for number in 0..PEER_PACKETS + 5 {
            let dropped = staging.push(staged(&[number as u8; 10], 0), &mut all);
            assert_eq!(dropped, u64::from(number >= PEER_PACKETS));
        }
        assert_eq!(all.0, PEER_PACKETS * 10);
        assert_eq!(staging.take(0, |_| true, &mut all), Some((0, staged(&[5; 10], 0))));
        assert_eq!(staging.push(staged(&[0; 65_535], 0), &mut all), 0);
        assert_eq!(staging.push(staged(&[0; 65_535], 0), &mut all), PEER_PACKETS as u64 - 1);
        assert_eq!(staging.push(staged(&vec![0; PEER_BYTES + 1], 0), &mut all), 3, "too long for any queue");
        assert_eq!((all.0, staging.clear(&mut all)), (0, 0));
    }

    #[test]
    fn a_selector_makes_room_for_itself() {
        let (mut staging, mut all) = (Staging::default(), StagedBytes::default());
        assert_eq!(staging.push(staged(b"the one", 7), &mut all), 0);
        let dropped: u64 = (0..500).map(|_| staging.push(staged(b"many", 3), &mut all)).sum();
        assert_eq!(dropped, 500 + 1 - PEER_PACKETS as u64);
        let of_selector = |packet: &[u8]| packet == b"the one";
        assert_eq!(staging.take(0, of_selector, &mut all), Some((0, staged(b"the one", 7))));
        assert_eq!(staging.take(0, of_selector, &mut all), None);
        assert_eq!(staging.take(100, |_| true, &mut all), Some((100, staged(b"many", 3))));
    }

    #[test]
    fn all_peers_together_are_bounded() {
        let mut all = StagedBytes::default();
        let mut peers: Vec<Staging> = (0..ALL_BYTES / 65_536 + 10).map(|_| Staging::default()).collect();
        let dropped: u64 = peers.iter_mut().map(|peer| peer.push(staged(&[0; 65_536], 0), &mut all)).sum();
        assert_eq!((dropped, all.0), (10, ALL_BYTES));
        assert_eq!(peers[0].clear(&mut all), 1);
        assert_eq!(peers.last_mut().expect("many").push(staged(&[0; 65_536], 0), &mut all), 0);
    }

    #[test]
    fn notices_are_rare() {
        let mut staging = Staging::default();
        let at = |milliseconds| Instant::ORIGIN + Duration::from_millis(milliseconds);
        let told: Vec<u64> =
            (0..30).map(|step| step * 100).filter(|time| staging.take_notice(0, at(*time))).collect();
        assert_eq!(told, [0, 1000, 2000]);
        assert!(staging.take_notice(1, at(2100)), "another selector has notices of its own");
        // A session came, and went.
        let all = &mut StagedBytes::default();
        staging.push(staged(b"any", 1), all);
        staging.forget_notices();
        assert!(staging.take_notice(0, at(2901)));
        assert!(!staging.take_notice(0, at(2902)) && !staging.take_notice(1, at(2902)));
    }
}
