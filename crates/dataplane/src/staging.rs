//! Packets that wait for a session or a path.

use std::collections::VecDeque;
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

/// What waits for one peer.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    packets: VecDeque<(Offload, Vec<u8>)>,
    bytes: usize,
    /// The earliest time of the next notice.
    next_notice: Option<Instant>,
}

/// How much waits for all peers.
#[derive(Debug, Default)]
pub(crate) struct StagedBytes(usize);

impl Staging {
    /// Takes a copy of a read from the TUN device. Gives how many packets were dropped for it, itself among them if
    /// there is no room.
    pub(crate) fn push(&mut self, offload: Offload, packet: &[u8], all: &mut StagedBytes) -> u64 {
        let mut dropped = 0;
        while self.packets.len() >= PEER_PACKETS || self.bytes + packet.len() > PEER_BYTES {
            if self.pop(all).is_none() {
                return dropped + 1;
            }
            dropped += 1;
        }
        if all.0 + packet.len() > ALL_BYTES {
            return dropped + 1;
        }
        self.bytes += packet.len();
        all.0 += packet.len();
        self.packets.push_back((offload, packet.to_vec()));
        dropped
    }

    /// The packet that has waited longest, to be sent: there is a session now. When that is gone, the next packet gives a
    /// notice at once.
    pub(crate) fn take(&mut self, all: &mut StagedBytes) -> Option<(Offload, Vec<u8>)> {
        self.next_notice = None;
        self.pop(all)
    }

    fn pop(&mut self, all: &mut StagedBytes) -> Option<(Offload, Vec<u8>)> {
        let (offload, packet) = self.packets.pop_front()?;
        self.bytes -= packet.len();
        all.0 = all.0.saturating_sub(packet.len());
        Some((offload, packet))
    }

    /// Whether a notice that the peer is wanted is due now.
    pub(crate) fn take_notice(&mut self, now: Instant) -> bool {
        let due = self.next_notice.is_none_or(|next| next <= now);
        if due {
            self.next_notice = Some(now + NOTICE_INTERVAL);
        }
        due
    }

    /// Forgets all; gives how many there were.
    pub(crate) fn clear(&mut self, all: &mut StagedBytes) -> u64 {
        let count = self.packets.len() as u64;
        while self.pop(all).is_some() {}
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room_for_the_newest() {
        let (mut staging, mut all) = (Staging::default(), StagedBytes::default());
        for number in 0..PEER_PACKETS + 5 {
            let dropped = staging.push(Offload::NONE, &[number as u8; 10], &mut all);
            assert_eq!(dropped, u64::from(number >= PEER_PACKETS));
        }
        assert_eq!(all.0, PEER_PACKETS * 10);
        assert_eq!(staging.pop(&mut all), Some((Offload::NONE, vec![5; 10])));
        assert_eq!(staging.push(Offload::NONE, &[0; 65_535], &mut all), 0);
        assert_eq!(staging.push(Offload::NONE, &[0; 65_535], &mut all), PEER_PACKETS as u64 - 1);
        assert_eq!(
            staging.push(Offload::NONE, &vec![0; PEER_BYTES + 1], &mut all),
            3,
            "too long for any queue"
        );
        assert_eq!((all.0, staging.clear(&mut all)), (0, 0));
    }

    #[test]
    fn all_peers_together_are_bounded() {
        let mut all = StagedBytes::default();
        let mut peers: Vec<Staging> = (0..ALL_BYTES / 65_536 + 10).map(|_| Staging::default()).collect();
        let dropped: u64 =
            peers.iter_mut().map(|peer| peer.push(Offload::NONE, &[0; 65_536], &mut all)).sum();
        assert_eq!((dropped, all.0), (10, ALL_BYTES));
        assert_eq!(peers[0].clear(&mut all), 1);
        assert_eq!(peers.last_mut().expect("many").push(Offload::NONE, &[0; 65_536], &mut all), 0);
    }

    #[test]
    fn notices_are_rare() {
        let mut staging = Staging::default();
        let at = |milliseconds| Instant::ORIGIN + Duration::from_millis(milliseconds);
        let told: Vec<u64> =
            (0..30).map(|step| step * 100).filter(|time| staging.take_notice(at(*time))).collect();
        assert_eq!(told, [0, 1000, 2000]);
        // A session came, and went.
        staging.take(&mut StagedBytes::default());
        assert!(staging.take_notice(at(2901)));
        assert!(!staging.take_notice(at(2902)));
    }
}
