//! WireGuard's adapter: [`wg_quick`] runs the tunnels of wg-quick's files, [`interface`] runs an interface on its device and makes it
//! known to `wg`.

use adit_host::helper::HelperOf;

pub(crate) mod configuration;
pub(crate) mod facts;
pub(crate) mod file;
pub(crate) mod forwarding;
pub(crate) mod interface;
pub(crate) mod network;
pub(crate) mod prepare;
pub(crate) mod saved;
pub(crate) mod status_rows;
pub(crate) mod streams;
pub(crate) mod wg_quick;

/// The name of the protocol in the command line of a helper.
pub(crate) const NAME: &str = "wireguard";

/// The owner of an interface's helper.
pub(crate) fn helper_of() -> HelperOf {
    HelperOf { protocol: Some(NAME), options: None }
}
