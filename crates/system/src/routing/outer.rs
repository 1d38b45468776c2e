//! Routes to the peers' own outer addresses into the tunnel. The tunnel's own datagrams to these addresses carry its mark and go beside.
//!
//! For each family with such an address there is a rule `not fwmark MARK lookup TABLE`, and in the table a route to each address.
//! Where the system filters packets by the way back to their source (`rp_filter`), it must do so loosely (2): the peers' datagrams come
//! by another device than the one to which the route leads.

use std::net::IpAddr;

use adit_core::Report;
use ipnet::IpNet;

use super::failure;
use super::policy::{LAST_PRIORITY, shown};
use crate::netlink::{IpFamily, Netlink, Rule, RuleTarget, TableRoute};

/// The tables of tunnels have numbers from this one on; the device's number is added.
const FIRST_TABLE: u32 = 0x6000_0000;
/// How many tables there may be.
const TABLES: u32 = 0x0100_0000;

/// The routes to the peers of one tunnel, and the rules for them.
#[derive(Debug)]
pub(super) struct Outer {
    device: u32,
    name: String,
    routes: Vec<TableRoute>,
    rules: Vec<Rule>,
}

impl Outer {
    /// The routing of the TUN device of that index and name.
    pub(super) fn new(device: u32, name: &str) -> Self {
        Outer { device, name: name.to_owned(), routes: Vec::new(), rules: Vec::new() }
    }

    /// Whether there is anything of this tunnel.
    pub(super) fn is_active(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Has packets to these addresses go into the tunnel, but for those with that mark, and none to others. Restores what another
    /// program deleted.
    pub(super) fn enforce(
        &mut self,
        netlink: &mut Netlink,
        (peers, mark): (&[IpAddr], u32),
        reports: &mut Vec<Report>,
    ) {
        let (table, device) = (FIRST_TABLE + self.device % TABLES, Some(self.device));
        let route = |peer: &IpAddr| TableRoute {
            table,
            destination: IpNet::from(*peer),
            device,
            gateway: None,
            source: None,
        };
        let wanted: Vec<TableRoute> = peers.iter().map(route).collect();
        let has = |family| peers.iter().any(|peer| IpFamily::of(*peer) == family);
        self.rules.retain(|rule| {
            let stays = has(rule.family);
            if !stays {
                let _ = netlink.remove_rule(rule);
            }
            stays
        });
        for stale in self.routes.iter().filter(|route| !wanted.contains(route)) {
            let _ = netlink.remove_table_route(stale);
        }
        self.routes = wanted;
        for route in &self.routes {
            if let Err(error) = netlink.set_table_route(route) {
                let what = format!("add the route to {} by {}", route.destination, self.name);
                reports.push(failure(&what, &error));
            }
        }
        for family in IpFamily::BOTH.into_iter().filter(|family| has(*family)) {
            let there = self.rules.iter().find(|rule| rule.family == family).copied();
            let rule = there.or_else(|| rule(netlink, family, (mark, table)));
            let Some(rule) = rule else { continue };
            match netlink.add_rule(&rule) {
                Ok(()) if there.is_none() => self.rules.push(rule),
                Ok(()) => {}
                Err(error) => reports.push(failure(&format!("add the rule {}", shown(&rule)), &error)),
            }
        }
    }

    /// Removes everything. The rules come first, so that nothing goes by half of it.
    pub(super) fn undo(&mut self, netlink: &mut Netlink) {
        for rule in std::mem::take(&mut self.rules) {
            let _ = netlink.remove_rule(&rule);
        }
        for route in std::mem::take(&mut self.routes) {
            let _ = netlink.remove_table_route(&route);
        }
    }
}

/// The rule of a family at the last priority that is free before the system's. `None`: the kernel does not have the family.
fn rule(netlink: &mut Netlink, family: IpFamily, (mark, table): (u32, u32)) -> Option<Rule> {
    let taken: Vec<u32> = netlink.rules(family).ok()?.iter().map(|rule| rule.priority).collect();
    let priority = (1..LAST_PRIORITY).rev().find(|priority| !taken.contains(priority))?;
    Some(Rule { family, priority, except_mark: Some(mark), target: RuleTarget::Table(table) })
}

/// Removes the rules of tunnels whose process was killed. Their routes went with the device.
pub(super) fn recover(netlink: &mut Netlink) {
    let Ok(links) = netlink.links() else { return };
    let is_there = |table: u32| links.iter().any(|(index, _)| FIRST_TABLE + index % TABLES == table);
    for family in IpFamily::BOTH {
        let listed = netlink.rules(family).unwrap_or_default();
        for rule in listed.into_iter().filter_map(|listed| listed.own) {
            let table = match rule.target {
                RuleTarget::Table(table) if (FIRST_TABLE..FIRST_TABLE + TABLES).contains(&table) => table,
                _ => continue,
            };
            if !is_there(table) {
                let _ = netlink.remove_rule(&rule);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use adit_core::TunnelSettings;

    use super::super::Routing;
    use super::super::tests::world;
    use super::*;
    use crate::mark::MARK;
    use crate::testing::{Device, in_fresh_network};

    const PEERS: [&str; 2] = ["192.168.5.77", "2001:db8:5::77"];

    fn settings(peers: &[&str]) -> TunnelSettings {
        TunnelSettings {
            mtu: 1400,
            peers: peers.iter().map(|peer| peer.parse().unwrap()).collect(),
            ..TunnelSettings::default()
        }
    }

    fn rules() -> Vec<String> {
        let mut netlink = Netlink::open().unwrap();
        let all = IpFamily::BOTH.map(|family| netlink.rules(family).unwrap());
        all.into_iter().flatten().filter_map(|rule| rule.own).map(|rule| shown(&rule)).collect()
    }

    fn devices(peer: &str) -> [u32; 2] {
        let (mut netlink, peer): (_, IpAddr) = (Netlink::open().unwrap(), peer.parse().unwrap());
        [netlink.next_hop(peer).unwrap().device, netlink.next_hop_of_marked(peer, MARK).unwrap().device]
    }

    #[test]
    fn packets_to_a_peer_go_into_the_tunnel_and_its_own_datagrams_beside_it() {
        in_fresh_network(|| {
            let (_world, tun) = (world(), Device::new("tun%d"));
            let outside = devices(PEERS[0])[0];
            let mut routing = Routing::new(tun.name()).unwrap();
            let inside = routing.device();
            assert_eq!((routing.apply(&settings(&PEERS[..1])), routing.lacks()), (Vec::new(), None));
            assert_eq!(devices(PEERS[0]), [inside, outside]);
            assert_eq!(devices("192.168.5.78"), [outside; 2], "another address of the network");
            assert_eq!(rules().len(), 1);
            assert!(routing.depends_on_network());
            assert_eq!(routing.apply(&settings(&PEERS)), []);
            assert_eq!(rules().len(), 2, "both families");
            // What another program deletes is put back.
            let mut netlink = Netlink::open().unwrap();
            for rule in netlink.rules(IpFamily::V4).unwrap().into_iter().filter_map(|rule| rule.own) {
                netlink.remove_rule(&rule).unwrap();
            }
            assert_eq!(devices(PEERS[0]), [outside; 2]);
            routing.follow();
            assert_eq!(devices(PEERS[0]), [inside, outside]);
            assert_eq!(routing.apply(&settings(&[])), []);
            assert_eq!((devices(PEERS[0]), rules()), ([outside; 2], Vec::new()));
            routing.apply(&settings(&PEERS));
            routing.undo();
            assert_eq!((devices(PEERS[0]), rules()), ([outside; 2], Vec::new()));
        });
    }

    #[test]
    fn rules_of_a_killed_tunnel_are_removed_by_the_next_one() {
        in_fresh_network(|| {
            let (_world, tun) = (world(), Device::new("tun%d"));
            let mut routing = Routing::new(tun.name()).unwrap();
            routing.apply(&settings(&PEERS));
            std::mem::forget(routing);
            let other = Device::new("tun%d");
            drop(Routing::new(other.name()).unwrap());
            assert_eq!(rules().len(), 2, "the device is there");
            drop(tun);
            drop(Routing::new(other.name()).unwrap());
            assert_eq!(rules(), Vec::<String>::new());
        });
    }
}
