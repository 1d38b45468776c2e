//! Times at which something is due, by key.

use std::collections::{BTreeMap, BTreeSet};

use adit_core::Instant;

/// The times at which keys are due. All its work is logarithmic in the number of keys.
#[derive(Debug)]
pub(crate) struct Schedule<K> {
    by_time: BTreeSet<(Instant, K)>,
    times: BTreeMap<K, Instant>,
}

impl<K> Default for Schedule<K> {
    fn default() -> Self {
        Schedule { by_time: BTreeSet::new(), times: BTreeMap::new() }
    }
}

impl<K: Copy + Ord> Schedule<K> {
    /// A key is due at that time, and not at the one before. `None`: it is not due.
    pub(crate) fn set(&mut self, key: K, at: Option<Instant>) {
        let before = match at {
            Some(at) => self.times.insert(key, at),
            None => self.times.remove(&key),
        };
        if let Some(before) = before {
            self.by_time.remove(&(before, key));
        }
        self.by_time.extend(at.map(|at| (at, key)));
    }

    /// The earliest time at which a key is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// The keys that are due by then, in the order of their times.
    pub(crate) fn due(&self, now: Instant) -> Vec<K> {
        self.by_time.iter().take_while(|(at, _)| *at <= now).map(|(_, key)| *key).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_key_has_one_time() {
        let at = |seconds| Instant::ORIGIN + Duration::from_secs(seconds);
        let mut schedule = Schedule::default();
        schedule.set('a', Some(at(5)));
        schedule.set('b', Some(at(3)));
        schedule.set('a', Some(at(2)));
        assert_eq!((schedule.next(), schedule.due(at(9))), (Some(at(2)), vec!['a', 'b']));
        assert_eq!(schedule.due(at(2)), ['a']);
        schedule.set('a', None);
        schedule.set('b', None);
        assert_eq!((schedule.next(), schedule.due(at(9))), (None, vec![]));
    }
}
