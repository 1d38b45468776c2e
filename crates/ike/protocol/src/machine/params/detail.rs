//! The details of a peer in a status.

use std::net::IpAddr;

use adit_core::{Cipher, Digest, Instant};

use super::counters::DirectionCount;
use crate::suite::{Group, IkeSuite};
use crate::wire::{Identification, Spi, TrafficSelector};

/// The details of a peer's IKE SA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerDetail {
    /// The name of its connection.
    pub connection: String,
    /// The inner addresses that this end has of the peer.
    pub own_inner: Vec<IpAddr>,
    /// The inner addresses that the peer has of this end.
    pub peer_inner: Vec<IpAddr>,
    /// Whether this end initiated the IKE SA, or its last rekey.
    pub is_initiator: bool,
    /// The SPI that this end chose.
    pub own_spi: Spi,
    /// The SPI that the peer chose.
    pub peer_spi: Spi,
    /// The identity of this end.
    pub local_identity: Identification,
    /// The identity that the peer proved.
    pub remote_identity: Identification,
    /// The peer's identity of IKE, if the peer proved another one by EAP.
    pub ike_identity: Option<Identification>,
    /// The algorithms of the IKE SA.
    pub suite: IkeSuite,
    /// Whether a post-quantum pre-shared key is in its keys (RFC 8784).
    pub uses_ppk: bool,
    /// Whether this end is behind a NAT.
    pub is_behind_nat: bool,
    /// Whether the peer is behind a NAT.
    pub is_peer_behind_nat: bool,
    /// Whether ESP goes in UDP though no end is behind a NAT.
    pub is_encapsulation_forced: bool,
    /// When the IKE SA, or its last rekey, was made.
    pub made_at: Instant,
    /// When this end rekeys the IKE SA.
    pub rekey_at: Option<Instant>,
    /// When this end authenticates anew.
    pub reauthentication_at: Option<Instant>,
    /// The child SAs, by the numbers of their children.
    pub children: Vec<ChildDetail>,
}

/// The details of a child SA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildDetail {
    /// The name of its child.
    pub name: String,
    /// The SPI of received packets.
    pub own_spi: u32,
    /// The SPI of sent packets.
    pub peer_spi: u32,
    /// The cipher.
    pub cipher: Cipher,
    /// The digest of the HMAC beside a cipher that is no AEAD.
    pub integrity: Option<Digest>,
    /// The key exchanges of its own: the first one, and the additional ones in their order. Empty: its keys are derived from those of
    /// the IKE SA alone.
    pub groups: Vec<Group>,
    /// Whether sequence numbers have 64 bits.
    pub has_extended_sequence_numbers: bool,
    /// Whether ESP goes in UDP.
    pub is_encapsulated: bool,
    /// Whether this end seals with it.
    pub is_sealing: bool,
    /// When it was made.
    pub made_at: Instant,
    /// When this end rekeys it.
    pub rekey_at: Option<Instant>,
    /// The selectors of this end.
    pub local: Vec<TrafficSelector>,
    /// The selectors of the peer's end.
    pub remote: Vec<TrafficSelector>,
    /// The packets that this end has received with it.
    pub received: DirectionCount,
    /// The packets that this end has sent with it.
    pub sent: DirectionCount,
}
