//! The machines in memory, without I/O: one program, as each links all libraries.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod access;
mod attempts;
mod back_ends;
mod certificates;
mod chains;
mod challenge;
mod client_auth;
mod endpoints;
mod external_key;
mod handshake;
mod learn_address;
mod lifetime;
mod limits;
mod malicious_peers;
mod migrate;
mod not_up;
mod override_username;
mod payloads;
mod per_client;
mod point_to_point;
mod pre_auth;
mod proxies;
mod push_update;
mod renegotiation;
mod revocation;
mod scripts;
mod security;
mod security_access;
mod servers;
mod static_tunnel;
mod tls_crypt_v2_verify;
