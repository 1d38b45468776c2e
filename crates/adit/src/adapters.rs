//! The protocols of this program: one line each. It is the only file of the program that names them.

#[cfg(test)]
mod tests;

use adit_host::adapter::Adapters;

/// The adapters, in the order in which they are asked whether a file is theirs. OpenVPN's files have no mark, so that it is the last.
pub(crate) const ALL: &Adapters = &[
    &adit_wireguard_adapter::WireGuard,
    #[cfg(feature = "toy")]
    &adit_toy_adapter::Toy,
    &adit_openvpn_adapter::OpenVpn,
];

/// The texts of the program's help that name protocols.
pub(crate) mod help {
    /// The program.
    pub(crate) const ABOUT: &str = "A VPN for Linux that speaks OpenVPN and WireGuard";
    /// `adit up`.
    pub(crate) const UP: &str =
        "Run the tunnels of OpenVPN configurations and of WireGuard files, in the foreground";
    /// The files of `adit up`.
    pub(crate) const UP_FILES: &str = "The configurations: .ovpn or .conf files. Each is a tunnel of its own: one that fails or ends \
                                       leaves the others as they are. OpenVPN servers with the same `dev` are endpoints of one tunnel";
    /// The kill switch of `adit up`.
    pub(crate) const KILL_SWITCH: &str = "Let nothing leave but the tunnels' packets and their own datagrams, from before the first connection until `adit \
         kill-switch off`, whatever becomes of adit. With `lan`, local networks may be reached (clients and WireGuard files; needs nft)";
    /// `adit check`.
    pub(crate) const CHECK: &str =
        "Say what adit makes of OpenVPN configurations, and of WireGuard's files, without running them";
    /// `adit check`, in full.
    pub(crate) const CHECK_LONG: &str = "Say what adit makes of OpenVPN configurations, and of WireGuard's files, without running them\n\n\
         Refuses each configuration that `adit up` would refuse before its first datagram, with the same message. Names the points that \
         show at the start alone.";
}
