//! Reliable, ordered delivery of control packets over a path that loses and reorders.
//!
//! Packet ids count from 0 without gaps. Sources: OpenVPN reliable.c, ssl_pkt.h.

use std::collections::VecDeque;
use std::time::Duration;

use adit_core::Instant;

use crate::wire::{MAX_ACKS, Opcode};

/// Most packets in flight (OpenVPN ssl_pkt.h, `TLS_RELIABLE_N_SEND_BUFFERS`).
pub const SEND_WINDOW: u32 = 6;
/// Most packets kept for being put in order (`TLS_RELIABLE_N_REC_BUFFERS`).
pub const RECEIVE_WINDOW: u32 = 12;
/// Time until the first retransmission (`tls-timeout`'s default).
pub const INITIAL_TIMEOUT: Duration = Duration::from_secs(2);
/// The doubling stops here. OpenVPN doubles without end, which leaves five attempts in its 60-second
/// handshake window; with this cap there are nine, and a server still sees at most one a peer in 8 seconds.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(8);
/// A packet is taken for lost when this many later ones were acknowledged.
const LATER_ACKS: u8 = 3;

/// Packets we sent, or are about to, until the peer acknowledges them.
#[derive(Clone, Debug)]
pub struct SendWindow {
    next_id: u32,
    initial_timeout: Duration,
    /// The packets in order of id. The first is the oldest without acknowledgement.
    entries: VecDeque<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    id: u32,
    opcode: Opcode,
    payload: Vec<u8>,
    sent: bool,
    due: Instant,
    timeout: Duration,
    later_acks: u8,
}

/// A packet to send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Its packet id.
    pub id: u32,
    /// Its opcode.
    pub opcode: Opcode,
    /// Its payload.
    pub payload: &'a [u8],
}

impl Default for SendWindow {
    fn default() -> Self {
        Self::starting_at(0)
    }
}

impl SendWindow {
    /// An empty window whose first id is 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty window whose first id is `first` (1 for a control channel that follows a stateless reset).
    pub fn starting_at(first: u32) -> Self {
        SendWindow { next_id: first, initial_timeout: INITIAL_TIMEOUT, entries: VecDeque::new() }
    }

    /// Replaces the time until the first retransmission ([`INITIAL_TIMEOUT`]) for packets pushed from now on.
    pub fn set_initial_timeout(&mut self, timeout: Duration) {
        self.initial_timeout = timeout;
    }

    /// True if a packet pushed now may be sent now.
    pub fn has_room(&self) -> bool {
        self.in_window(self.next_id)
    }

    /// The id that the packet pushed next will have.
    pub fn next_id(&self) -> u32 {
        self.next_id
    }

    /// Takes a packet and returns its id. Without [room](Self::has_room) it waits its turn.
    pub fn push(&mut self, now: Instant, opcode: Opcode, payload: Vec<u8>) -> u32 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let timeout = self.initial_timeout;
        self.entries.push_back(Entry { id, opcode, payload, sent: false, due: now, timeout, later_acks: 0 });
        id
    }

    /// The peer acknowledges these ids. Ids that are not in flight change nothing.
    pub fn acknowledge(&mut self, now: Instant, ids: &[u32]) {
        for &id in ids {
            let Some(index) = self.entries.iter().position(|entry| entry.id == id && entry.sent) else {
                continue;
            };
            self.entries.remove(index);
            // Only news counts: peers repeat their latest acks in every packet.
            for entry in self.entries.iter_mut().take(index) {
                entry.later_acks = entry.later_acks.saturating_add(1);
                if entry.later_acks >= LATER_ACKS {
                    entry.due = entry.due.min(now);
                }
            }
        }
    }

    /// The next packet that is due, for the first time or again. It counts as sent at `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Outgoing<'_>> {
        let oldest = self.entries.front()?.id;
        let entry = self
            .entries
            .iter_mut()
            .take_while(|entry| entry.id.wrapping_sub(oldest) < SEND_WINDOW)
            .find(|entry| entry.due <= now)?;
        entry.due = now + entry.timeout;
        entry.timeout = entry.timeout.saturating_mul(2).min(MAX_TIMEOUT);
        entry.later_acks = 0;
        entry.sent = true;
        Some(Outgoing { id: entry.id, opcode: entry.opcode, payload: &entry.payload })
    }

    /// When [`SendWindow::poll`] next has something; perhaps in the past.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.entries.iter().take_while(|entry| self.in_window(entry.id)).map(|entry| entry.due).min()
    }

    /// The oldest id without acknowledgement.
    pub fn oldest(&self) -> Option<u32> {
        self.entries.front().map(|entry| entry.id)
    }

    /// True if everything pushed was acknowledged.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets all packets; the next id stays.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    fn in_window(&self, id: u32) -> bool {
        self.entries.front().is_none_or(|oldest| id.wrapping_sub(oldest.id) < SEND_WINDOW)
    }
}

/// Puts the peer's packets in order.
#[derive(Clone, Debug)]
pub struct ReceiveWindow {
    first: u32,
    next_id: u32,
    /// Packets ahead of their turn; the slot at index n is for `next_id + n`. At most [`RECEIVE_WINDOW`].
    slots: VecDeque<Option<(Opcode, Vec<u8>)>>,
}

/// The handling of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Taken. Acknowledge it.
    New,
    /// We have it, or had it. Acknowledge it again: our ack may have been lost.
    Duplicate,
    /// Too far ahead, or from before the first. Dropped; do not acknowledge it.
    OutOfWindow,
}

/// A packet whose turn has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its packet id.
    pub id: u32,
    /// Its opcode.
    pub opcode: Opcode,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl ReceiveWindow {
    /// Waits for the packet with id `first`.
    pub fn new(first: u32) -> Self {
        ReceiveWindow { first, next_id: first, slots: VecDeque::new() }
    }

    /// Takes a packet if it is new and within the window.
    pub fn accept(&mut self, id: u32, opcode: Opcode, payload: Vec<u8>) -> Accept {
        if id.wrapping_sub(self.first) < self.next_id.wrapping_sub(self.first) {
            return Accept::Duplicate;
        }
        let ahead = id.wrapping_sub(self.next_id);
        if ahead >= RECEIVE_WINDOW {
            return Accept::OutOfWindow;
        }
        let index = ahead as usize;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, None);
        }
        match self.slots.get_mut(index) {
            Some(slot @ None) => {
                *slot = Some((opcode, payload));
                Accept::New
            }
            _ => Accept::Duplicate,
        }
    }

    /// The next packet in order, once.
    pub fn pop(&mut self) -> Option<Received> {
        let (opcode, payload) = self.slots.front_mut()?.take()?;
        self.slots.pop_front();
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        Some(Received { id, opcode, payload })
    }
}

/// Ids that we owe the peer an acknowledgement for, and the latest that we sent, which are repeated while
/// there is room.
#[derive(Clone, Debug, Default)]
pub struct AckQueue {
    pending: VecDeque<u32>,
    /// Most recent first, at most [`MAX_ACKS`].
    recent: VecDeque<u32>,
}

impl AckQueue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Queues an acknowledgement. With [`MAX_ACKS`] others waiting it is left out: the peer will send its
    /// packet again.
    pub fn push(&mut self, id: u32) {
        if self.pending.len() < MAX_ACKS && !self.pending.contains(&id) {
            self.pending.push_back(id);
        }
    }

    /// True if there are acknowledgements not sent yet.
    pub fn pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The ids to acknowledge in the packet that is being sent: new ones first, then the latest sent before,
    /// at most `max` and never more than [`MAX_ACKS`].
    pub fn take(&mut self, max: usize) -> Vec<u32> {
        let max = max.min(MAX_ACKS);
        let count = self.pending.len().min(max);
        let new: Vec<u32> = self.pending.drain(..count).collect();
        self.recent.retain(|id| !new.contains(id));
        for id in new.into_iter().rev() {
            self.recent.push_front(id);
        }
        self.recent.truncate(MAX_ACKS);
        self.recent.iter().copied().take(max).collect()
    }
}

#[cfg(test)]
mod tests;
