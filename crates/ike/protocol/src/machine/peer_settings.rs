//! The settings of the tunnel that a peer gives.

use adit_core::{IpNet, Redirect, Route, RouteVia, TunnelSettings};

use super::narrow::routes;
use super::peer::PeerState;

/// Settings that are there while a peer is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerSettings {
    addresses: Vec<IpNet>,
    routes: Vec<IpNet>,
    dns: Vec<std::net::IpAddr>,
    domains: Vec<String>,
    outer: Option<std::net::IpAddr>,
}

impl PeerSettings {
    /// The settings by what the peer gave and what its child SAs carry. `None`: there is no child SA.
    pub(crate) fn of(state: &PeerState) -> Option<Self> {
        let assigned = state.assigned.as_deref()?;
        let mut prefixes: Vec<IpNet> = Vec::new();
        add_new(&mut prefixes, state.installed.values().flat_map(|installed| routes(&installed.remote)));
        let path = state.entry.as_ref().and_then(|entry| entry.path);
        (!prefixes.is_empty()).then(|| PeerSettings {
            addresses: assigned.addresses.iter().map(|address| IpNet::from(*address)).collect(),
            routes: prefixes,
            dns: assigned.dns.clone(),
            domains: assigned.domains.clone(),
            outer: path.map(|path| path.remote().ip().to_canonical()),
        })
    }

    /// Adds these settings to those of the tunnel. All traffic of a family goes into a tunnel with a route to all of it. Without one,
    /// name servers resolve the names of their domains, if they came with some (RFC 8598 section 3).
    pub(super) fn add_to(&self, settings: &mut TunnelSettings) {
        add_new(&mut settings.addresses, self.addresses.iter().copied());
        let (all, some): (Vec<IpNet>, Vec<IpNet>) =
            self.routes.iter().partition(|route| route.prefix_len() == 0);
        let route = |destination| Route { destination, via: RouteVia::Tunnel, metric: None };
        add_new(&mut settings.routes, some.into_iter().map(route));
        if !all.is_empty() {
            let redirect = settings.redirect.get_or_insert_with(Redirect::default);
            redirect.ipv4 |= all.iter().any(|route| route.addr().is_ipv4());
            redirect.ipv6 |= all.iter().any(|route| route.addr().is_ipv6());
            settings.guards_addresses = true;
        }
        settings.server = settings.server.or(self.outer);
        settings.dns.servers.extend(&self.dns);
        settings.dns.search.extend(self.domains.iter().cloned());
        if all.is_empty() && !self.dns.is_empty() {
            settings.dns.only_for.extend(self.domains.iter().cloned());
        }
    }
}

/// Adds the values that are not there.
fn add_new<T: PartialEq>(all: &mut Vec<T>, new: impl Iterator<Item = T>) {
    for value in new {
        if !all.contains(&value) {
            all.push(value);
        }
    }
}
