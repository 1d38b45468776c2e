//! The parts of an answer to a first request that the connections decide which the initiator may mean: its identity is not known yet.

use super::connections::Connections;
use super::init::{FirstRequest, has_additional};
use super::params::Connection;
use super::payloads::notify;
use super::proof::{announce, request_certificates};
use crate::suite::{Chosen, Preference, choose};
use crate::wire::{NotifyType, Payload, Proposal};

/// Most authorities that a responder names when it asks for certificates.
const MAX_AUTHORITIES: usize = 16;

impl FirstRequest<'_> {
    /// The notify that announces the methods of authentication (RFC 9593). With additional key exchanges it is empty: the list comes with
    /// the last of them.
    pub(super) fn announcement(&self, connections: &Connections, proposal: &Proposal) -> Option<Payload> {
        let announcement = announce(&connections.announced(self.path.remote().ip()).short())?;
        let is_later = has_additional(proposal);
        Some(if is_later { notify(NotifyType::SUPPORTED_AUTH_METHODS, Vec::new()) } else { announcement })
    }

    /// Whether one of the connections that the initiator may mean has a PPK.
    pub(super) fn may_use_ppk(&self, connections: &Connections) -> bool {
        connections.candidates(self.path.remote().ip()).iter().any(|connection| connection.ppk.is_some())
    }

    /// Whether one of the connections that the initiator may mean proves both first messages.
    pub(super) fn offers_full_transcript(&self, connections: &Connections) -> bool {
        let all = connections.candidates(self.path.remote().ip());
        all.iter().any(|connection| connection.full_transcript.is_offered())
    }

    /// Whether one of the connections that the initiator may mean takes a signature for its proof.
    pub(super) fn takes_signatures(&self, connections: &Connections) -> bool {
        let all = connections.candidates(self.path.remote().ip());
        all.iter().any(|connection| connection.remote_auth.is_by_signature())
    }

    /// The payload that asks for certificates, of all connections that the initiator may mean.
    pub(super) fn certificate_request(&self, connections: &Connections) -> Option<Payload> {
        let all = connections.candidates(self.path.remote().ip());
        let mut digests: Vec<[u8; 20]> = Vec::new();
        for digest in all.into_iter().flat_map(|connection| connection.remote_auth.requested()) {
            if !digests.contains(digest) && digests.len() < MAX_AUTHORITIES {
                digests.push(*digest);
            }
        }
        request_certificates(&digests)
    }

    /// The connection and the chosen proposal. The identity is not known yet, so that connections with the address of the sender
    /// come first, then the others in their order.
    pub(super) fn choose<'c>(
        &self,
        connections: &'c Connections,
        offered: &[Proposal],
    ) -> Option<(&'c Connection, Chosen)> {
        let address = self.path.remote().ip();
        let choice = |connection: &'c Connection| {
            choose(&connection.ike, offered, Preference::Own).map(|chosen| (connection, chosen))
        };
        let there = connections.at(address).find_map(choice);
        there.or_else(|| connections.candidates(address).into_iter().find_map(choice))
    }
}
