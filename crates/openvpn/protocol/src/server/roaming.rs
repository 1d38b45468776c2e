//! Clients whose outer addresses change (roaming), and where peers may be.

use adit_core::{Path, PeerId, PeerOrder, Severity};

use super::Server;
use super::peer::Peer;
use crate::request::{DataEvent, Event};

impl Server {
    /// Whether a peer may have this outer address.
    pub(super) fn may_be_at(&self, path: Path) -> bool {
        let address = path.remote().ip().to_canonical();
        self.only_from.as_ref().is_none_or(|addresses| addresses.contains(&address))
    }

    /// The data plane opened a packet from a new address.
    pub(super) fn roamed(&mut self, id: PeerId, path: Path) {
        // A late word about a peer that is gone, whose id another took over.
        let Some(peer) = self.peers.get(&id).filter(|peer| peer.is_up()) else { return };
        // The data plane did not follow a peer whose addresses are limited: there is nothing to take back.
        if peer.path() == path || !self.may_be_at(path) {
            return;
        }
        let (old, data_id) = (peer.path(), peer.data_id());
        let (name, sid) = (peer.name().to_owned(), peer.sid());
        let known = peer.known_name().map(str::to_owned);
        // A taken address changes hands only within one name (OpenVPN multi.c `multi_process_float`).
        let is_up = |other: &PeerId| self.peers.get(other).is_some_and(Peer::is_up);
        let taken: Vec<PeerId> = self.at(path).filter(|other| *other != id && is_up(other)).collect();
        let is_same = |peer: &Peer| known.is_some() && peer.known_name() == known.as_deref();
        if taken.iter().any(|other| self.peers.get(other).is_some_and(|peer| !is_same(peer))) {
            self.report_move(
                id,
                Severity::Warning,
                path,
                format!("{name} seems to have moved here, but another client is there"),
            );
            self.events.push_back(Event::Data(DataEvent::Peer(PeerOrder::Move { peer: data_id, path: old })));
            return;
        }
        for other in taken {
            self.remove(other, "replaced by the same client, which moved here", Severity::Info);
        }
        self.by_sid.remove(&(old, sid));
        self.by_sid.insert((path, sid), id);
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.move_to(self.now, path, &mut self.events);
        }
        self.report_move(id, Severity::Info, path, format!("{name} moved here from {old}"));
    }

    /// Tells of a client's moves, one in a minute: it may move as often as it likes.
    fn report_move(&mut self, id: PeerId, severity: Severity, path: Path, text: String) {
        let now = self.now;
        if self.peers.get_mut(&id).is_some_and(|peer| peer.may_report_move(now)) {
            self.report(severity, Some(path), text);
        }
    }
}
