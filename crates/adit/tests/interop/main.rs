//! adit against Debian's OpenVPN 2.6, both ways round, and against itself, in network namespaces.
//!
//! Needs root, `ip`, `openvpn` and `openssl`. Without them the tests say that they were skipped;
//! with `CI=true` they fail instead.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bed;
mod breaks;
mod certificates;
mod chains;
mod challenges;
mod ciphers;
mod client_auth;
mod clients;
mod confinement;
mod demo;
mod dns;
mod errors;
mod extended_master_secret;
mod floods;
mod half_trusted;
mod leaks;
mod lifetime;
mod limits;
mod logs;
mod management;
mod matrix;
mod moving;
mod options;
mod passwords;
mod peers;
mod per_client;
mod point;
mod privileges;
mod relay;
mod revocation;
mod routes;
mod rows;
mod scripts;
mod static_keys;
mod status;
mod status_file;
mod tunnels;
mod unauthenticated;
mod variants;
mod wild;
mod workers;
