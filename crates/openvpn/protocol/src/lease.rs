//! The addresses of a server's client: its leased addresses, and the networks behind it.

use std::net::IpAddr;

use adit_core::{IpNet, Lease};

/// The addresses and networks of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientLease {
    /// Its own addresses, of the pool or by its settings.
    pub(crate) addresses: Lease,
    /// Networks behind it (`iroute`).
    pub(crate) routes: Vec<IpNet>,
    /// The addresses and networks among these that `learn-address` refused.
    pub(crate) refused: Vec<IpNet>,
}

impl ClientLease {
    /// A client with these addresses and networks, all of which it may use.
    pub(crate) fn new(addresses: Lease, routes: Vec<IpNet>) -> Self {
        ClientLease { addresses, routes, refused: Vec::new() }
    }

    /// Its own inner addresses.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        self.addresses.addresses()
    }

    /// All that is reached by this client.
    pub(crate) fn networks(&self) -> Vec<IpNet> {
        let own = self.addresses().into_iter().map(IpNet::from);
        own.chain(self.routes.iter().copied()).filter(|network| !self.refused.contains(network)).collect()
    }
}

#[cfg(test)]
mod tests {
    use adit_core::{AddressPool, FixedAddresses, LeaseOwner, PeerId, PoolRanges};

    use super::*;

    #[test]
    fn networks_are_addresses_and_routes_without_what_was_refused() {
        let ranges =
            PoolRanges { v4: Some(("10.8.0.2".parse().unwrap(), "10.8.0.9".parse().unwrap())), v6: None };
        let mut pool = AddressPool::new(ranges, &[]);
        let owner = LeaseOwner { endpoint: 0, peer: PeerId(1) };
        let fixed = FixedAddresses { v4: None, v6: Some("fd01::1/64".parse().unwrap()) };
        let addresses = pool.lease(owner, Some("anna"), fixed).unwrap();
        let mut lease = ClientLease::new(addresses, vec!["10.50.0.0/16".parse().unwrap()]);
        let networks =
            |lease: &ClientLease| lease.networks().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(networks(&lease), ["10.8.0.2/32", "fd01::1/128", "10.50.0.0/16"]);
        lease.refused.push("10.8.0.2/32".parse().unwrap());
        assert_eq!(networks(&lease), ["fd01::1/128", "10.50.0.0/16"]);
    }
}
