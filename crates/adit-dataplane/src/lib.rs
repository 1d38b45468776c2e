//! adit's data plane: sessions, framing, AEAD, replay, routes, segmentation and merging.
//!
//! It is pure: no I/O, no clock, no randomness, no threads. A driver reads packets and datagrams in
//! batches, hands them to one of two halves, and writes out what it finds in its own [`Outbox`] or
//! [`Inbox`]:
//!
//! - [`Egress`] turns what the TUN device gives (perhaps a 64 KB super-packet) into trains of sealed
//!   datagrams, copied once, from the TUN buffer into the place they are sent from.
//! - [`Ingress`] opens datagrams where they lie in the receive buffer and merges runs of one flow into
//!   super-packets by naming ranges of that buffer; it copies nothing.
//!
//! The halves are owned by one thread each and share nothing but [`Counters`] and, in OpenVPN's epoch format, the
//! number of the epoch that a session shall be in. When a peer comes from another address, the half that opens leaves an
//! order for the one that seals in [`Inbox::orders`], which the driver passes on at once. A protocol's
//! [`adit_core::DataEvent`] is divided for them by [`split`].
//!
//! A server may have several pairs of halves, one a *worker*. Each peer is served by one of them, which alone
//! has its sessions; the others know it by [`foreign`] and leave to the caller what they meet of it
//! ([`Egress::seal_or_pass`], [`Inbox::passed`]).
#![forbid(unsafe_code)]

pub mod aead;
mod checksum;
mod counters;
mod egress;
mod event;
mod framing;
mod headers;
mod inbox;
mod ingress;
mod merge;
mod mss;
mod offload;
mod outbox;
mod replay;
mod routes;
mod segment;
#[cfg(test)]
mod tests;

pub use counters::{Counters, DirectionSnapshot, Drop, PeerSnapshot, Snapshot};
pub use egress::Egress;
pub use event::{EgressEvent, IngressEvent, PeerRoutes, foreign, split};
pub use framing::{OpenSession, SealSession};
pub use inbox::{Inbox, MergePolicy, Passed, TunPacket};
pub use ingress::{Ingress, MAX_RECORD, StreamError};
pub use offload::{Offload, Segmentation, VNET_HEADER_LEN};
pub use outbox::{MAX_DATAGRAM, MAX_SEGMENTS, Outbox, Train};

/// Which side of the tunnel we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// One peer, which may speak for any inner address.
    Client,
    /// Many peers, each bound to its routes.
    Server,
}

/// The wire that tells control from data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// OpenVPN: opcode and key id in the first byte.
    OpenVpn,
    /// OpenVPN with a static key: all is data, and of the one peer ([`adit_core::PeerId::SERVER`], key id 0). What
    /// it seals is taken from any path, as nothing but its key says who it is.
    OpenVpnStatic,
    /// WireGuard: message type in the first four bytes.
    WireGuard,
}

/// What a data plane is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which side we are.
    pub role: Role,
    /// What arrives.
    pub wire: Wire,
    /// A server's peers reach each other without passing through the TUN device.
    pub client_to_client: bool,
}

/// A new data plane: the half that seals, the half that opens, and the counters of both.
pub fn new(config: Config) -> (Egress, Ingress, Counters) {
    let counters = Counters::new();
    (Egress::new(counters.clone()), Ingress::new(config, counters.clone()), counters)
}
