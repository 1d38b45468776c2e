//! WireGuard's adapter ([`WireGuard`]): `wg_quick` runs the tunnels of wg-quick's files, `interface` runs an interface on its device and
//! makes it known to `wg`, `command` is the program that `wg-quick` starts.
#![forbid(unsafe_code)]

use adit_host::helper::HelperOf;

mod adapter;
mod bench;
mod block;
mod command;
mod configuration;
mod facts;
mod file;
mod forwarding;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod interface;
mod network;
mod prepare;
mod running;
mod saved;
mod setup;
mod status_rows;
mod streams;
mod wg_quick;

pub use crate::adapter::WireGuard;

/// The name of the protocol for people.
const TITLE: &str = "WireGuard";
/// The name of the protocol in the command line of a helper.
const NAME: &str = "wireguard";

/// The owner of an interface's helper.
fn helper_of() -> HelperOf {
    HelperOf { protocol: Some(NAME), options: None }
}
