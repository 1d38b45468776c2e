//! Subcommands beside the plans: the demo, and measurements of adit that need more than two ends.

pub(crate) mod attackers;
pub(crate) mod demo;
pub(crate) mod endpoints;
mod identities;
pub(crate) mod ike_handshakes;
mod load;
pub(crate) mod measure;
pub(crate) mod narrow_path;
mod output;
pub(crate) mod reload;
pub(crate) mod shared_port;
pub(crate) mod tunnels;
pub(crate) mod wireguard;
