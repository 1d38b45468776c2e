//! The inner addresses of a connection, which configuration payloads carry (RFC 7296 section 3.15).

use std::net::IpAddr;

use adit_core::{IpNet, PoolRanges};

/// The inner addresses that a connection asks for, or gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Inner {
    /// None: each end has the addresses of its own networks.
    #[default]
    None,
    /// This end asks for these addresses, at most one of each family. An unspecified address asks for any of its family.
    Ask(Vec<IpAddr>),
    /// This end gives each peer an address of each family that the peer asks for. Each identity is a peer of its own.
    Give(Box<Pool>),
}

/// The addresses and the settings that peers get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// The addresses. Connections with equal ranges give of one pool.
    pub ranges: PoolRanges,
    /// Name servers.
    pub dns: Vec<IpAddr>,
    /// Networks behind this end.
    pub subnets: Vec<IpNet>,
    /// Further attributes: the number, below 2^15, and the value.
    pub attributes: Vec<(u16, Vec<u8>)>,
}

impl Inner {
    /// Whether this end asks for addresses.
    pub(crate) const fn asks(&self) -> bool {
        matches!(self, Inner::Ask(_))
    }

    /// Whether this end gives addresses.
    pub(crate) const fn gives(&self) -> bool {
        matches!(self, Inner::Give(_))
    }
}
