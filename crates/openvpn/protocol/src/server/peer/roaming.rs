//! A client whose outer address changes (roaming).

use std::net::IpAddr;
use std::time::Duration;

use adit_core::{Identity, Instant, IpNet, Ipv4Net, Ipv6Net, Path, PeerConfig, PeerOrder};

use super::Peer;
use crate::data_keys::Agreement;
use crate::lease::ClientLease;
use crate::negotiate::{PathSize, max_mss};
use crate::outbox::Outbox;
use crate::request::{DataEvent, Event};

/// The log has one move of a client in this time.
const REPORT_MOVES_EVERY: Duration = Duration::from_secs(60);

impl Peer {
    /// Whether a move shall be logged now; then not again for a while.
    pub(in crate::server) fn may_report_move(&mut self, now: Instant) -> bool {
        let due = self.next_move_report.is_none_or(|at| now >= at);
        if due {
            self.next_move_report = Some(now + REPORT_MOVES_EVERY);
        }
        due
    }

    /// Moves the client, which is up, to another address, to which the data plane sends from now on. Values that depend
    /// on the length of the outer headers follow: the MSS of packets inside at once, parts (`fragment`) with the next
    /// keys, which are made now, or as soon as that is possible, if parts of the present ones are too long there.
    pub(in crate::server) fn move_to(&mut self, now: Instant, path: Path, events: &mut Outbox) {
        let before = self.max_mss();
        if path.remote().ip() != self.path.remote().ip() {
            self.path_mtu = None;
        }
        self.path = path;
        events.push_back(Event::Data(DataEvent::Peer(PeerOrder::Move { peer: self.id, path })));
        self.tell_mss(before, events);
        if self.data_keys.move_to(path) {
            self.channel.renegotiate_by_time(now);
        }
    }

    /// Takes the MTU of the path to that address, which may be its own, as the system knows it.
    pub(in crate::server) fn take_path_mtu(&mut self, remote: IpAddr, mtu: Option<u16>, events: &mut Outbox) {
        if self.path.remote().ip().to_canonical() != remote {
            return;
        }
        let before = self.max_mss();
        self.path_mtu = mtu;
        self.tell_mss(before, events);
    }

    fn tell_mss(&self, before: Option<u16>, events: &mut Outbox) {
        let max_mss = self.max_mss();
        if max_mss != before && self.up.is_some() {
            events.push_back(Event::Data(DataEvent::Peer(PeerOrder::SetMaxMss { peer: self.id, max_mss })));
        }
    }

    /// The most TCP payload of packets inside, once it is known how they are sealed.
    fn max_mss(&self) -> Option<u16> {
        self.max_mss_of(self.data_keys.agreement()?)
    }

    /// The most TCP payload of packets inside, if they are sealed by that agreement.
    pub(super) fn max_mss_of(&self, agreement: &Agreement) -> Option<u16> {
        let (data, path) = (&self.params.data, PathSize { path: self.path, mtu: self.path_mtu });
        max_mss(data.mssfix, data.tun_mtu, path, &agreement.shape())
    }

    /// The client as access rules name it. A client that has no name has no groups either.
    fn identity(&self) -> Identity {
        let Some(name) = self.known_name() else { return Identity::default() };
        let certificate = self.channel.shown_certificates().first();
        let groups = certificate.map(adit_pki::organizational_units).unwrap_or_default();
        Identity { name: name.to_owned(), groups }
    }

    /// The client in the data plane.
    pub(super) fn peer_config(&self, lease: &ClientLease, max_mss: Option<u16>) -> PeerConfig {
        let point = self.params.point_to_point.as_ref();
        PeerConfig {
            peer: self.id,
            path: Some(self.path),
            routes: match point {
                Some(_) => vec![IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())],
                None => lease.networks(),
            },
            selectors: Default::default(),
            max_mss,
            roams: point.is_none_or(|point| point.only_from.is_none()),
            staging: false,
            device: Default::default(),
            by_path: true,
            identity: self.identity(),
        }
    }
}
