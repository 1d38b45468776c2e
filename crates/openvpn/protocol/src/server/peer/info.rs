//! The server's questions about a client: who it is, where it is, how far it has come.

use std::sync::Arc;

use adit_core::{Path, PeerId};
use adit_pki::RevocationLists;

use super::Peer;
use crate::lease::ClientLease;
use crate::negotiate::iv_proto;
use crate::params::ServerParams;
use crate::request::{PeerDetail, PeerInfo};
use crate::server::half_open::{HalfOpenState, Progress};
use crate::wire::Sid;

impl Peer {
    /// The settings that hold for it.
    pub(in crate::server) fn params(&self) -> &Arc<ServerParams> {
        &self.params
    }

    /// Its id in the data plane.
    pub(in crate::server) fn data_id(&self) -> PeerId {
        self.id
    }

    pub(in crate::server) fn path(&self) -> Path {
        self.path
    }

    pub(in crate::server) fn sid(&self) -> Sid {
        self.sid
    }

    /// How far it is on its way in; `None` once it is up, or was.
    pub(in crate::server) fn half_open_state(&self) -> Option<HalfOpenState> {
        let progress = match (self.channel.is_identified(), self.channel.has_answered_tls()) {
            (true, _) => Progress::Identified,
            (false, true) => Progress::Tls,
            (false, false) => Progress::Begun,
        };
        let proven = self.proven || self.channel.reset_is_acknowledged();
        (!self.authenticated).then(|| HalfOpenState { progress, proven, put_off: self.is_put_off() })
    }

    /// Whether the client was up once.
    pub(in crate::server) fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// Whether its authentication was deferred to wait for the user.
    pub(in crate::server) fn is_put_off(&self) -> bool {
        self.authentication.is_put_off()
    }

    /// The proven name, or the one that stands for it.
    pub(in crate::server) fn name(&self) -> &str {
        self.known_name().unwrap_or("unknown client")
    }

    /// The common name of its certificate, or the username that was judged. A client without either is not the earlier connection of any other, and
    /// has no later one.
    pub(in crate::server) fn known_name(&self) -> Option<&str> {
        let username = Some(self.authentication.username()).filter(|name| !name.is_empty());
        let certified = self.channel.peer_name();
        if self.params.access.username_as_name { username.or(certified) } else { certified.or(username) }
    }

    /// The number by which scripts know it.
    pub(in crate::server) fn owner(&self) -> u64 {
        self.authentication.owner()
    }

    /// The number by which people know it, and programs that judge it.
    pub(in crate::server) fn number(&self) -> u64 {
        self.authentication.number()
    }

    /// The other end of a point-to-point tunnel is silent: this end starts over.
    pub(in crate::server) fn starts_over(&self) -> bool {
        self.starts_over
    }

    pub(in crate::server) fn is_up(&self) -> bool {
        self.up.is_some()
    }

    pub(in crate::server) fn is_revoked(&self, lists: &RevocationLists) -> bool {
        self.channel.is_revoked(lists)
    }

    pub(in crate::server) fn is_quiet(&self) -> bool {
        self.channel.is_quiet()
    }

    pub(in crate::server) fn lease(&self) -> Option<&ClientLease> {
        self.up.as_ref().map(|up| &up.lease)
    }

    pub(in crate::server) fn lease_mut(&mut self) -> Option<&mut ClientLease> {
        self.up.as_mut().map(|up| &mut up.lease)
    }

    /// Whether the client has addresses, but scripts have still to say whether it may come up.
    pub(in crate::server) fn is_judged(&self) -> bool {
        self.connecting.is_some() || self.learning.is_some()
    }

    /// Whether the client is being sent away.
    pub(in crate::server) fn is_refused(&self) -> bool {
        self.refused_until.is_some()
    }

    /// Whether it comes back after `AUTH_FAILED,TEMP`; to older clients any `AUTH_FAILED` is the end.
    pub(in crate::server) fn understands_later(&self) -> bool {
        self.abilities.has(iv_proto::AUTH_FAIL_TEMP)
    }

    /// Whether it follows PUSH_UPDATE.
    pub(in crate::server) fn understands_updates(&self) -> bool {
        self.params.point_to_point.is_none() && self.abilities.has(iv_proto::PUSH_UPDATE)
    }

    pub(in crate::server) fn info(&self) -> Option<PeerInfo> {
        let (up, agreement) = (self.up.as_ref()?, self.data_keys.agreement()?);
        Some(PeerInfo {
            name: self.name().to_owned(),
            path: self.path,
            addresses: self.inner_addresses(&up.lease),
            cipher: agreement.cipher,
            rekeys: self.data_keys.rekeys(),
            last_handshake: self.last_handshake,
            since: up.since,
            heard: self.liveness.last_heard(),
            routes: up.lease.routes.clone(),
            detail: PeerDetail {
                epochs: agreement.epoch,
                tls: self.channel.tls_description().to_owned(),
                username: self.authentication.username().to_owned(),
                number: self.authentication.number(),
            },
        })
    }
}
