//! A server whose outer address changes (roaming).

use std::net::IpAddr;

use adit_core::{Instant, Path, PeerId, PeerOrder, Severity};

use super::Connection;
use crate::data_keys::Agreement;
use crate::negotiate::{PathSize, max_mss};
use crate::outbox::Outbox;
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

    /// The server's data comes from another address, and `float` says to go after it. Values that depend on the length
    /// of the outer headers follow: the MSS of packets inside at once, parts (`fragment`) with the next keys, which are
    /// made now, or as soon as that is possible, if parts of the present ones are too long there.
    pub(super) fn follow(&mut self, now: Instant, events: &mut Outbox) {
        let Some(path) = self.moved_to.take().filter(|path| self.up.is_some() && *path != self.path) else {
            return;
        };
        self.tell(Severity::Info, format!("the server moved to {path}"), events);
        let before = self.max_mss();
        if path.remote().ip() != self.path.remote().ip() {
            self.path_mtu = None;
        }
        self.path = path;
        events.push_back(Event::Data(DataEvent::Peer(PeerOrder::Move { peer: PeerId::SERVER, path })));
        self.tell_mss(before, events);
        if self.data_keys.move_to(path) {
            self.channel.renegotiate_by_time(now);
        }
        self.told_peer = false;
        self.tell_peer(events);
    }

    /// Takes the MTU of the path to that address, which may be the server's, as the system knows it.
    pub(in crate::client) fn take_path_mtu(&mut self, remote: IpAddr, mtu: Option<u16>, events: &mut Outbox) {
        if self.path.remote().ip().to_canonical() != remote {
            return;
        }
        let before = self.max_mss();
        self.path_mtu = mtu;
        self.tell_mss(before, events);
    }

    fn tell_mss(&self, before: Option<u16>, events: &mut Outbox) {
        let max_mss = self.max_mss();
        if max_mss != before {
            events.push_back(Event::Data(DataEvent::Peer(PeerOrder::SetMaxMss {
                peer: PeerId::SERVER,
                max_mss,
            })));
        }
    }

    /// The most TCP payload of packets inside, once the tunnel is up.
    pub(super) fn max_mss(&self) -> Option<u16> {
        let (up, agreement) = (self.up.as_ref()?, self.data_keys.agreement()?);
        self.max_mss_of(up.settings.mtu, agreement)
    }

    /// The most TCP payload of packets inside, with that MTU of the tunnel and that agreement.
    pub(super) fn max_mss_of(&self, tun_mtu: u16, agreement: &Agreement) -> Option<u16> {
        let path = PathSize { path: self.path, mtu: self.path_mtu };
        max_mss(self.params.data.mssfix, tun_mtu, path, &agreement.shape())
    }
}
