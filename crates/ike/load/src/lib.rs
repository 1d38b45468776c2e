//! IKEv2 initiators and attackers by the thousand, in one process, from adit's own protocol machine ([`adit_load`] has what the
//! generators of all protocols share).
//!
//! | part | holds |
//! |---|---|
//! | [`Credentials`] | the credentials of initiators and responder: a pre-shared key, or certificates |
//! | [`responder_files()`] | the files of swanctl with which adit and strongSwan answer the initiators |
//! | [`Initiators`] | initiators that connect and stay |
//! | [`requests()`] | the requests that attackers forge |
#![forbid(unsafe_code)]

mod credentials;
mod initiators;
#[cfg(test)]
mod memory;
mod names;
mod requests;
mod responder_files;

pub use credentials::{Certificates, Credentials};
pub use initiators::{Initiators, InnerAddresses};
pub use requests::requests;
pub use responder_files::{File, Peers, responder_files};
