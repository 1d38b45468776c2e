//! Destinations that bypass a tunnel that takes all traffic, and their routes.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::netlink::{ListedRoute, MAIN, TableRoute};

/// The routes that the system has beside the tunnel.
pub(super) struct SystemRoutes<'a> {
    /// The routes of the main table that do not lead into the tunnel.
    main: Vec<&'a ListedRoute>,
    default: Option<&'a TableRoute>,
    point_to_point: Vec<u32>,
}

impl<'a> SystemRoutes<'a> {
    pub(super) fn new(listed: &'a [ListedRoute], tunnel: u32, links: &[(u32, bool)]) -> Self {
        let main: Vec<&ListedRoute> = listed
            .iter()
            .filter(|listed| {
                let TableRoute { table, device, .. } = listed.route;
                table == MAIN && device.is_some_and(|device| device != tunnel)
            })
            .collect();
        let default = main
            .iter()
            .filter(|listed| listed.route.destination.prefix_len() == 0)
            .min_by_key(|listed| listed.metric)
            .map(|listed| &listed.route);
        let point_to_point = links.iter().filter(|(_, point)| *point).map(|(index, _)| *index).collect();
        SystemRoutes { main, default, point_to_point }
    }

    /// `net_gateway`.
    pub(super) fn by_default(&self, destination: IpNet) -> Option<TableRoute> {
        let default = self.default?;
        Some(TableRoute { destination, source: None, ..default.clone() })
    }

    /// By the way that the main table has.
    pub(super) fn as_before(&self, address: IpAddr) -> Option<TableRoute> {
        let fits = self.main.iter().filter(|listed| listed.route.destination.contains(&address));
        let best = fits
            .max_by_key(|listed| (listed.route.destination.prefix_len(), std::cmp::Reverse(listed.metric)))?;
        Some(TableRoute { destination: IpNet::from(address), source: None, ..best.route.clone() })
    }

    /// By the device that the gateway is reached on.
    pub(super) fn by_gateway(&self, destination: IpNet, gateway: IpAddr) -> Option<TableRoute> {
        let on_link = self
            .main
            .iter()
            .map(|listed| &listed.route)
            .filter(|route| route.gateway.is_none() && route.destination.contains(&gateway))
            .max_by_key(|route| route.destination.prefix_len())?;
        Some(TableRoute { destination, gateway: Some(gateway), source: None, ..on_link.clone() })
    }

    /// `block-local`: of the local network the router alone.
    pub(super) fn gateway(&self) -> Option<TableRoute> {
        let default = self.default?;
        let gateway = default.gateway.filter(|gateway| is_private(*gateway))?;
        Some(TableRoute { destination: IpNet::from(gateway), gateway: None, source: None, ..default.clone() })
    }

    /// The networks that are reached beside the tunnel although the settings do not say so: those that this machine has an
    /// address in, and those behind other tunnels.
    ///
    /// The operator of the local network chooses its addresses. The operator gets no more than those that are for local
    /// networks: a "local" network of public addresses would draw the traffic to the hosts that have them (TunnelCrack,
    /// "LocalNet").
    pub(super) fn local_networks(&self) -> impl Iterator<Item = TableRoute> + '_ {
        let uplink = self.default.and_then(|default| default.device);
        let is_other_tunnel = move |device: &Option<u32>| {
            uplink != *device && device.is_some_and(|device| self.point_to_point.contains(&device))
        };
        let stays = move |listed: &&&ListedRoute| {
            let TableRoute { destination, device, gateway, .. } = &listed.route;
            let local = listed.connected && is_private_network(destination);
            gateway.is_none() && destination.prefix_len() > 0 && (local || is_other_tunnel(device))
        };
        self.main.iter().filter(stays).map(|listed| listed.route.clone())
    }
}

/// Networks whose addresses mean something within a site only: RFC 1918, 3927, 6598, 4193, 4291 §2.5.6.
fn is_private_network(network: &IpNet) -> bool {
    let site: [IpNet; 7] = [
        IpNet::V4(Ipv4Net::new_assert([10, 0, 0, 0].into(), 8)),
        IpNet::V4(Ipv4Net::new_assert([172, 16, 0, 0].into(), 12)),
        IpNet::V4(Ipv4Net::new_assert([192, 168, 0, 0].into(), 16)),
        IpNet::V4(Ipv4Net::new_assert([169, 254, 0, 0].into(), 16)),
        IpNet::V4(Ipv4Net::new_assert([100, 64, 0, 0].into(), 10)),
        IpNet::V6(Ipv6Net::new_assert([0xfc00, 0, 0, 0, 0, 0, 0, 0].into(), 7)),
        IpNet::V6(Ipv6Net::new_assert([0xfe80, 0, 0, 0, 0, 0, 0, 0].into(), 10)),
    ];
    site.iter().any(|site| site.contains(network))
}

fn is_private(address: IpAddr) -> bool {
    is_private_network(&IpNet::from(address))
}
