use std::net::IpAddr;

use adit_core::IpNet;

use super::Places;

/// A subsection of `pools`: the addresses and settings that peers get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its lines.
    pub places: Places,
    /// `addrs`.
    pub addrs: PoolAddresses,
    /// `dns`: name servers.
    pub dns: Vec<IpAddr>,
    /// `nbns`: NetBIOS name servers.
    pub nbns: Vec<IpAddr>,
    /// `dhcp`: DHCP servers.
    pub dhcp: Vec<IpAddr>,
    /// `subnet`: the networks behind this end (INTERNAL_IP4_SUBNET, INTERNAL_IP6_SUBNET).
    pub subnet: Vec<IpNet>,
    /// The keys that are numbers: further attributes, in the order of the file.
    pub attributes: Vec<Attribute>,
}

/// `addrs` of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolAddresses {
    /// A network; its first address may be given out as written: `10.0.0.5/24` begins with 10.0.0.5.
    Network(IpNet),
    /// From the first to the last, both of one family.
    Range(IpAddr, IpAddr),
}

/// An attribute of configuration payloads (RFC 7296 section 3.15.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its number, from 1 to 32767.
    pub kind: u16,
    /// Its value.
    pub value: Vec<u8>,
}
