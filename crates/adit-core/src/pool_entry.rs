use std::net::{Ipv4Addr, Ipv6Addr};

/// Addresses that a name was given from the pool, for its next connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolEntry {
    /// The peer's name.
    pub name: String,
    /// Its IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// Its IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
}
