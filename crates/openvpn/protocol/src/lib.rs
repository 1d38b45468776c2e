//! The OpenVPN protocol as pure state machines.
//!
//! | what | modules |
//! |---|---|
//! | the machines | `client`, `server` (authentication, pre-authentication, addresses), `static_tunnel` (no control channel) |
//! | the control channel with one peer | `control_channel`, of key exchanges (`key_state`) over `tls`, `key_method`, `reliable`, `wire` and `wrap` |
//! | sessions, the keys of the data channel | `negotiate` chooses the cipher, `data_keys` hands a `codec` with the keys to the data plane, `keys` derives them, `usage` counts their use |
//! | what both ends say to each other | `client_hello`, `control_message`, `pushed`, `dns`, `peer_info`, `occ`, `data_message` |
//! | who may connect | `credentials`, `access`, `auth_token` |
//! | how long a peer stays | `liveness`, `lifetime`, `lease` |
//! | when a remote is tried again | `retry` |
//! | what a peer can cause, and its limits | `outbox`, `log_rate_limit`, `change_rate` |
//! | what the program says and is asked | `params`, `request` |
//!
//! `docs/build/OPENVPN.md` shows how they work together.
#![forbid(unsafe_code)]

pub mod access;
mod auth_token;
mod change_rate;
mod client;
mod client_hello;
pub mod codec;
mod control_channel;
pub mod control_message;
pub mod credentials;
mod data_keys;
pub mod data_message;
pub mod dns;
mod environment;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod key_method;
mod key_state;
pub mod keys;
mod lease;
mod lifetime;
mod liveness;
mod log_rate_limit;
mod negotiate;
mod notices;
pub mod occ;
mod outbox;
pub mod params;
pub mod peer_info;
mod pushed;
pub mod reliable;
pub mod request;
mod retry;
mod server;
pub mod static_key;
mod static_tunnel;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tls;
mod tunnel_facts;
mod usage;
pub mod wire;
pub mod wrap;

/// The requirements of [`credentials::client_tls`] and [`credentials::server_tls`] on the peer's certificate.
pub use adit_pki::PeerRequirements;
pub use client::Client;
pub use server::{PushUpdateError, Server};
pub use static_tunnel::StaticTunnel;
pub use tls::TlsConfig;
pub use usage::UseLimits;
pub use wire::TlsRole;
