//! WireGuard's adapter: [`wg_quick`] runs the tunnels of wg-quick's files, [`interface`] runs an interface on its device and makes it
//! known to `wg`.

pub(crate) mod configuration;
pub(crate) mod forwarding;
pub(crate) mod interface;
pub(crate) mod prepare;
pub(crate) mod saved;
pub(crate) mod wg_quick;
