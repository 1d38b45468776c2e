//! The adapter of IKEv2/IPsec: it runs the connections of a file of swanctl (swanctl.conf) as one tunnel, with one device, UDP ports
//! 500 and 4500, and routes to the networks behind the peers.
#![forbid(unsafe_code)]

mod adapter;
mod addresses;
mod adopt;
mod block_order;
mod blocked;
mod codec;
mod configuration;
mod content;
mod devices;
mod driver;
mod facts;
mod files;
mod forwarding;
mod loaded;
mod lookups;
mod names;
mod observer;
mod orders;
mod reload;
mod selectors;
mod settings;
mod setup;
mod status_rows;
#[cfg(test)]
mod testing;
mod translate;
mod tunnel;
mod updown;
mod vici;

pub use self::adapter::Ipsec;

/// The name of the protocol in the command line of a helper.
const NAME: &str = "ipsec";
