//! The tunnel of a server that a second protocol shares.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_core::{IpNet, Ipv4Net, Ipv6Net};

use crate::{Networks, Reach};

/// The number of the first IPv6 address of a new pool in its network.
const FIRST_V6: u128 = 0x1000;

/// The tunnel of a server, as the file of its protocol has it.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The device, if it has a fixed name.
    pub device: Option<String>,
    /// The server's addresses in the tunnel, with the prefix lengths of its networks.
    pub server: Vec<IpNet>,
    /// The first and the last address of the pool.
    pub pool: (Ipv4Addr, Ipv4Addr),
    /// The last address before the one for broadcast.
    pub last: Ipv4Addr,
    /// The first IPv6 address of the pool, in its network.
    pub pool6: Option<Ipv6Net>,
    /// The networks that clients reach through the tunnel.
    pub routes: Vec<IpNet>,
    /// The networks beyond itself to which the server forwards the clients' packets.
    pub forward: Vec<IpNet>,
    /// The clients' name servers and search domains.
    pub dns: Vec<String>,
}

impl Layout {
    /// The tunnel of a new server without `server.conf`: clients have the addresses of both networks, but for the first ones.
    pub(crate) fn of_new(networks: &Networks, reach: &Reach, device: &str) -> Self {
        let first = u32::from(networks.v4);
        let v4 = Ipv4Net::new_assert(networks.v4, 24);
        let v6 = Ipv6Net::new_assert(networks.v6, 64);
        let forward = reach.networks();
        Layout {
            device: Some(device.to_owned()),
            server: Vec::new(),
            pool: (Ipv4Addr::from(first + 2), Ipv4Addr::from(first + 254)),
            last: Ipv4Addr::from(first + 254),
            pool6: Some(Ipv6Net::new_assert(Ipv6Addr::from(u128::from(networks.v6) + FIRST_V6), 64)),
            routes: IpNet::aggregate(
                &[IpNet::V4(v4), IpNet::V6(v6)].into_iter().chain(forward.clone()).collect(),
            ),
            forward,
            dns: reach.dns.iter().map(ToString::to_string).collect(),
        }
    }

    /// The first free addresses behind the pool. The IPv6 address is as far from the first one of its pool as the IPv4 address, so
    /// that no client of the pool has it. `None`: all are taken.
    pub fn free_addresses(&self, taken: &BTreeSet<IpAddr>) -> Option<Vec<IpAddr>> {
        let is_free = |address: &IpAddr| {
            !taken.contains(address) && !self.server.iter().any(|own| own.addr() == *address)
        };
        let candidates = u32::from(self.pool.1).saturating_add(1)..=u32::from(self.last);
        candidates.map(|number| self.addresses(number)).find(|addresses| addresses.iter().all(is_free))
    }

    fn addresses(&self, number: u32) -> Vec<IpAddr> {
        let slot = u128::from(number - u32::from(self.pool.0));
        let v6 = self.pool6.and_then(|pool| {
            let address = Ipv6Addr::from(u128::from(pool.addr()).saturating_add(slot));
            pool.contains(&address).then_some(IpAddr::V6(address))
        });
        std::iter::once(IpAddr::V4(Ipv4Addr::from(number))).chain(v6).collect()
    }
}
