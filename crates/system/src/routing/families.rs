//! Address families that the system lacks: settings of them are passed over, so that the tunnel has the other family.

use std::path::Path;

use adit_core::{Report, RouteTable, RouteVia, Severity, TunnelSettings};
use ipnet::IpNet;

use super::Routing;
use crate::netlink::{IpFamily, ListedRoute, MAIN};

/// The directory of the system's parameters of IPv6, with a directory for each device.
const IPV6: &str = "/proc/sys/net/ipv6/conf";

/// Whether that device can have no IPv6: it is switched off there (net.ipv6.conf.DEVICE.disable_ipv6), or the kernel has none.
fn lacks_ipv6(device: &str) -> bool {
    match std::fs::read_to_string(Path::new(IPV6).join(device).join("disable_ipv6")) {
        Ok(text) => !matches!(text.trim(), "0" | ""),
        Err(_) => !Path::new(IPV6).exists() && Path::new("/proc/sys/net/ipv4").exists(),
    }
}

impl Routing {
    /// The part of `settings` that the system can have, and a warning about the rest, once while the tunnel is up.
    pub(super) fn possible(&mut self, settings: &TunnelSettings) -> (TunnelSettings, Option<Report>) {
        let mut possible = settings.clone();
        if !lacks_ipv6(&self.name) || self.leaves_device {
            return (possible, None);
        }
        let is_ipv6 = |net: &IpNet| net.addr().is_ipv6();
        let mut passed_over: Vec<IpNet> = settings.addresses.iter().copied().filter(is_ipv6).collect();
        possible.addresses.retain(|address| !is_ipv6(address));
        // By the rules for unmarked packets nothing but this route keeps IPv6 from leaving by another device.
        let is_needed = matches!(settings.table, RouteTable::ByMark(_)) && self.has_ipv6_beside();
        possible.routes.retain(|route| {
            let is_default = route.destination.prefix_len() == 0;
            let stays = !is_ipv6(&route.destination)
                || route.via == RouteVia::SystemGateway
                || (is_default && is_needed);
            if !stays {
                passed_over.push(route.destination);
            }
            stays
        });
        if settings.redirect.is_some_and(|redirect| redirect.ipv6) {
            // The rules stay: where another device has IPv6, nothing leaves by it.
            passed_over.push(IpNet::V6(ipnet::Ipv6Net::default()));
        }
        let is_new = !passed_over.is_empty() && !std::mem::replace(&mut self.is_warned, true);
        let warning = is_new.then(|| self.without_ipv6(&passed_over));
        (possible, warning)
    }

    fn without_ipv6(&self, passed_over: &[IpNet]) -> Report {
        let passed_over: Vec<String> = passed_over.iter().map(ToString::to_string).collect();
        let text = format!(
            "the tunnel is without IPv6, which is switched off here (sysctl net.ipv6.conf.{}.disable_ipv6): passed over \
             are {}",
            self.name,
            passed_over.join(", ")
        );
        Report { severity: Severity::Warning, path: None, text }
    }

    /// Whether IPv6 may leave by another device.
    pub(super) fn has_ipv6_beside(&mut self) -> bool {
        let own = self.device;
        let is_default = |listed: &ListedRoute| {
            let route = &listed.route;
            route.table == MAIN
                && route.destination.prefix_len() == 0
                && route.device.is_some_and(|device| device != own)
        };
        self.netlink.all_routes(IpFamily::V6).is_ok_and(|routes| routes.iter().any(is_default))
    }

    /// The addresses that the device was to have and could not get.
    pub fn missing_addresses(&self) -> &[IpNet] {
        &self.missing
    }
}
