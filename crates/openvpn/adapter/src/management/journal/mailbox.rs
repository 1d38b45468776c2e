//! The lines and client events that wait to be sent to one program at the management socket.

use std::collections::VecDeque;
use std::sync::Arc;

use adit_openvpn::request::ClientStep;

use super::Kind;
use crate::management::pending_auths::Told;

/// Lines that wait to be sent to a program, at most. Further ones are lost: who does not read must not make us remember.
pub(super) const MOST_WAITING: usize = 1024;
/// Client events that wait to be sent to a program, at most, in bytes. More than all clients make that may connect at once.
pub(super) const MOST_CLIENT_EVENTS: usize = 8 << 20;

/// The lines and client events for one program.
pub(super) struct Mailbox {
    /// The kinds whose new entries are sent at once.
    follows: [bool; 3],
    waiting: VecDeque<String>,
    /// Events of clients, and about how many bytes they are. Programs share an event.
    client_events: VecDeque<Arc<Told>>,
    client_events_size: usize,
    /// Client events were lost.
    overrun: bool,
    /// The version that the program has announced (`version`).
    version: u32,
}

impl Mailbox {
    /// An empty one of a program that announces `version`.
    pub(super) fn new(version: u32) -> Self {
        Mailbox {
            follows: [false; 3],
            waiting: VecDeque::new(),
            client_events: VecDeque::new(),
            client_events_size: 0,
            overrun: false,
            version,
        }
    }

    pub(super) fn version(&self) -> u32 {
        self.version
    }

    pub(super) fn set_version(&mut self, version: u32) {
        self.version = version;
    }

    pub(super) fn follows(&self, kind: Kind) -> bool {
        self.follows[kind as usize]
    }

    pub(super) fn follow(&mut self, kind: Kind, follow: bool) {
        self.follows[kind as usize] = follow;
    }

    pub(super) fn post(&mut self, line: String) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(line);
        }
    }

    /// The lines that wait.
    pub(super) fn take(&mut self) -> VecDeque<String> {
        std::mem::take(&mut self.waiting)
    }

    /// Adds a client event. Whether there is something to send.
    pub(super) fn tell(&mut self, told: &Arc<Told>) -> bool {
        let has_left = matches!(told.event.step, ClientStep::Disconnected);
        if has_left && self.withdraw(told.event.client) {
            return false;
        }
        let size = self.client_events_size + told.size();
        if size > MOST_CLIENT_EVENTS {
            self.overrun = true;
        } else {
            self.client_events_size = size;
            self.client_events.push_back(Arc::clone(told));
        }
        true
    }

    /// Takes back what was to be told of a client that has left, if that begins with its first appearance: the program has not
    /// heard of it. So clients that come and leave do not fill the memory of a program that reads slowly. Whether it was so.
    fn withdraw(&mut self, client: u64) -> bool {
        let of_it = |told: &Arc<Told>| told.event.client == client;
        let appears = |told: &Arc<Told>| {
            of_it(told) && matches!(told.event.step, ClientStep::AuthRequest { again: false, .. })
        };
        let unheard = self.client_events.iter().any(appears);
        if unheard {
            let mut freed = 0;
            self.client_events.retain(|told| {
                freed += if of_it(told) { told.size() } else { 0 };
                !of_it(told)
            });
            self.client_events_size = self.client_events_size.saturating_sub(freed);
        }
        unheard
    }

    pub(super) fn has_client_event(&self) -> bool {
        !self.client_events.is_empty()
    }

    /// The next event of clients.
    pub(super) fn next_client_event(&mut self) -> Option<Arc<Told>> {
        let told = self.client_events.pop_front()?;
        self.client_events_size = self.client_events_size.saturating_sub(told.size());
        Some(told)
    }

    /// Whether client events were lost.
    pub(super) fn is_overrun(&self) -> bool {
        self.overrun
    }
}
