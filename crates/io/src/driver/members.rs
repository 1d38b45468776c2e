//! The endpoints, as a data thread sees them: messages of an endpoint go to the endpoint's control thread.

use std::sync::Arc;

use adit_core::{Notice, Path};
use adit_dataplane::codec::Demultiplexer;

use super::ids::{EndpointId, own_notice};
use super::mail::{Mail, Member};
use super::status::count;

/// Mails to the control thread that may wait before control datagrams are dropped: 80 ms of a flood of 100,000 a
/// second, as the thread may wait that long for a processor.
pub(super) const CONTROL_LIMIT: usize = 8192;
/// Messages in the data channel that may wait; only authenticated peers send them.
const NOTICE_LIMIT: usize = 4096;

/// An endpoint.
struct Entry {
    id: EndpointId,
    member: Member,
    /// Its control thread was given something, and is to be woken.
    to_wake: bool,
}

/// All endpoints of the device: a handful.
#[derive(Default)]
pub(super) struct Members(Vec<Entry>);

impl Members {
    pub(super) fn add(&mut self, id: EndpointId, member: Member) {
        self.0.push(Entry { id, member, to_wake: false });
    }

    /// Tells all control threads.
    pub(super) fn post_all(&self, mail: impl Fn() -> Mail) {
        for entry in &self.0 {
            entry.member.control.post(mail());
            entry.member.control.wake();
        }
    }

    pub(super) fn remove(&mut self, id: EndpointId) {
        self.0.retain(|entry| entry.id != id);
    }

    /// Whether senders of packets that cannot be carried get an answer: one endpoint that wants it is enough.
    pub(super) fn answer_unreachable(&self) -> bool {
        self.0.iter().any(|entry| entry.member.answers_unreachable)
    }

    /// The demultiplexer of an endpoint's datagrams. `None`: that of the data plane.
    pub(super) fn demultiplexer(&self, id: EndpointId) -> Option<Arc<dyn Demultiplexer>> {
        self.0.iter().find(|entry| entry.id == id)?.member.demultiplexer.clone()
    }

    fn get(&mut self, id: EndpointId) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.id == id)
    }

    /// Posts mail that must not be lost, and wakes the endpoint's control thread. One that is gone needs it no more.
    pub(super) fn post(&self, id: EndpointId, mail: Mail) {
        if let Some(entry) = self.0.iter().find(|entry| entry.id == id) {
            entry.member.control.post(mail);
            entry.member.control.wake();
        }
    }

    /// Gives a control thread a datagram, or drops and counts it when too many wait. [`Members::wake`] must follow.
    pub(super) fn datagram(&mut self, id: EndpointId, path: Path, bytes: &[u8]) {
        let Some(entry) = self.get(id) else { return };
        match entry.member.control.offer(Mail::Datagram { path, bytes: bytes.to_vec() }, CONTROL_LIMIT) {
            true => entry.to_wake = true,
            false => count(&entry.member.losses.control_full),
        }
    }

    /// Gives a notice to the control thread that it is for, as [`Members::datagram`] does.
    pub(super) fn notice(&mut self, notice: Notice) {
        let Some(entry) = self.get(EndpointId::of(notice.peer())) else { return };
        // A peer can make any number of messages, but of the others at most one a session or change.
        let limit = if matches!(notice, Notice::Message { .. }) { NOTICE_LIMIT } else { usize::MAX };
        match entry.member.control.offer(Mail::Notice(own_notice(notice)), limit) {
            true => entry.to_wake = true,
            false => count(&entry.member.losses.notices_full),
        }
    }

    /// Wakes the control threads that were given something.
    pub(super) fn wake(&mut self) {
        for entry in self.0.iter_mut().filter(|entry| entry.to_wake) {
            entry.to_wake = false;
            entry.member.control.wake();
        }
    }
}
