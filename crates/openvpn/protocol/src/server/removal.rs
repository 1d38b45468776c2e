//! Peers that go: the resources that are freed, and the messages to them and to the data plane.

use adit_core::{Instant, Path, PeerId, PeerOrder, Severity, Transport};

use super::Server;
use super::peer::Peer;
use crate::request::{DataEvent, Event};

impl Server {
    /// Disconnects a client after telling it why.
    pub(super) fn kill(&mut self, now: Instant, client: u64, message: &str) {
        let Some((&id, peer)) = self.peers.iter_mut().find(|(_, peer)| peer.number() == client) else {
            return;
        };
        peer.send_message(now, message);
        // It is sent once: a client that does not receive it notices by the silence.
        self.remove(id, "disconnected on request", Severity::Info);
    }

    pub(super) fn closed(&mut self, path: Path, reason: &str) {
        self.silent.remove(path);
        self.tls_crypt_v2_verify.closed(path, &mut self.events);
        let gone: Vec<PeerId> = self.at(path).collect();
        for id in gone {
            self.remove(id, &format!("connection closed: {reason}"), Severity::Info);
        }
    }

    /// A client that is up carries no data from now on, and has a moment to get the reason why it shall stop.
    pub(super) fn halt(&mut self, id: PeerId, told: &str, reason: &str) {
        let Some(mut peer) = self.peers.remove(&id) else { return };
        self.take_down(id, &mut peer, reason);
        peer.halt(self.now, told);
        self.report(Severity::Warning, Some(peer.path()), format!("{}: {reason}", peer.name()));
        self.peers.insert(id, peer);
        self.settle(id);
    }

    pub(super) fn remove(&mut self, id: PeerId, reason: &str, severity: Severity) {
        let Some(mut peer) = self.peers.remove(&id) else { return };
        self.unschedule(id);
        let path = peer.path();
        let mut datagram = Vec::new();
        while peer.poll_transmit(self.now, &mut datagram) {
            self.last_words.push_back((path, std::mem::take(&mut datagram)));
        }
        self.by_sid.remove(&(path, peer.sid()));
        self.take_down(id, &mut peer, reason);
        self.report_lines(path, peer.take_lines());
        let text = format!("{}: {reason}", peer.name());
        let is_said = match peer.is_authenticated() {
            true => {
                self.report(severity, Some(path), text);
                true
            }
            false => self.report_unauthenticated(severity, path, text),
        };
        if let Some(failure) = peer.take_failure().filter(|_| is_said) {
            let name = peer.is_authenticated().then(|| peer.name().to_owned());
            self.tell_failure(path, name, failure);
        }
        if path.transport() == Transport::Tcp && self.at(path).next().is_none() {
            self.after_words.push(Event::Close { path });
        }
    }

    /// The client's addresses are free and the data plane forgets it; its control channel is left.
    fn take_down(&mut self, id: PeerId, peer: &mut Peer, reason: &str) {
        self.half_open.remove(id);
        self.pool.leave(id);
        for network in peer.learned() {
            if self.pool.withdraw(id, &network) {
                self.vacated.insert(network, (peer.next_script(), peer.path().remote().ip()));
            }
        }
        if let Some(lease) = peer.leave(self.now, &mut self.events) {
            self.pool.release(&lease.addresses);
        }
        if let Some(lease) = peer.lease() {
            self.pool.release(&lease.addresses);
            let peer = peer.data_id();
            self.events.push_back(Event::Data(DataEvent::Peer(PeerOrder::Remove(peer))));
            self.events.push_back(Event::PeerDown { peer, reason: reason.to_owned() });
        }
        if peer.is_up() {
            self.up -= 1;
            if self.by_name.get(peer.name()) == Some(&id) {
                self.by_name.remove(peer.name());
            }
        }
    }
}
