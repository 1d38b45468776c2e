//! How large datagrams may be on their way, as far as the kernel knows.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteType,
};

use super::{Netlink, family, hop, metric};

impl Netlink {
    /// The least MTU in bytes on the ways to these addresses: that of the route, or else of its device. Addresses that
    /// cannot be reached do not count. If none counts, that of the system's default route (IPv4's before IPv6's); `None`
    /// if it has none.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn path_mtu(&mut self, addresses: &[IpAddr]) -> io::Result<Option<u32>> {
        let mut least: Option<u32> = None;
        for address in addresses {
            let route = match self.route_to(*address, None) {
                Ok(route) => route,
                Err(error) if is_no_way(&error) => continue,
                Err(error) => return Err(error),
            };
            let mtu = route.map(|route| self.route_mtu(&route)).transpose()?.flatten();
            least = least.into_iter().chain(mtu).min();
        }
        if least.is_some() {
            return Ok(least);
        }
        for like in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            if let Some(route) = self.default_route_message(like)? {
                return self.route_mtu(&route);
            }
        }
        Ok(None)
    }

    /// The MTU in bytes of the path to an address, for datagrams with that firewall mark, where ICMP or a route said it.
    pub fn known_path_mtu(&mut self, address: IpAddr, mark: u32) -> io::Result<Option<u32>> {
        let route = self.route_to(address, (mark != 0).then_some(RouteAttribute::Mark(mark)));
        Ok(route?.as_ref().and_then(own_mtu))
    }

    /// The default route that counts, of the family of `like`.
    fn default_route_message(&mut self, like: IpAddr) -> io::Result<Option<RouteMessage>> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(like);
        let answers = self.request(RouteNetlinkMessage::GetRoute(message), NLM_F_DUMP)?;
        let is_default = |route: &RouteMessage| {
            route.header.address_family == family(like)
                && route.header.destination_prefix_length == 0
                && route.header.table == RouteHeader::RT_TABLE_MAIN
                && route.header.kind == RouteType::Unicast
        };
        Ok(answers.into_iter().filter_map(into_route).filter(is_default).min_by_key(metric))
    }

    pub(super) fn route_to(
        &mut self,
        address: IpAddr,
        more: Option<RouteAttribute>,
    ) -> io::Result<Option<RouteMessage>> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(address);
        message.header.destination_prefix_length = if address.is_ipv4() { 32 } else { 128 };
        message.attributes.push(RouteAttribute::Destination(RouteAddress::from(address)));
        message.attributes.extend(more);
        let answers = self.request(RouteNetlinkMessage::GetRoute(message), 0)?;
        Ok(answers.into_iter().find_map(into_route))
    }

    fn route_mtu(&mut self, route: &RouteMessage) -> io::Result<Option<u32>> {
        match (own_mtu(route), hop(route)) {
            (Some(mtu), _) => Ok(Some(mtu)),
            (None, (_, Some(device))) => self.device_mtu(device),
            (None, (_, None)) => Ok(None),
        }
    }

    fn device_mtu(&mut self, device: u32) -> io::Result<Option<u32>> {
        let mut message = LinkMessage::default();
        message.header.index = device;
        let answers = self.request(RouteNetlinkMessage::GetLink(message), 0)?;
        Ok(answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) => {
                link.attributes.iter().find_map(|attribute| match attribute {
                    LinkAttribute::Mtu(mtu) => Some(*mtu),
                    _ => None,
                })
            }
            _ => None,
        }))
    }
}

/// The MTU that a route has of its own.
fn own_mtu(route: &RouteMessage) -> Option<u32> {
    route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Metrics(metrics) => metrics.iter().find_map(|metric| match metric {
            RouteMetric::Mtu(mtu) => Some(*mtu),
            _ => None,
        }),
        _ => None,
    })
}

fn into_route(answer: RouteNetlinkMessage) -> Option<RouteMessage> {
    match answer {
        RouteNetlinkMessage::NewRoute(route) => Some(route),
        _ => None,
    }
}

fn is_no_way(error: &io::Error) -> bool {
    let codes = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EAFNOSUPPORT, libc::EACCES, libc::EINVAL];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::NLM_F_CREATE;

    use super::super::{KernelRoute, route_message};
    use super::*;
    use crate::routing::tests::world;
    use crate::testing::{Device, in_fresh_network};

    #[test]
    fn the_narrowest_way_counts() {
        in_fresh_network(|| {
            let mut netlink = Netlink::open().unwrap();
            let [far, narrow, narrower] =
                ["8.8.8.8", "203.0.113.1", "198.51.100.1"].map(|it| it.parse().unwrap());
            assert_eq!(netlink.path_mtu(&[far]).unwrap(), None, "there is no way at all");
            let _world = world();
            let other = Device::new("tun%d");
            let outside = netlink.link("world").unwrap().index;
            let inside = netlink.link(other.name()).unwrap().index;
            netlink.set_mtu(outside, 1480).unwrap();
            netlink.set_mtu(inside, 1400).unwrap();
            netlink.set_up(inside, true).unwrap();
            let route = |destination: &str, device| {
                let destination = destination.parse().unwrap();
                KernelRoute { destination, gateway: None, device: Some(device), metric: None }
            };
            netlink.add_route(&route("203.0.113.0/24", inside)).unwrap();
            let mut message = route_message(&route("198.51.100.0/24", outside));
            message.attributes.push(RouteAttribute::Metrics(vec![RouteMetric::Mtu(1300)]));
            netlink.request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE).unwrap();
            for (addresses, expected) in [
                (&[][..], 1480),
                (&[far], 1480),
                (&[narrow], 1400),
                (&[far, narrow], 1400),
                (&[narrow, narrower, far], 1300),
            ] {
                assert_eq!(netlink.path_mtu(addresses).unwrap(), Some(expected), "{addresses:?}");
            }
        });
    }
}
