//! The queue of scheduled events in virtual time, in order of time and, at one moment, of being scheduled.

use std::collections::BTreeMap;

use adit_core::Instant;

/// Events by time. Two at one moment happen in the order in which they were scheduled.
#[derive(Debug)]
pub struct EventQueue<E> {
    events: BTreeMap<(Instant, u64), E>,
    scheduled: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue { events: BTreeMap::new(), scheduled: 0 }
    }
}

impl<E> EventQueue<E> {
    /// Adds an event.
    pub fn push(&mut self, at: Instant, event: E) {
        self.scheduled += 1;
        self.events.insert((at, self.scheduled), event);
    }

    /// When the next event happens.
    pub fn next_at(&self) -> Option<Instant> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    /// Removes the next event.
    pub fn pop(&mut self) -> Option<E> {
        self.events.pop_first().map(|(_, event)| event)
    }
}
