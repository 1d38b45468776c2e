//! The peer of a point-to-point tunnel: nothing is pushed to it.

use std::net::IpAddr;

use adit_core::{Instant, PeerOrder, Severity, Transport};

use super::{LaterAddresses, Peer, Up, Verdict};
use crate::data_keys::Agreement;
use crate::data_message;
use crate::lease::ClientLease;
use crate::lifetime::Lifetime;
use crate::negotiate::{iv_proto, point_to_point_terms};
use crate::outbox::Outbox;
use crate::request::{DataEvent, Event};
use crate::wire::TlsRole;

impl Peer {
    /// Both ends' key method 2 are there: the tunnel can come up.
    pub(super) fn establish_without_push(&mut self, now: Instant, lease: ClientLease, events: &mut Outbox) {
        let data = &self.params.data;
        let terms = match point_to_point_terms(TlsRole::Server, data, &self.abilities) {
            Ok(terms) => terms,
            Err(reason) => {
                self.verdict = Some(Verdict::Remove { reason, severity: Severity::Error });
                return;
            }
        };
        let agreement = match Agreement::of_point_to_point(&terms, data, &self.channel, self.path) {
            Ok(agreement) => agreement,
            Err(error) => {
                let reason = error.to_string();
                self.verdict = Some(Verdict::Remove { reason, severity: Severity::Warning });
                return;
            }
        };
        let max_mss = self.max_mss_of(&agreement);
        events.push_back(Event::Data(DataEvent::Peer(PeerOrder::Add(self.peer_config(&lease, max_mss)))));
        let cc_exit = terms.has(iv_proto::CC_EXIT);
        self.up = Some(Up {
            lease,
            since: now,
            push_messages: Vec::new(),
            pushed_at: Some(now),
            cc_exit,
            learning: LaterAddresses::default(),
        });
        self.lifetime = Lifetime::new(now, self.params.limits);
        self.tell_peer(events);
        self.enter(now, agreement, terms.wraps_dynamically(), events);
    }

    /// The inner addresses that it is known by.
    pub(super) fn inner_addresses(&self, lease: &ClientLease) -> Vec<IpAddr> {
        match &self.params.point_to_point {
            Some(point) => point.local.peer_address.into_iter().collect(),
            None => lease.addresses(),
        }
    }

    /// Sends the other end the exit notice, if it shall get one.
    pub(in crate::server) fn send_exit_notice(&mut self, now: Instant, events: &mut Outbox) {
        let (Some(up), Some(point)) = (&self.up, &self.params.point_to_point) else { return };
        if !point.exit_notify {
            return;
        }
        if up.cc_exit {
            self.channel.send_message(now, "EXIT");
        } else if self.path.transport() == Transport::Udp {
            let payload = data_message::occ_exit();
            events.push_back(Event::Data(DataEvent::Inject { peer: self.id, payload }));
        }
    }
}
