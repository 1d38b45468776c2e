//! The machine: [`Endpoint`], an [`adit_core::Protocol`] for both roles.
//!
//! The parts of RFC 7296 that are supported, and those that are not:
//!
//! | | |
//! |---|---|
//! | `IKE_SA_INIT` | cookies, `INVALID_KE_PAYLOAD`, NAT detection and the change to port 4500 |
//! | `IKE_AUTH` | pre-shared keys; the first child SA, narrowed. Not: certificates, EAP, configuration payloads |
//! | `CREATE_CHILD_SA` | rekeys of child SAs and of IKE SAs, with collisions. Of child SAs there is one at a time |
//! | `INFORMATIONAL` | deletions, signs of life |
//! | messages | a window of 1, retransmission, fragments (RFC 7383) |
//! | not | MOBIKE, additional key exchanges (RFC 9370), reauthentication, transport mode, IPComp; an answer to a higher major version; notifies outside an IKE SA |
//!
//! A peer is recognized by its identity, never by its address: each [`Connection`] is one peer. Errors that are not protected
//! end no IKE SA (section 2.21). Before authentication, a responder keeps a bounded number of IKE SAs for each source ([`Limits`])
//! and takes no request but `IKE_AUTH`. Its answer to a first request is at most a few dozen bytes longer than the request.
//!
//! If both ends initiate at once, the IKE SA with the lower nonce is deleted. If the peer authenticates anew, its older IKE SA is
//! deleted.

mod auth;
mod child;
mod context;
mod cookie;
mod create_child;
mod endpoint;
mod informational;
mod init;
mod lifecycle;
mod narrow;
mod nat;
mod params;
mod rekey;
mod responder;
mod sa;
mod shared;
#[cfg(test)]
mod tests;

pub use endpoint::{BadParams, Endpoint};
pub use params::{
    Codec, Connection, FamilySockets, Limits, Params, PeerDetail, SharedKey, Sockets, Times, Traffic,
};
