//! adit against Debian's OpenVPN 2.6 and wireguard-go, both ways round, and against itself, in network namespaces;
//! Debian unstable's OpenVPN, in a root of its own, and in guests Linux's WireGuard and OpenVPN's data channel in Linux.
//!
//! Each folder holds the tests of one subject. They need root, `ip`, `openvpn`, `openssl`, and those of WireGuard `wg`,
//! `wireguard-go`, `nft` and the programs that `scripts/install-deps` builds. Without them the tests print that they
//! were skipped; with `CI=true` they fail instead.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod admission;
mod appliance;
mod authentication;
mod certificates;
mod command_line;
mod connections;
mod denial_of_service;
mod handshake;
mod ipsec;
mod kernel_peers;
mod management;
mod peers;
mod privileges;
mod profiles;
mod routing;
mod support;
mod tunnel_scripts;
mod wireguard;

use support::{bed, options, relay};
