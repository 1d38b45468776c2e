//! Clients and attackers by the thousand, of OpenVPN and WireGuard, in one process, from adit's own protocol machines.
//!
//! `adit-lab` starts the `adit-load` program in a network namespace, as it starts every peer, and so needs none of adit's
//! crates itself. adit's interoperability tests use the library. Nothing of it is shipped.
//!
//! Whatever is started here opens its sockets in the network namespace of the calling thread.
#![forbid(unsafe_code)]

pub mod attack;
pub mod clients;
pub mod datagrams;
pub mod echoes;
mod error;
pub mod wireguard;
pub mod wrapping;

pub use error::LoadError;
