//! A bounded queue in which each sender has its share, so that none of them fills it or makes the others wait.

use std::collections::{BTreeMap, VecDeque};

/// Emptied queues of senders that are kept for the next ones, as most of them are short-lived.
const SPARE: usize = 64;

/// Which of the senders whose first item has not been taken comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstTurn {
    /// The one that has waited longest. A sender without an item finds no place when the queue is full.
    Oldest,
    /// The one that came last. When half of the queue is taken up by such senders, the one that has waited longest
    /// makes room for the next. So under more than can be handled, the datagrams that are handled are handled at once,
    /// and the rest not at all ("adaptive LIFO": Maurer, "Fail at Scale", ACM Queue 13(8), 2015).
    Newest,
}

/// Items of many senders. Each sender's own keep their order.
///
/// - Room: a sender may have as many items here as there is room left (Choudhury and Hahne, "Dynamic Queue Length
///   Thresholds for Shared-Memory Packet Switches", 1998, with a factor of 1). One sender alone may fill half; when n
///   of them press, each has 1/(n+1), and as much stays free for the next one.
/// - Turns: the next item is in turns one of a sender that had none here before, and one of those that have more than
///   one, these in a round (after RFC 8290, 4.2, which always prefers the new ones: here they could be made up).
#[derive(Debug)]
pub(crate) struct FairQueue<K, T> {
    queues: BTreeMap<K, VecDeque<T>>,
    /// Senders whose first item has not been taken.
    fresh: VecDeque<K>,
    /// Senders with more items.
    round: VecDeque<K>,
    /// Whether the next item is of a fresh sender, if there is a choice.
    fresh_next: bool,
    first_turn: FirstTurn,
    len: usize,
    limit: usize,
    evicted: u64,
    spare: Vec<VecDeque<T>>,
}

impl<K: Ord + Copy, T> FairQueue<K, T> {
    /// An empty queue for at most `limit` items.
    pub(crate) fn new(limit: usize, first_turn: FirstTurn) -> Self {
        FairQueue {
            queues: BTreeMap::new(),
            fresh: VecDeque::new(),
            round: VecDeque::new(),
            fresh_next: true,
            first_turn,
            len: 0,
            limit,
            evicted: 0,
            spare: Vec::new(),
        }
    }

    /// Whether no item waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many items wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many may wait.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// How many made room for others, since the start.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// One more item; false if its sender has its share here already.
    pub(crate) fn offer(&mut self, sender: K, item: T) -> bool {
        if self.first_turn == FirstTurn::Newest
            && self.fresh.len() >= self.limit / 2
            && !self.queues.contains_key(&sender)
        {
            self.evict_oldest();
        }
        let room = self.limit - self.len;
        match self.queues.get_mut(&sender) {
            Some(queue) if queue.len() >= room => return false,
            Some(queue) => queue.push_back(item),
            None if room == 0 => return false,
            None => {
                let mut queue = self.spare.pop().unwrap_or_default();
                queue.push_back(item);
                self.queues.insert(sender, queue);
                self.fresh.push_back(sender);
            }
        }
        self.len += 1;
        true
    }

    /// Drops the items of the sender that has waited longest for its first turn.
    fn evict_oldest(&mut self) {
        if let Some(mut queue) = self.fresh.pop_front().and_then(|oldest| self.queues.remove(&oldest)) {
            self.len -= queue.len();
            self.evicted += queue.len() as u64;
            queue.clear();
            self.keep(queue);
        }
    }

    /// Keeps an emptied queue for the next sender.
    fn keep(&mut self, queue: VecDeque<T>) {
        if self.spare.len() < SPARE {
            self.spare.push(queue);
        }
    }

    fn next_fresh(&mut self) -> Option<K> {
        match self.first_turn {
            FirstTurn::Oldest => self.fresh.pop_front(),
            FirstTurn::Newest => self.fresh.pop_back(),
        }
    }

    /// The next item.
    pub(crate) fn take(&mut self) -> Option<T> {
        let sender = match self.fresh_next {
            true => self.next_fresh().or_else(|| self.round.pop_front()),
            false => self.round.pop_front().or_else(|| self.next_fresh()),
        }?;
        self.fresh_next = !self.fresh_next;
        let queue = self.queues.get_mut(&sender)?;
        let item = queue.pop_front()?;
        self.len -= 1;
        if !queue.is_empty() {
            self.round.push_back(sender);
        } else if let Some(queue) = self.queues.remove(&sender) {
            self.keep(queue);
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(queue: &mut FairQueue<u32, u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.take()).collect()
    }

    #[test]
    fn one_sender_alone_fills_half_and_keeps_its_order() {
        let mut queue = FairQueue::new(100, FirstTurn::Oldest);
        let taken: Vec<u32> = (0..1000).filter(|item| queue.offer(1, *item)).collect();
        assert_eq!(taken.len(), 50);
        assert_eq!(all(&mut queue), taken);
        assert!(queue.is_empty());
    }

    #[test]
    fn many_senders_leave_room_for_one_more() {
        let mut queue = FairQueue::new(8192, FirstTurn::Oldest);
        for _ in 0..1000 {
            for other in 0..250 {
                queue.offer(other, 0);
            }
        }
        assert!((8192 - 40..8192).contains(&queue.len), "{}", queue.len);
        let of_client = (0..30).filter(|_| queue.offer(1000, 7)).count();
        assert!(of_client >= 15, "{of_client}");
    }

    #[test]
    fn who_comes_anew_does_not_wait_for_those_who_press() {
        let mut queue = FairQueue::new(8192, FirstTurn::Oldest);
        for _ in 0..30 {
            for other in 0..250 {
                queue.offer(other, 0);
            }
        }
        // Each of them had its first turn.
        assert_eq!((0..600).filter_map(|_| queue.take()).count(), 600);
        for item in [1, 2, 3] {
            assert!(queue.offer(1000, item));
        }
        let order = all(&mut queue);
        let at = |item| order.iter().position(|taken| *taken == item).unwrap();
        assert!(at(1) <= 2, "{}", at(1));
        // The others come in its turns of the round, of which there are 250.
        assert!(at(2) <= 260 && at(3) <= 520, "{} {}", at(2), at(3));
    }

    #[test]
    fn those_who_press_are_not_starved_by_new_ones() {
        let mut queue = FairQueue::new(8192, FirstTurn::Oldest);
        assert!((0..10).all(|_| queue.offer(1, 1)));
        let mut own = 0;
        for arrival in 100..120 {
            queue.offer(arrival, 0);
            queue.offer(arrival + 1000, 0);
            own += queue.take().unwrap();
        }
        assert!(own >= 9, "{own} of 20 turns");
    }

    #[test]
    fn the_newest_comes_first_and_the_oldest_makes_room() {
        let mut queue = FairQueue::new(100, FirstTurn::Newest);
        assert!((0..1000).all(|sender| queue.offer(sender, sender)));
        assert_eq!((queue.len(), queue.evicted()), (50, 950));
        assert_eq!(all(&mut queue), (950..1000).rev().collect::<Vec<u32>>());
        assert!(queue.is_empty());
    }

    #[test]
    fn who_comes_first_from_everywhere_leaves_room_for_one_with_many() {
        let mut queue = FairQueue::new(100, FirstTurn::Newest);
        assert!((100..1000).all(|sender| queue.offer(sender, 0)));
        let of_one = (1..100).filter(|item| queue.offer(1, *item)).count();
        assert_eq!(of_one, 26, "half of what the others leave, and the place of one of them");
        // It is the newest: its turn comes first, and then every other one, in its own order.
        assert!((1000..1010).all(|sender| queue.offer(sender, 0)));
        let own: Vec<u32> = (0..61).filter_map(|_| queue.take()).filter(|item| *item > 0).collect();
        assert_eq!(own, (1..=26).collect::<Vec<u32>>());
    }

    #[test]
    fn who_presses_evicts_none_but_those_before_their_first_turn() {
        let mut queue = FairQueue::new(100, FirstTurn::Newest);
        assert!((0..20).all(|item| queue.offer(1, item)));
        assert_eq!(queue.take(), Some(0));
        assert!((100..1000).all(|sender| queue.offer(sender, 100)));
        let own: Vec<u32> = all(&mut queue).into_iter().filter(|item| *item < 100).collect();
        assert_eq!(own, (1..20).collect::<Vec<u32>>());
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_made_up(
            limit in 0usize..40,
            newest in any::<bool>(),
            steps in prop::collection::vec((0u32..6, any::<bool>()), 0..200),
        ) {
            let first_turn = if newest { FirstTurn::Newest } else { FirstTurn::Oldest };
            let mut queue = FairQueue::new(limit, first_turn);
            let mut model: BTreeMap<u32, VecDeque<u32>> = BTreeMap::new();
            let (mut accepted, mut taken) = (0, 0);
            for (number, (sender, takes)) in (0..).zip(steps) {
                if takes {
                    match queue.take() {
                        // Which sender's turn it is, is the queue's to say; each one's items keep their order.
                        Some((sender, item)) => {
                            let of_sender = model.entry(sender).or_default();
                            let at = of_sender.iter().position(|kept| *kept == item);
                            prop_assert!(at.is_some_and(|at| newest || at == 0));
                            of_sender.drain(..=at.unwrap_or(0));
                            taken += 1;
                        }
                        None => prop_assert!(queue.is_empty()),
                    }
                } else if queue.offer(sender, (sender, number)) {
                    model.entry(sender).or_default().push_back(number);
                    accepted += 1;
                }
                prop_assert_eq!(accepted - taken, queue.len as u64 + queue.evicted);
                prop_assert!(queue.len <= limit && (newest || queue.evicted == 0));
            }
        }
    }
}
