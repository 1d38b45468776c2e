//! Tunnel settings applied to the system, kept true when the network changes, and taken back.

mod by_mark;
mod bypass;
mod families;
mod guard;
mod main_table;
mod outer;
mod policy;

use std::io;
use std::net::IpAddr;

use adit_core::{Report, Route, RouteTable, Severity, TunnelSettings};
use ipnet::IpNet;

use self::by_mark::ByMark;
use self::guard::{Found, Guard, Wanted};
use self::main_table::{MainRoute, Purpose};
use self::outer::Outer;
use self::policy::{Policy, Treatment, treatment};
use crate::mark::{self, DEVICE_GROUP};
use crate::netlink::{IpFamily, KernelRoute, Netlink};

/// An address of the device, and the other end's if it is a point-to-point link.
type Address = (IpNet, Option<IpAddr>);

/// The system's addresses and routes as far as this tunnel changed them. The changes are undone when this
/// value is dropped.
#[derive(Debug)]
pub struct Routing {
    netlink: Netlink,
    device: u32,
    name: String,
    applied: Option<TunnelSettings>,
    /// Further addresses that must stay outside the tunnel: servers that are being tried.
    bypassed: Vec<IpAddr>,
    /// Name servers that the system had before.
    name_servers: Vec<IpAddr>,
    addresses: Vec<Address>,
    /// Addresses that the system refused.
    missing: Vec<IpNet>,
    /// The warning that the tunnel is without IPv6 was given.
    is_warned: bool,
    /// The routes of the main table.
    routes: Vec<MainRoute>,
    policy: Policy,
    by_mark: ByMark,
    outer: Outer,
    /// The firewall's rules that go with `policy`.
    guard: Guard,
    /// The setting that the tunnel cannot be without and could not get.
    lacks: Option<String>,
    /// Other endpoints of the tunnel use the device too.
    shares_device: bool,
    /// Another program sets the device up.
    leaves_device: bool,
}

impl Routing {
    /// The routing of the TUN device `name`, in the network namespace of the caller. Removes rules that tunnels left
    /// there whose process was killed.
    pub fn new(name: &str) -> io::Result<Routing> {
        let mut netlink = Netlink::open()?;
        let device = netlink.link(name)?.index;
        Ok(Routing::with(netlink, device, name))
    }

    /// The routing of a TUN device that may be in another network namespace: none of its settings can be
    /// changed there.
    ///
    /// # Errors
    /// When netlink is not to be had.
    pub fn of_any_namespace(name: &str) -> io::Result<Routing> {
        let mut netlink = Netlink::open()?;
        let device = netlink.link(name).map_or(0, |link| link.index);
        Ok(Routing::with(netlink, device, name))
    }

    /// The routing of a tunnel without a device, in whose place reports have `name`: nothing can be set up.
    ///
    /// # Errors
    /// When netlink is not to be had.
    pub fn without_device(name: &str) -> io::Result<Routing> {
        Ok(Routing::with(Netlink::open()?, 0, name))
    }

    fn with(mut netlink: Netlink, device: u32, name: &str) -> Routing {
        recover(&mut netlink);
        Routing {
            netlink,
            device,
            name: name.to_owned(),
            applied: None,
            bypassed: Vec::new(),
            name_servers: Vec::new(),
            addresses: Vec::new(),
            missing: Vec::new(),
            is_warned: false,
            routes: Vec::new(),
            policy: Policy::new(device, name),
            by_mark: ByMark::new(device, name),
            outer: Outer::new(device, name),
            guard: Guard::new(device, name),
            lacks: None,
            shares_device: false,
            leaves_device: false,
        }
    }

    /// Removes rules that tunnels left in the caller's network namespace whose process was killed: they keep all
    /// traffic in. A rule that cannot be removed stays, as for [`Routing::new`].
    pub fn recover() {
        if let Ok(mut netlink) = Netlink::open() {
            recover(&mut netlink);
        }
    }

    /// The first number from `first` on whose routing table is empty, as [`RouteTable::ByMark`] needs it.
    ///
    /// # Errors
    /// When the system does not tell its routes.
    pub fn free_table(first: u32) -> io::Result<u32> {
        by_mark::free_table(&mut Netlink::open()?, first)
    }

    /// Index of the device; 0 if it is in another network namespace.
    pub fn device(&self) -> u32 {
        self.device
    }

    /// The addresses of all devices.
    pub fn addresses(&mut self) -> io::Result<Vec<IpAddr>> {
        self.netlink.addresses()
    }

    /// Tells which name servers the system has without the tunnel; for `redirect-gateway bypass-dns`.
    pub fn set_name_servers(&mut self, servers: Vec<IpAddr>) {
        self.name_servers = servers;
    }

    /// Puts the device into the group of all tunnels' devices, by which the kill switch knows it.
    pub fn set_tunnel_group(&mut self) -> io::Result<()> {
        self.netlink.set_group(self.device, DEVICE_GROUP)
    }

    /// The mark of the tunnel's own datagrams; `None`: that of all tunnels. To be called before settings are applied.
    pub fn set_mark(&mut self, mark: Option<u32>) {
        self.policy.set_mark(mark.unwrap_or(mark::MARK));
    }

    /// Other endpoints of the tunnel use the device too, and may end later: its addresses, and the routes into it, are
    /// not taken back but go with the device; a route that another endpoint has set is no other program's.
    pub fn share_device(&mut self) {
        self.shares_device = true;
    }

    /// Another program gives the device its addresses and its MTU and takes it up.
    pub fn leave_device(&mut self) {
        self.leaves_device = true;
    }

    /// Makes the system match `settings`, instead of the settings that were applied before. Parts that both have in
    /// common are not touched, so that no packet meanwhile leaves beside the tunnel. Goes on after a failure; gives a
    /// report for each. [`Routing::lacks`] says afterwards whether the tunnel can be used. The process that calls this
    /// must be the one that opens the tunnel's sockets, as it is tried whether it may mark them.
    pub fn apply(&mut self, settings: &TunnelSettings) -> Vec<Report> {
        let asked = settings;
        let (settings, warning) = self.possible(asked);
        let settings = &settings;
        let mut reports = Vec::new();
        self.bypassed.clear();
        if self.applied.as_ref() == Some(settings) {
            self.follow();
            return reports;
        }
        reports.extend(warning);
        let first = self.applied.is_none();
        let bypass = self.bypass_routes(settings, &mut reports);
        let for_bypass = |route| MainRoute { route, purpose: Purpose::Bypass };
        let mut wanted: Vec<MainRoute> = bypass.into_iter().map(for_bypass).collect();
        let in_main = |route: &&Route| {
            in_main(settings, route.destination.addr()) && by_mark::table(settings, route).is_none()
        };
        let named = settings.routes.iter().filter(in_main);
        let named = named.filter_map(|route| self.named_route(settings, route));
        wanted.extend(named.map(|route| MainRoute { route, purpose: Purpose::Named }));
        self.set_device(settings, &mut reports);
        self.enforce_policy(settings, &mut reports);
        self.set_routes(wanted, &mut reports);
        reports.extend(self.ipv6_beside(settings));
        self.missing = self.missing_of(asked);
        self.applied = Some(settings.clone());
        if first && self.lacks.is_some() {
            self.take_back();
        }
        reports
    }

    /// Whether there is a tunnel, up or lost.
    pub fn is_applied(&self) -> bool {
        self.applied.is_some()
    }

    /// The firewall mark of the datagrams that go beside the tunnel.
    pub fn mark(&self) -> u32 {
        self.by_mark.mark().unwrap_or(self.policy.mark())
    }

    /// Whether all traffic of a family goes into the tunnel, or none anywhere.
    pub fn takes_all(&self) -> bool {
        self.policy.is_active() || self.by_mark.has_rules()
    }

    /// The setting of those applied last that the tunnel cannot be without and the system refused, in words that name it. A tunnel that
    /// lacks something must not be used: traffic would leave beside it.
    pub fn lacks(&self) -> Option<&str> {
        self.lacks.as_deref()
    }

    /// A warning when IPv4 goes into the tunnel and IPv6 does not, which few mean.
    fn ipv6_beside(&mut self, settings: &TunnelSettings) -> Option<Report> {
        let only_ipv4 =
            treatment(settings, IpFamily::V4).is_some() && treatment(settings, IpFamily::V6).is_none();
        (only_ipv4 && self.has_ipv6_beside()).then(|| Report {
            severity: Severity::Warning,
            path: None,
            text:
                "all IPv4 goes into the tunnel, but IPv6 leaves beside it: have it routed into the tunnel too \
                   (`redirect-gateway ipv6`, or `::/0` in `AllowedIPs`), or blocked (`block-ipv6`)"
                    .to_owned(),
        })
    }

    fn missing_of(&self, settings: &TunnelSettings) -> Vec<IpNet> {
        if self.leaves_device {
            return Vec::new();
        }
        let is_there = |address: &IpNet| self.addresses.iter().any(|(there, _)| there == address);
        settings.addresses.iter().copied().filter(|address| !is_there(address)).collect()
    }

    fn enforce_policy(&mut self, settings: &TunnelSettings, reports: &mut Vec<Report>) {
        let redirects = IpFamily::BOTH.into_iter().any(|family| treatment(settings, family).is_some());
        let by_mark =
            redirects || matches!(settings.table, RouteTable::ByMark(_)) || !settings.peers.is_empty();
        self.lacks = match mark::probe() {
            Err(error) if by_mark => Some(format!(
                "cannot mark the tunnel's own datagrams (SO_MARK), so they would go into the tunnel: {error}; run as \
                 root, or grant CAP_NET_ADMIN"
            )),
            _ => {
                let policy = self.policy.enforce(&mut self.netlink, settings, &self.name_servers, reports);
                policy.and_then(|()| self.by_mark.enforce(&mut self.netlink, settings, reports)).err()
            }
        };
        let peers = if self.lacks.is_none() { settings.peers.as_slice() } else { &[] };
        self.outer.enforce(&mut self.netlink, (peers, self.policy.mark()), reports);
        self.guard_addresses(settings, reports);
    }

    /// A tunnel without these rules is used all the same: nothing leaves beside it.
    fn guard_addresses(&mut self, settings: &TunnelSettings, reports: &mut Vec<Report>) {
        let is_guarded = |family: &IpFamily| {
            settings.guards_addresses && treatment(settings, *family) == Some(Treatment::Redirect)
        };
        let addresses = settings.addresses.iter().map(|address| address.addr()).collect();
        let families = IpFamily::BOTH.into_iter().filter(is_guarded).collect();
        if let Some(Err(error)) = self.guard.set_once(Wanted { families, mark: 0, addresses }) {
            let text = format!(
                "others on the local network can find out which addresses the tunnel has, as the firewall's rule \
                 against that cannot be set: {error}"
            );
            reports.push(Report { severity: Severity::Warning, path: None, text });
        }
    }

    /// Lets these addresses be reached beside the tunnel that is set up now, until the next `apply`: a client
    /// tries to connect there.
    pub fn bypass(&mut self, addresses: &[IpAddr]) {
        let Some(settings) = self.applied.clone() else { return };
        for address in addresses.iter().filter(|address| bypass::is_caught(&settings, **address)) {
            if !self.bypassed.contains(address) {
                self.bypassed.push(*address);
            }
        }
        self.follow();
    }

    /// Whether the applied settings change with the network, or are to be restored when another program deletes them.
    /// (Not a server's routes: machines with a thousand devices tell of thousands of changes a second.)
    pub fn depends_on_network(&self) -> bool {
        self.policy.is_active()
            || self.by_mark.is_active()
            || self.outer.is_active()
            || self.applied.as_ref().is_some_and(|settings| {
                let is_client = settings.server.is_some() && !settings.routes.is_empty();
                is_client || bypass::has_bypass_routes(settings, &self.bypassed)
            })
    }

    /// The network changed: leads the addresses that must stay outside the tunnel by the way that is there now, and
    /// restores routes and rules that another program deleted.
    pub fn follow(&mut self) {
        let Some(settings) = self.applied.clone() else { return };
        self.put_device_back(&settings);
        self.enforce_policy(&settings, &mut Vec::new());
        // A route that cannot be found now will be when the network is back; until then the server is
        // unreachable.
        let bypass = self.bypass_routes(&settings, &mut Vec::new());
        let (named, before): (Vec<MainRoute>, Vec<MainRoute>) =
            std::mem::take(&mut self.routes).into_iter().partition(|own| own.purpose == Purpose::Named);
        let there = if !named.is_empty() || !bypass.is_empty() { self.main_routes() } else { Vec::new() };
        let is_there = |route: &KernelRoute| {
            // The fallback depends on no device and stays; the kernel takes back others with their device.
            bypass::is_fallback(route)
                || there.iter().any(|there| {
                    let same_device = route.device.is_none() || there.device == route.device;
                    there.same_place(route) && there.gateway == route.gateway && same_device
                })
        };
        for own in named.iter().filter(|own| !is_there(&own.route)) {
            // It fails where another program's route took its place, which stays, and while its gateway is on no link.
            let _ = self.netlink.add_route(&own.route);
        }
        self.routes = named;
        for route in &bypass {
            let there = before.iter().any(|own| own.route == *route) && is_there(route);
            if there || self.put(route).is_ok() {
                self.routes.push(MainRoute { route: route.clone(), purpose: Purpose::Bypass });
            }
        }
        for own in before.iter().filter(|own| !bypass.iter().any(|new| new.same_place(&own.route))) {
            let _ = self.netlink.remove_route(&own.route);
        }
    }

    /// Puts the device back: with the device down its routes are gone, and IPv6 addresses as well.
    fn put_device_back(&mut self, settings: &TunnelSettings) {
        // Another device may have the name by now.
        if self.netlink.link(&self.name).is_ok_and(|link| link.index == self.device && !link.up) {
            self.set_device(settings, &mut Vec::new());
        }
    }

    /// Takes back the changes of `apply`. A setting that is gone already is no error.
    pub fn undo(&mut self) {
        self.take_back();
        self.lacks = None;
    }

    fn take_back(&mut self) {
        self.policy.undo(&mut self.netlink);
        self.by_mark.undo(&mut self.netlink);
        self.outer.undo(&mut self.netlink);
        self.guard.undo();
        // Nothing can be done about a failure here: the kernel refuses to remove only things that another
        // program has changed since.
        for own in std::mem::take(&mut self.routes).iter().rev() {
            if !self.goes_with_device(&own.route) {
                let _ = self.netlink.remove_route(&own.route);
            }
        }
        for (address, peer) in std::mem::take(&mut self.addresses) {
            if !self.shares_device {
                let _ = self.netlink.remove_address(self.device, address, peer);
            }
        }
        self.applied = None;
        self.is_warned = false;
        self.bypassed.clear();
    }

    fn set_device(&mut self, settings: &TunnelSettings, reports: &mut Vec<Report>) {
        if self.leaves_device {
            return;
        }
        if settings.mtu != 0 {
            let result = self.netlink.set_mtu(self.device, u32::from(settings.mtu));
            note(result, &format!("set the MTU of {} to {}", self.name, settings.mtu), reports);
        }
        let with_peer = |address: &IpNet| {
            let peer = settings.peer_address.filter(|peer| peer.is_ipv4() == address.addr().is_ipv4());
            (*address, peer)
        };
        let wanted: Vec<Address> = settings.addresses.iter().map(with_peer).collect();
        let mut there = Vec::new();
        for (address, peer) in &wanted {
            let result = self.netlink.add_address(self.device, *address, *peer);
            if result.is_ok() {
                there.push((*address, *peer));
            }
            note(result, &format!("give {} the address {address}", self.name), reports);
        }
        let stale: Vec<Address> = std::mem::replace(&mut self.addresses, there)
            .into_iter()
            .filter(|old| !wanted.contains(old))
            .collect();
        for (address, peer) in &stale {
            let _ = self.netlink.remove_address(self.device, *address, *peer);
        }
        if !stale.is_empty() {
            // With the first address of a network the kernel removes the others of it.
            for (address, peer) in &self.addresses {
                let _ = self.netlink.add_address(self.device, *address, *peer);
            }
        }
        let result = self.netlink.set_up(self.device, true);
        note(result, &format!("take {} up", self.name), reports);
    }
}

impl Drop for Routing {
    fn drop(&mut self) {
        self.undo();
    }
}

/// Removes the settings that tunnels left behind whose process was killed.
pub(crate) fn recover(netlink: &mut Netlink) {
    let mut has_rules = |family| {
        let rules = netlink.rules(family).unwrap_or_default();
        rules.iter().any(|rule| rule.own.is_some())
    };
    // A tunnel that takes all traffic has rules. Without them nothing of the firewall is looked for.
    if !IpFamily::BOTH.into_iter().any(&mut has_rules) {
        return;
    }
    let firewall = Found::look();
    policy::recover(netlink);
    by_mark::recover(netlink, &firewall);
    outer::recover(netlink);
    if let Ok(links) = netlink.links() {
        firewall.remove_dead(|device| links.iter().any(|(index, _)| *index == device));
    }
}

fn taken(destination: IpNet) -> Report {
    let text = format!(
        "the system has a route to {destination} already, which stays: traffic to it may not go the way that is meant"
    );
    Report { severity: Severity::Warning, path: None, text }
}

fn in_tunnel(settings: &TunnelSettings, gateway: IpAddr) -> bool {
    settings.peer_address == Some(gateway)
        || settings.addresses.iter().any(|address| address.contains(&gateway))
}

/// Whether routes to addresses of this family are those of the main table.
fn in_main(settings: &TunnelSettings, address: IpAddr) -> bool {
    treatment(settings, IpFamily::of(address)).is_none()
}

fn note(result: io::Result<()>, what: &str, reports: &mut Vec<Report>) {
    if let Err(error) = result {
        reports.push(failure(what, &error));
    }
}

fn failure(what: &str, error: &io::Error) -> Report {
    let way_out = match error.raw_os_error() {
        Some(libc::EPERM) => "; run as root, or grant CAP_NET_ADMIN",
        Some(libc::EACCES | libc::EOPNOTSUPP | libc::EAFNOSUPPORT) => {
            "; if this is IPv6, it may be disabled here (sysctl net.ipv6.conf.all.disable_ipv6)"
        }
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => "; is there a route to the gateway?",
        Some(libc::ENODEV) => "; the device is gone: was it deleted by another program?",
        _ => "",
    };
    Report { severity: Severity::Error, path: None, text: format!("cannot {what}: {error}{way_out}") }
}

#[cfg(test)]
pub(crate) mod tests;
