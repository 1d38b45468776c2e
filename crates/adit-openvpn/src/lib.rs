//! The OpenVPN protocol as pure state machines.
#![forbid(unsafe_code)]

pub mod access;
mod auth_token;
mod authorities;
mod ca_fault;
mod canonical_name;
mod certificate;
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
mod lifetime;
mod liveness;
pub mod locked;
mod negotiate;
mod notices;
pub mod occ;
pub mod params;
pub mod peer_info;
mod pool;
mod pushed;
pub mod reliable;
pub mod request;
pub mod revocation;
mod server;
mod session;
mod signed_list;
pub mod static_key;
mod static_tunnel;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;
pub mod tls;
mod usage;
mod verify;
mod verify_error;
pub mod wire;
pub mod wrap;

// So that what the integration tests share can be used by unit tests, too.
#[cfg(test)]
extern crate self as adit_openvpn;

pub use adit_core::NameField;
pub use certificate::NameFields;
pub use client::Client;
pub use server::Server;
pub use static_tunnel::StaticTunnel;
pub use tls::TlsConfig;
pub use usage::UseLimits;
pub use verify::{CertificateDemand, NameCheck, PeerRequirements, Purpose};
pub use wire::Role;
