//! The OpenVPN protocol as pure state machines.
#![forbid(unsafe_code)]

pub mod access;
mod auth_token;
mod client;
mod client_hello;
pub mod control_message;
pub mod credentials;
mod data_keys;
pub mod data_message;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod key_method;
mod key_state;
pub mod keys;
mod lease;
mod lifetime;
mod liveness;
mod negotiate;
mod notices;
pub mod occ;
pub mod params;
pub mod peer_info;
mod pushed;
pub mod reliable;
pub mod request;
mod server;
mod session;
pub mod static_key;
mod static_tunnel;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;
pub mod tls;
mod usage;
pub mod wire;
pub mod wrap;

// So that what the integration tests share can be used by unit tests, too.
#[cfg(test)]
extern crate self as adit_openvpn;

/// What [`credentials::client_tls`] and [`credentials::server_tls`] ask of the peer's certificate.
pub use adit_pki::PeerRequirements;
pub use client::Client;
pub use server::Server;
pub use static_tunnel::StaticTunnel;
pub use tls::TlsConfig;
pub use usage::UseLimits;
pub use wire::Role;
