//! WireGuard: what the host of tunnels asks of a protocol, and the program that `wg-quick` starts.

pub(crate) mod adapter;
pub(crate) mod command;
