//! The settings that the system is to have for a tunnel: those of wg-quick(8), except that a full tunnel lets less pass beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use adit_core::{Dns, IpNet, Redirect, Route, RouteTable, RouteVia, TunnelSettings};
use adit_system::Routing;
use adit_wireguard::{AllowedIp, PublicKey};
use adit_wireguard_config::{Config, FullTunnel, Interface, Parsed, Table};

use adit_host::failure::Failure;
use adit_host::place::place_in;

/// Bytes around a packet, at most: IPv6, UDP, and the data message's header and tag.
const OVERHEAD: u32 = 80;
/// The MTU of a path that is not known.
const USUAL_MTU: u32 = 1500;
/// The first table, and firewall mark, that a default route may get.
const FIRST_TABLE: u32 = 51_820;
/// The main table (linux/rtnetlink.h `RT_TABLE_MAIN`).
const MAIN: u32 = 254;
/// Where tables have their names (ip-route(8)).
const TABLE_NAMES: [&str; 2] = ["/etc/iproute2/rt_tables", "/usr/share/iproute2/rt_tables"];

/// The device's MTU: what the file says, or else what is left of the least path to an endpoint.
pub(crate) fn mtu(interface: &Interface, path: Option<u32>) -> u16 {
    let left = path.unwrap_or(USUAL_MTU).saturating_sub(OVERHEAD);
    interface.mtu.unwrap_or_else(|| u16::try_from(left).unwrap_or(u16::MAX))
}

/// The firewall mark by which the kill switch knows the tunnel's own datagrams, for the file of that number on the command line:
/// the file's own, or else one that does not depend on what the system looks like, as the next start must find the same.
pub(crate) fn kill_switch_mark(config: &Config, number: usize) -> u32 {
    let number = u32::try_from(number).unwrap_or_default();
    let own = match config.interface.full_tunnel.unwrap_or_default() {
        FullTunnel::Strict => adit_system::MARK,
        // It is the number of a routing table too.
        FullTunnel::WgQuick => FIRST_TABLE.saturating_add(number),
    };
    config.interface.fwmark.filter(|mark| *mark != 0).unwrap_or(own)
}

/// How allowed IPs become routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Routes {
    /// The table of the routes.
    pub(crate) table: RouteTable,
    /// All traffic of a family with a default route goes into the tunnel, whatever other routes say.
    pub(crate) redirects: bool,
    /// The firewall mark of the tunnel's own datagrams; 0: none.
    pub(crate) mark: u32,
}

impl Routes {
    /// Whether the tunnel's own datagrams are recognized by their mark, which then stays the mark of the start.
    pub(crate) fn go_by_mark(&self) -> bool {
        self.redirects || matches!(self.table, RouteTable::ByMark(_))
    }

    /// The mark, if traffic is redirected and the mark is not [`adit_system::MARK`], which tunnels share by default.
    pub(crate) fn own_mark(&self) -> Option<u32> {
        (self.redirects && self.mark != adit_system::MARK).then_some(self.mark)
    }
}

/// How allowed IPs become routes. `kill_switch` is the mark by which the kill switch knows the tunnel's own datagrams, if the kill
/// switch is on.
///
/// # Errors
/// There is no such table, or none is free.
pub(crate) fn routes(config: &Config, kill_switch: Option<u32>) -> Result<Routes, String> {
    let mark = kill_switch.or(config.interface.fwmark).unwrap_or_default();
    let has_default = allowed_ips(config).iter().any(|net| net.prefix_len() == 0);
    let table = match &config.interface.table {
        Table::Off => RouteTable::Main,
        Table::Auto if has_default => return full_tunnel(config, mark, kill_switch),
        Table::Auto => RouteTable::Main,
        Table::Number(number) => numbered(*number),
        Table::Name(name) => numbered(named(name)?),
    };
    Ok(Routes { table, redirects: false, mark })
}

fn full_tunnel(config: &Config, mark: u32, kill_switch: Option<u32>) -> Result<Routes, String> {
    if config.interface.full_tunnel.unwrap_or_default() == FullTunnel::Strict {
        let mark = if mark == 0 { adit_system::MARK } else { mark };
        return Ok(Routes { table: RouteTable::Main, redirects: true, mark });
    }
    let number = match mark {
        0 => {
            Routing::free_table(FIRST_TABLE).map_err(|error| format!("no routing table is free: {error}"))?
        }
        mark => mark,
    };
    // A number that was chosen for the kill switch may be in use, as it was chosen without a look at the system. A number in the
    // file is the choice of its author.
    let is_chosen = kill_switch.is_some() && config.interface.fwmark.is_none_or(|mark| mark == 0);
    if is_chosen && Routing::free_table(number).is_ok_and(|free| free != number) {
        return Err(format!("routing table {number} is in use: name a free number in FwMark"));
    }
    Ok(Routes { table: RouteTable::ByMark(number), redirects: false, mark: number })
}

/// Whether a table that is named has a number.
///
/// # Errors
/// It has none.
pub(crate) fn check_name(table: &Table) -> Result<(), String> {
    let Table::Name(name) = table else { return Ok(()) };
    named(name).map(drop)
}

fn numbered(number: u32) -> RouteTable {
    if number == MAIN { RouteTable::Main } else { RouteTable::Number(number) }
}

fn named(name: &str) -> Result<u32, String> {
    let text = TABLE_NAMES.iter().find_map(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    in_names(&text, name).ok_or_else(|| {
        format!("there is no routing table `{name}`: {} has their names", TABLE_NAMES.join(" or "))
    })
}

/// Lines of a number and a name.
fn in_names(text: &str, name: &str) -> Option<u32> {
    let mut lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().split_whitespace());
    lines.find_map(|mut words| {
        let number = words.next()?;
        let number = match number.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None => number.parse().ok()?,
        };
        (words.next()? == name).then_some(number)
    })
}

/// The settings that the system is to have.
pub(crate) fn settings(config: &Config, mtu: u16, by: Routes) -> TunnelSettings {
    let interface = &config.interface;
    let mut routes = match interface.table {
        Table::Off => Vec::new(),
        _ => wanted_routes(config, by.table),
    };
    let mut redirect = Redirect::default();
    if by.redirects {
        let (all, some): (Vec<Route>, _) =
            routes.into_iter().partition(|route| route.destination.prefix_len() == 0);
        let has = |is_ipv4| all.iter().any(|route| route.destination.addr().is_ipv4() == is_ipv4);
        redirect = Redirect { ipv4: has(true), ipv6: has(false), ..redirect };
        routes = some;
    }
    TunnelSettings {
        addresses: interface.addresses.clone(),
        mtu,
        routes,
        table: by.table,
        redirect: (redirect.ipv4 || redirect.ipv6).then_some(redirect),
        guards_addresses: by.redirects,
        dns: Dns { servers: interface.dns.clone(), search: interface.search.clone(), only_for: Vec::new() },
        ..TunnelSettings::default()
    }
}

/// The allowed IPs of all peers, those with long prefixes first: so wg-quick adds them.
pub(crate) fn allowed_ips(config: &Config) -> Vec<IpNet> {
    let mut owners: BTreeMap<IpNet, PublicKey> = BTreeMap::new();
    let mut known = BTreeSet::new();
    for peer in &config.peers {
        if !known.insert(peer.public_key) {
            // A second section of the same peer is in place of the first.
            owners.retain(|_, owner| *owner != peer.public_key);
        }
        for change in &peer.allowed_ips {
            match change {
                AllowedIp::Add(net) => {
                    owners.insert(*net, peer.public_key);
                }
                AllowedIp::Remove(net) => {
                    owners.retain(|owned, owner| owned != net || *owner != peer.public_key);
                }
            }
        }
    }
    let mut nets: Vec<IpNet> = owners.into_keys().collect();
    nets.sort_by_key(|net| std::cmp::Reverse(net.prefix_len()));
    nets
}

fn wanted_routes(config: &Config, table: RouteTable) -> Vec<Route> {
    // In the main table an address brings the route to its network, so that wg-quick adds none into that.
    let connected = |net: &IpNet| {
        let holds = |address: &IpNet| {
            let has_route = address.addr().is_ipv6() || address.prefix_len() < address.max_prefix_len();
            has_route && address.trunc().contains(net)
        };
        !matches!(table, RouteTable::Number(_)) && config.interface.addresses.iter().any(holds)
    };
    let route = |destination| Route { destination, via: RouteVia::Tunnel, metric: None };
    allowed_ips(config).into_iter().filter(|net| !connected(net)).map(route).collect()
}

/// An error in what a key names, with the key's line.
pub(crate) fn at_line(parsed: &Parsed, file: &Path, key: &str, error: &impl std::fmt::Display) -> Failure {
    Failure::Configuration(format!("{}: {error}", place_in(&parsed.report, file, &[key])))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 2] =
        ["AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=", "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="];

    fn config(interface: &str, peers: &[&str]) -> Config {
        let peers = peers.iter().zip(KEYS);
        let peers: String = peers.map(|(lines, key)| format!("[Peer]\nPublicKey={key}\n{lines}\n")).collect();
        let text = format!("[Interface]\n{interface}\n{peers}");
        adit_wireguard_config::parse(text.as_bytes(), "wg0.conf").expect("a good file").config
    }

    const QUICK: &str = "#adit: full-tunnel = wg-quick";

    fn by(table: RouteTable, redirects: bool, mark: u32) -> Result<Routes, String> {
        Ok(Routes { table, redirects, mark })
    }

    #[test]
    fn a_full_tunnel_takes_what_its_default_routes_say() {
        let of = |allowed: &str| {
            let config = config("Address=10.0.0.2/32", &[allowed]);
            let settings = settings(&config, 1420, routes(&config, None).expect("routes"));
            let redirect = settings.redirect.map(|redirect| (redirect.ipv4, redirect.ipv6));
            (redirect, settings.guards_addresses, settings.routes.len())
        };
        assert_eq!(of("AllowedIPs=0.0.0.0/0,10.1.0.0/16"), (Some((true, false)), true, 1));
        assert_eq!(of("AllowedIPs=0.0.0.0/0,::/0"), (Some((true, true)), true, 0));
        assert_eq!(of("AllowedIPs=10.1.0.0/16"), (None, false, 1));
    }

    fn destinations(config: &Config, table: RouteTable) -> Vec<String> {
        let settings = settings(config, 1420, Routes { table, redirects: false, mark: 0 });
        settings.routes.iter().map(|route| route.destination.to_string()).collect()
    }

    #[test]
    fn the_kill_switch_knows_a_mark_that_no_system_changes() {
        let mark = |lines: &str, number| kill_switch_mark(&config(lines, &["AllowedIPs=0.0.0.0/0"]), number);
        assert_eq!([mark("", 0), mark("", 2), mark("FwMark=off", 0)], [adit_system::MARK; 3]);
        let quick = [mark(QUICK, 0), mark(QUICK, 2), mark(&format!("{QUICK}\nFwMark=off"), 0)];
        assert_eq!(quick, [51_820, 51_822, 51_820]);
        assert_eq!(mark("FwMark=0x99", 2), 0x99);
        // Also where there is no default route.
        let of = |lines, allowed: &str| routes(&config(lines, &[allowed]), Some(7));
        assert_eq!(of("", "AllowedIPs=10.0.0.0/8"), by(RouteTable::Main, false, 7));
        assert_eq!(of("", "AllowedIPs=0.0.0.0/0"), by(RouteTable::Main, true, 7));
        assert_eq!(of(QUICK, "AllowedIPs=0.0.0.0/0"), by(RouteTable::ByMark(7), false, 7));
    }

    #[test]
    fn the_mtu_is_the_files_or_the_paths() {
        let interface = |lines: &str| config(lines, &[]).interface;
        assert_eq!(mtu(&interface("MTU=1280"), Some(9000)), 1280);
        assert_eq!(mtu(&interface(""), Some(1492)), 1412);
        assert_eq!(mtu(&interface(""), None), 1420);
        assert_eq!(mtu(&interface(""), Some(u32::MAX)), u16::MAX);
        assert_eq!(mtu(&interface(""), Some(40)), 0);
    }

    #[test]
    fn routes_are_those_of_allowed_ips_that_no_address_brings() {
        let file = config(
            "Address=10.0.0.2/24,fd00::2/128",
            &[
                "AllowedIPs=10.0.0.0/24,10.0.0.7/32,10.1.0.0/16,fd00::2/128,fd00::/64",
                "AllowedIPs=10.1.0.0/16,10.2.0.1/32,-10.3.0.0/16",
            ],
        );
        assert_eq!(destinations(&file, RouteTable::Main), ["fd00::/64", "10.2.0.1/32", "10.1.0.0/16"]);
        assert_eq!(destinations(&file, RouteTable::Number(7)).len(), 6);
        let off = config("Table=off", &["AllowedIPs=10.1.0.0/16"]);
        assert_eq!(destinations(&off, RouteTable::Main), [""; 0]);
        let removed = config("", &["AllowedIPs=10.1.0.0/16,-10.1.0.0/16", "AllowedIPs=-10.1.0.0/16"]);
        assert_eq!(destinations(&removed, RouteTable::Main), [""; 0]);
    }

    #[test]
    fn tables_are_found() {
        let of = |lines: &str, allowed: &str| routes(&config(lines, &[allowed]), None);
        let (split, all) = ("AllowedIPs=10.1.0.0/16", "AllowedIPs=::/0");
        assert_eq!(of("", split), by(RouteTable::Main, false, 0));
        assert_eq!(of("FwMark=9", split), by(RouteTable::Main, false, 9));
        assert_eq!(of("", all), by(RouteTable::Main, true, adit_system::MARK));
        assert_eq!(of("FwMark=9", all), by(RouteTable::Main, true, 9));
        assert_eq!(of(&format!("FwMark=9\n{QUICK}"), all), by(RouteTable::ByMark(9), false, 9));
        assert_eq!(of("Table=7\nFwMark=9", all), by(RouteTable::Number(7), false, 9));
        assert_eq!(of("Table=254", split), by(RouteTable::Main, false, 0));
        assert_eq!(of("Table=off", all), by(RouteTable::Main, false, 0));
        assert!(of("Table=nosuchtable", split).is_err());
        let text = "#\n255\tlocal\n0x10 vpn # ours\nx y\n";
        assert_eq!(
            [in_names(text, "vpn"), in_names(text, "local"), in_names(text, "y")],
            [Some(16), Some(255), None]
        );
    }
}
