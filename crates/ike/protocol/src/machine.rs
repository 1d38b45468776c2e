//! The machine: [`Endpoint`], an [`adit_core::Protocol`] for both roles.
//!
//! The parts of RFC 7296 that are supported, and those that are not:
//!
//! | | |
//! |---|---|
//! | `IKE_SA_INIT` | cookies, `INVALID_KE_PAYLOAD`, NAT detection and the change to port 4500 |
//! | `IKE_INTERMEDIATE` | additional key exchanges of the first IKE SA (RFC 9242, RFC 9370) |
//! | `IKE_FOLLOWUP_KE` | additional key exchanges of rekeys and of further child SAs (RFC 9370) |
//! | `IKE_AUTH` | pre-shared keys, certificates, and EAP of the initiator; the first child SA, narrowed; inner addresses by configuration payloads (section 3.15, RFC 8598) |
//! | `CREATE_CHILD_SA` | further child SAs; rekeys of child SAs and of IKE SAs, with collisions |
//! | `INFORMATIONAL` | deletions, signs of life, changes of addresses (MOBIKE, RFC 4555) |
//! | messages | a window of 1, retransmission, fragments (RFC 7383), shorter ones where the path loses long ones |
//! | also | reauthentication, make before break; `AUTH_LIFETIME` (RFC 4478); IKE SAs without a child SA (RFC 6023); PPKs (RFC 8784); proofs of both messages of `IKE_SA_INIT` (draft-ietf-ipsecme-ikev2-downgrade-prevention-08); announced methods of authentication (RFC 9593) |
//! | not | transport mode, IPComp; an answer to a higher major version; notifies outside an IKE SA, but for `INVALID_SPI` that is received |
//!
//! A peer is recognized by its identity, never by its address: each [`Connection`] is one peer. Errors that are not protected
//! end no IKE SA (section 2.21). Before authentication, a responder keeps a bounded number of IKE SAs for each source ([`Limits`])
//! and takes no request but `IKE_AUTH`. Without a cookie, no answer to a first request is longer than the request.
//!
//! If both ends initiate at once, the IKE SA with the lower nonce is deleted. If the peer authenticates anew, [`Unique`] decides on its
//! older IKE SAs. Connections come and go at run time ([`Reply`], [`Endpoint::add_connection`]).

mod addresses;
mod auth;
mod block_order;
mod blocked;
mod candidates;
mod channel;
mod child;
mod child_orders;
mod child_sa;
mod configuration;
mod connections;
mod context;
mod cookie;
mod create_child;
mod eap;
mod eap_runs;
mod endpoint;
mod few;
mod followup;
mod guesses;
mod inactivity;
mod informational;
mod init;
mod inner;
mod intermediate;
mod invalid_spi;
mod keepalive;
mod lifecycle;
mod lingering;
mod mobike;
mod narrow;
mod nat;
mod notifications;
mod orders;
mod params;
mod payloads;
mod peer;
mod peer_settings;
mod pools;
mod ppk;
mod proof;
mod rekey;
mod requests;
mod responder;
mod sa;
mod schedule;
mod sealing;
mod sessions;
mod settings;
mod shared;
mod tasks;
#[cfg(test)]
mod tests;
mod transcript;
mod updown;
mod weak_offer;

pub use blocked::is_name_of;
pub use child_orders::{ChildSelection, TrapOrder};
pub use endpoint::Endpoint;
pub use notifications::{Connecting, Unconnected};
pub use orders::Reply;
pub use params::{
    Addresses, BadParams, CertificatePolicy, Child, ChildCounters, ChildDetail, ChildUp, Childless, Codec,
    Connection, DirectionCount, DirectionCounter, EapUsers, EndAction, EspLimits, FamilySockets,
    FullTranscript, Inner, Limits, LocalAuth, LocalProof, OwnCertificate, Params, PeerCertificates,
    PeerDetail, PeerIdentity, Pool, Ppk, RemoteAuth, RemoteProof, Request, SharedKey, Sockets, StartAction,
    Times, Traffic, Unique,
};
