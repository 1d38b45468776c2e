//! A server whose outer address changes (roaming).

use std::collections::VecDeque;

use adit_core::{Instant, Path, PeerId, Severity};

use super::Connection;
use crate::negotiate::max_mss;
use crate::request::{DataEvent, Event};

impl Connection {
    /// With `float`, a server's first answer may come from another of its addresses. Later only its data shows
    /// where it is.
    pub(super) fn may_answer_from(&self, path: Path) -> bool {
        let same_socket = match (self.path, path) {
            (Path::Udp { socket, .. }, Path::Udp { socket: other, .. }) => socket == other,
            _ => false,
        };
        self.params.float && same_socket && !self.channel.heard()
    }

    /// The server's data comes from another address, and `float` says to go after it. What depends on the length of the
    /// outer headers follows: the MSS of packets inside at once, parts (`fragment`) with the next keys, which are made now, or
    /// as soon as that is possible, if parts of the present ones are too long there.
    pub(super) fn follow(&mut self, now: Instant, events: &mut VecDeque<Event>) {
        let Some(path) = self.moved_to.take().filter(|path| self.up.is_some() && *path != self.path) else {
            return;
        };
        self.tell(Severity::Info, format!("the server moved to {path}"), events);
        let before = self.max_mss();
        self.path = path;
        events.push_back(Event::Data(DataEvent::MovePeer { peer: PeerId::SERVER, path }));
        let max_mss = self.max_mss();
        if max_mss != before {
            events.push_back(Event::Data(DataEvent::SetMaxMss { peer: PeerId::SERVER, max_mss }));
        }
        if self.data_keys.move_to(path) {
            self.channel.renegotiate_by_time(now);
        }
        self.told_peer = false;
        self.tell_peer(events);
    }

    /// The most TCP payload of packets inside, once the tunnel is up.
    fn max_mss(&self) -> Option<u16> {
        let (up, agreement) = (self.up.as_ref()?, self.data_keys.agreement()?);
        max_mss(self.params.data.mssfix, up.settings.mtu, self.path, agreement)
    }
}
