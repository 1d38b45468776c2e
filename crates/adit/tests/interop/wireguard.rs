//! `adit-wireguard`, configured by Debian's `wg`, against itself and against Debian's wireguard-go.

mod bed;
mod configuration;
mod contract;
mod endings;
mod provisioned;
mod traffic;
mod wg_quick;
