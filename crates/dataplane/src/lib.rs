//! adit's data plane: sessions, codecs, AEAD, replay, routes, segmentation and merging.
//!
//! It is pure: no I/O, no clock, no randomness, no threads. A driver reads packets and datagrams in
//! batches, hands them to one of two halves, and writes out what it finds in its own [`TransmitBatch`] or
//! [`ReceiveBatch`]:
//!
//! - [`Egress`] turns the reads of the TUN device (perhaps a 64 KB super-packet) into GSO batches of sealed
//!   datagrams, copied once, from the TUN buffer into the place they are sent from.
//! - [`Ingress`] opens datagrams where they lie in the receive buffer and merges runs of one flow into
//!   super-packets by naming ranges of that buffer; it copies nothing.
//!
//! The halves are owned by one thread each and share nothing but [`Counters`], and the parts that the two halves of one
//! session's codec may share. When a peer comes from another address, the half that opens leaves an order for the one
//! that seals in [`ReceiveBatch::orders`], which the driver passes on at once. A protocol's [`adit_core::DataEvent`] is
//! divided for them by [`split`].
//!
//! Access rules ([`EgressEvent::SetRules`]) judge a packet of a peer where its source address is checked, and a packet for a
//! peer where its session is chosen (`access.rs`).
//!
//! How packets look on the wire, and how datagrams name their session, is in values of [`codec`]: one with each session,
//! one for each socket.
//!
//! A server may have several pairs of halves, one a *worker*. Each peer is served by one of them, which alone
//! has its sessions; the others know it by [`remote_peer`] and leave to the caller its packets and datagrams
//! ([`Egress::seal_or_pass`], [`ReceiveBatch::passed`]).
#![forbid(unsafe_code)]

mod access;
pub mod aead;
pub mod cbc;
mod checksum;
pub mod codec;
mod counters;
mod egress;
mod event;
mod headers;
mod held;
mod ingress;
pub mod mac;
mod merge;
mod mss;
mod offload;
mod outer;
mod peers;
mod receive;
mod recent;
mod replay;
mod routes;
mod segment;
mod selectors;
mod slab;
mod staging;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod transmit;
mod unreachable;

use std::sync::Arc;

use access::SharedFlows;
use adit_checksum::WordSum;
use codec::Demultiplexer;
pub use codec::{OpenSession, SealSession};
pub use counters::{Counters, DirectionSnapshot, DropReason, PeerSnapshot, Snapshot};
pub use egress::Egress;
pub use event::{EgressEvent, IngressEvent, install, remote_peer, set_rules, split};
pub use ingress::{Arrival, Ingress, MAX_RECORD, StreamError};
pub use offload::{Offload, Segmentation, VNET_HEADER_LEN};
pub use outer::{OuterHeader, OuterPolicy, TrafficClass};
pub use receive::{MergePolicy, Passed, ReceiveBatch, TunPacket};
pub use selectors::Selectors;
pub use transmit::{GsoBatch, MAX_DATAGRAM, MAX_SEGMENTS, TransmitBatch};

/// The settings of a data plane.
#[derive(Clone, Debug)]
pub struct Config {
    /// Tells apart the datagrams that arrive at all sockets that have no demultiplexer of their own
    /// ([`Ingress::set_demultiplexer`]).
    pub demultiplexer: Arc<dyn Demultiplexer>,
    /// Peers reach each other without passing through the TUN device.
    pub client_to_client: bool,
    /// How checksums of payloads are summed up: [`adit_checksum::portable`], or the way that this processor
    /// has.
    pub words: WordSum,
}

impl Config {
    /// Settings for sockets with that demultiplexer, and peers that do not reach each other.
    pub fn new(demultiplexer: impl Demultiplexer + 'static) -> Self {
        Config::of(Arc::new(demultiplexer))
    }

    /// Settings for sockets with a demultiplexer that other owners may share, and peers that do not reach
    /// each other.
    pub fn of(demultiplexer: Arc<dyn Demultiplexer>) -> Self {
        Config { demultiplexer, client_to_client: false, words: adit_checksum::portable }
    }
}

/// A new data plane: the half that seals, the half that opens, and the counters of both.
pub fn new(config: Config) -> (Egress, Ingress, Counters) {
    let (counters, flows) = (Counters::new(), SharedFlows::default());
    let egress = Egress::new(config.words, counters.clone(), flows.clone());
    (egress, Ingress::new(config, counters.clone(), flows), counters)
}
