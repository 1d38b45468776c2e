//! `adit-wireguard`, configured by Debian's `wg`, against itself, wireguard-go, boringtun, gotatun and, in a guest, Linux.

mod bed;
mod beside_openvpn;
mod configuration;
mod confined;
mod contract;
mod endings;
mod files;
mod first_answers;
mod kernel;
mod kernel_rekeys;
mod leaks;
mod linux;
mod load;
mod many_clients;
mod names;
mod nat;
mod others;
mod over_tcp;
mod peer_access;
mod post_quantum;
mod provisioned;
mod running_files;
mod three_protocols;
mod traffic;
mod wg_quick;
