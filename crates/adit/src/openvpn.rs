//! OpenVPN: what the host of tunnels asks of a protocol, and the command line of OpenVPN 2.6.

pub(crate) mod adapter;
pub(crate) mod command;
