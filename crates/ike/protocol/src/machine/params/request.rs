//! The messages of an endpoint to its adapter.

use std::net::IpAddr;
use std::sync::Arc;

use adit_core::{DeviceId, Path, PeerId};

use crate::wire::{Identification, TrafficSelector};

/// A message of an endpoint to its adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The IKE SA of a peer, its path or its child SAs have changed, have come or are gone.
    SasChanged(PeerId),
    /// A child was asked for in vain, or the IKE SA for it.
    Failed {
        /// The name of the connection.
        connection: String,
        /// The reason.
        reason: String,
    },
    /// A child with a program ([`super::Child::updown`]) has its first child SA.
    ChildUp(Box<ChildUp>),
    /// A child with a program has no child SA any more.
    ChildDown {
        /// The peer.
        peer: PeerId,
        /// The child's name.
        child: String,
    },
    /// The addresses of the names of the connection with that name are asked for once more, as none that is known was of use
    /// ([`super::Connection::has_names`]). [`super::super::Reply::Remotes`] answers.
    LookUp(String),
}

/// A child that has come up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildUp {
    /// The program to run.
    pub program: Arc<str>,
    /// The peer.
    pub peer: PeerId,
    /// The child's name.
    pub child: String,
    /// The device of the peer.
    pub device: DeviceId,
    /// The path to the peer.
    pub path: Path,
    /// The local address of the path, where it is known.
    pub local_address: Option<IpAddr>,
    /// The identity of this end.
    pub local_identity: Identification,
    /// The identity that the peer proved.
    pub remote_identity: Identification,
    /// The inner addresses that this end has of the peer.
    pub own_inner: Vec<IpAddr>,
    /// The inner addresses that the peer has of this end.
    pub peer_inner: Vec<IpAddr>,
    /// The name servers that the peer gave.
    pub dns: Vec<IpAddr>,
    /// Whether ESP goes in UDP.
    pub is_encapsulated: bool,
    /// The selectors of this end.
    pub local: Vec<TrafficSelector>,
    /// The selectors of the peer's end.
    pub remote: Vec<TrafficSelector>,
}
