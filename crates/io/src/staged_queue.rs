//! Queues of control datagrams, one for each stage of their senders, so that those who have come further do not wait for
//! those who have not.

use adit_core::HandshakeStage;

use crate::fair_queue::{FairQueue, FirstTurn};

/// How many datagrams of senders with a control channel or a session may wait. One sender alone may have half of it: a
/// thousand clients behind one address that all come back at once send some three each.
const ESTABLISHED_LIMIT: usize = 8192;
/// How many datagrams of senders that return a cookie may wait, and how many first packets.
const OTHER_LIMIT: usize = 4096;

/// A queue for each stage, which have their turns one after the other: a datagram that waits alone in its queue waits for
/// one of each other queue at most. Within each queue each sender has its share ([`FairQueue`]).
///
/// Any number of first packets and of cookies can be forged, so of these the newest come first: with a tenth more of them
/// than can be handled, nine of ten are handled at once, where all would wait in the order of their arrival.
#[derive(Debug)]
pub(crate) struct StagedQueue<K, T> {
    queues: [FairQueue<K, T>; 3],
    refused: [u64; 3],
    next: usize,
}

/// How full the queue of a stage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StageUsage {
    /// Datagrams that wait.
    pub(crate) waiting: usize,
    /// How many may wait.
    pub(crate) limit: usize,
    /// Datagrams that made room for others, since the start.
    pub(crate) evicted: u64,
    /// Datagrams that found no room, since the start.
    pub(crate) refused: u64,
}

const fn index(stage: HandshakeStage) -> usize {
    match stage {
        HandshakeStage::Established => 0,
        HandshakeStage::Returning => 1,
        HandshakeStage::First => 2,
    }
}

impl<K: Ord + Copy, T> StagedQueue<K, T> {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        StagedQueue {
            queues: [
                FairQueue::new(ESTABLISHED_LIMIT, FirstTurn::Oldest),
                FairQueue::new(OTHER_LIMIT, FirstTurn::Newest),
                FairQueue::new(OTHER_LIMIT, FirstTurn::Newest),
            ],
            refused: [0; 3],
            next: 0,
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(FairQueue::is_empty)
    }

    /// How full the queue of that stage is.
    pub(crate) fn usage(&self, stage: HandshakeStage) -> StageUsage {
        let queue = &self.queues[index(stage)];
        StageUsage {
            waiting: queue.len(),
            limit: queue.limit(),
            evicted: queue.evicted(),
            refused: self.refused[index(stage)],
        }
    }

    /// One more; false if its sender has its share here already.
    pub(crate) fn offer(&mut self, stage: HandshakeStage, sender: K, item: T) -> bool {
        let is_taken = self.queues[index(stage)].offer(sender, item);
        self.refused[index(stage)] += u64::from(!is_taken);
        is_taken
    }

    /// The next.
    pub(crate) fn take(&mut self) -> Option<T> {
        for _ in 0..self.queues.len() {
            let queue = &mut self.queues[self.next];
            self.next = (self.next + 1) % 3;
            if let Some(item) = queue.take() {
                return Some(item);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use HandshakeStage::{Established, First, Returning};

    /// First packets of senders 1000 and up, more than have room.
    fn flooded(stage: HandshakeStage) -> StagedQueue<u32, u32> {
        let mut queue = StagedQueue::new();
        assert!((1000..100_000).all(|sender| queue.offer(stage, sender, sender)));
        queue
    }

    #[test]
    fn who_has_come_further_does_not_wait_for_first_packets() {
        for (stage, flood) in [(Established, First), (Returning, First), (Established, Returning)] {
            let mut queue = flooded(flood);
            for item in 1..=3 {
                assert!(queue.offer(stage, 7, item));
            }
            let order: Vec<u32> = (0..6).filter_map(|_| queue.take()).collect();
            let own: Vec<u32> = order.iter().copied().filter(|item| *item < 1000).collect();
            assert_eq!(own, [1, 2, 3], "{stage:?} in {flood:?}: {order:?}");
        }
    }

    #[test]
    fn first_packets_have_a_third_of_the_turns_at_least() {
        let mut queue = flooded(First);
        for sender in 0..1000 {
            assert!(queue.offer(Established, sender, 0) && queue.offer(Returning, sender, 0));
        }
        let first = (0..300).filter_map(|_| queue.take()).filter(|item| *item >= 1000).count();
        assert_eq!(first, 100);
    }

    #[test]
    fn a_first_packet_in_a_flood_is_the_next() {
        let mut queue = flooded(First);
        assert!(queue.offer(First, 7, 7));
        assert_eq!(queue.take(), Some(7));
    }

    #[test]
    fn each_stage_has_its_bound() {
        let queue = flooded(First);
        let usage = StageUsage { waiting: 2048, limit: 4096, evicted: 99_000 - 2048, refused: 0 };
        assert_eq!(queue.usage(First), usage);
        let mut queue = StagedQueue::new();
        let taken = (0..100_000).filter(|item| queue.offer(Established, 1, *item)).count();
        assert_eq!(taken, 4096, "one sender has half");
        let usage = StageUsage { waiting: 4096, limit: 8192, evicted: 0, refused: 100_000 - 4096 };
        assert_eq!(queue.usage(Established), usage);
        assert!(queue.offer(First, 1, 0) && queue.offer(Returning, 1, 0));
        assert!(!queue.is_empty());
    }
}
