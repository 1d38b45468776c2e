//! The WireGuard protocol as a pure state machine: [`Interface`], an [`adit_core::Protocol`].
//!
//! It has no I/O, no clock and no source of randomness of its own. It makes the keys of sessions and hands them to the
//! data plane ([`Codec`]); it never sees a packet. Sources: the WireGuard whitepaper (the sections named in each
//! module), and the behaviour of wireguard-go and Linux where the paper is silent.
#![forbid(unsafe_code)]

mod admission;
mod connections;
mod crypto;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod hybrid;
pub mod inner;
mod interface;
mod keys;
mod macs;
mod mark;
mod noise;
mod params;
mod peer;
mod request;
mod shared;
mod tai64n;
pub mod uapi;
pub mod upgrade;
pub mod wire;

pub use interface::Interface;
pub use keys::{KEY_LEN, PresharedKey, PrivateKey, PublicKey};
pub use params::{AllowedIp, Changes, ConfigureError, MAX_PEERS, Params, PeerChange, PostQuantum, Sockets};
pub use request::{Codec, DataEvent, Event, PeerDetail, PeerInfo, PeerStatus, Reply, Request, Status};
pub use tai64n::{Tai64n, WallClock};
