//! The code that the load generators of all protocols share: a load in a thread of its own with its counters, and the
//! output of their programs.
//!
//! `adit-lab` starts the programs (`adit-load-ike`, `adit-load-openvpn`, `adit-load-wireguard`) in a network namespace, as it starts
//! every peer, and so needs none of adit's crates itself. adit's interoperability tests use them as libraries. Nothing of it is
//! shipped.
//!
//! Whatever is started here opens its sockets in the network namespace of the calling thread.
#![forbid(unsafe_code)]

mod error;
mod load;
pub mod output;
mod system;

pub use error::LoadError;
pub use load::{Counters, Load};
pub use system::{allow_many_sockets, seed};

/// How many datagrams a kind has.
pub const SERIES: u32 = 256;

/// Datagrams of one kind, which attackers forge or replay.
pub struct Kind {
    /// Their name, in the plural.
    pub name: &'static str,
    /// Different ones, to be sent in turns.
    pub datagrams: Vec<Vec<u8>>,
}
