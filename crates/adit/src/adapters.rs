//! The protocols of this program: one line each.

#[cfg(test)]
mod beside;
#[cfg(test)]
mod tests;

use crate::openvpn::adapter::file::OpenVpn;
use crate::wireguard::adapter::file::WireGuard;
use adit_host::adapter::Adapters;

/// The adapters, in the order in which they are asked whether a file is theirs. OpenVPN's files have no mark, so that it is the last.
pub(crate) const ALL: &Adapters = &[
    &WireGuard,
    #[cfg(feature = "toy")]
    &adit_toy_adapter::Toy,
    &OpenVpn,
];
