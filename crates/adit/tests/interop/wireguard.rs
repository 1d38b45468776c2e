//! `adit-wireguard`, configured by Debian's `wg`, against itself and against Debian's wireguard-go.

mod bed;
mod beside_openvpn;
mod configuration;
mod contract;
mod endings;
mod files;
mod traffic;
mod wg_quick;
