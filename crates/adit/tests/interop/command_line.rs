//! `adit` as its users run it: errors, deployments of OpenVPN, several tunnels and endpoints in one process, a file that is read again.

pub(crate) mod adopt;
pub(crate) mod deployments;
pub(crate) mod endpoints;
pub(crate) mod errors;
pub(crate) mod faults;
pub(crate) mod lost_peers;
pub(crate) mod option_lists;
pub(crate) mod personality;
pub(crate) mod reload;
pub(crate) mod shared;
pub(crate) mod tunnels;
pub(crate) mod units;
