//! What a server's OpenVPN configuration says of the tunnel that WireGuard shares: device, networks, pool, and what it
//! pushes to clients.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use adit_core::{IpNet, Ipv4Net, Ipv6Net, ipv6_network};
use adit_openvpn_config::{Config, Role, ServerConfig, ServerIpv4};
use zeroize::Zeroizing;

use crate::setup::SetupError;
use adit_host::configuration;
use adit_openvpn_adapter::forwarding;

/// The tunnel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Its device, if that has a fixed name.
    pub(super) device: Option<String>,
    /// The server's addresses in it, with the prefix lengths of its networks.
    pub(super) server: Vec<IpNet>,
    /// First and last address of OpenVPN's pool.
    pool: (Ipv4Addr, Ipv4Addr),
    /// The last address before that for broadcast.
    last: Ipv4Addr,
    /// The first IPv6 address of OpenVPN's pool, in its network.
    pool6: Option<Ipv6Net>,
    /// What clients reach through the tunnel.
    pub(super) routes: Vec<IpNet>,
    /// Where the server forwards their packets to beyond itself.
    pub(super) forward: Vec<IpNet>,
    /// Their name servers and search domains, as words of `DNS`.
    pub(super) dns: Vec<String>,
}

/// Reads a server's configuration that stands in the file `path`, or is about to.
pub(super) fn parse(path: &Path, text: &str) -> Result<Config, SetupError> {
    let load =
        |wanted: &Path| std::fs::read(configuration::find(path, wanted)).map_err(|error| error.to_string());
    let parsed = adit_openvpn_config::parse(&path.display().to_string(), text.as_bytes(), &load);
    let mut config = parsed.map_err(|failure| SetupError::Server(failure.to_string()))?.config;
    forwarding::push_name_servers(&mut config);
    Ok(config)
}

impl Layout {
    pub(super) fn of(config: &Config) -> Result<Self, SetupError> {
        let Role::Server(server) = &config.role else {
            return Err(SetupError::Server("it is no server's configuration".into()));
        };
        let Some(ServerIpv4 { address, pool: Some(pool) }) = server.ipv4 else {
            return Err(no_room());
        };
        let ipv6 = server.ipv6.map(|ipv6| IpNet::V6(ipv6.address));
        let own: Vec<IpNet> = std::iter::once(IpNet::V4(address)).chain(ipv6).collect();
        let Pushed { routes, dns } = Pushed::of(server);
        let last = Ipv4Addr::from(u32::from(address.broadcast()).saturating_sub(1));
        if pool.1 >= last {
            return Err(no_room());
        }
        let networks = own.iter().map(IpNet::trunc);
        Ok(Layout {
            device: config.device.name.clone(),
            routes: IpNet::aggregate(&networks.chain(routes).collect()),
            server: own,
            pool,
            last,
            pool6: server.ipv6.and_then(|ipv6| ipv6.pool),
            forward: server.forward.clone(),
            dns,
        })
    }

    /// The first free addresses behind OpenVPN's pool. The IPv6 address is as far from the first one of its
    /// pool as the IPv4 address, so that it is none of OpenVPN's either.
    pub(super) fn free_addresses(&self, taken: &BTreeSet<IpAddr>) -> Option<Vec<IpAddr>> {
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

fn no_room() -> SetupError {
    SetupError::Server(
        "it leaves no addresses for WireGuard: write `server NETWORK NETMASK nopool`, and `ifconfig-pool FIRST \
         LAST NETMASK` with a LAST that leaves room above it"
            .into(),
    )
}

/// What a server pushes to its OpenVPN clients and WireGuard cannot push: it goes into the clients' files.
#[derive(Default)]
struct Pushed {
    routes: Vec<IpNet>,
    dns: Vec<String>,
}

impl Pushed {
    fn of(server: &ServerConfig) -> Self {
        let mut pushed = Pushed::default();
        for option in &server.push {
            pushed.option(&option.split_whitespace().collect::<Vec<_>>());
        }
        pushed
    }

    fn option(&mut self, words: &[&str]) {
        match words {
            ["redirect-gateway", flags @ ..] => {
                let all = [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
                let is_wanted = [!flags.contains(&"!ipv4"), flags.contains(&"ipv6")];
                self.routes
                    .extend(all.into_iter().zip(is_wanted).filter(|(_, wanted)| *wanted).map(|(net, _)| net));
            }
            // What goes beside the tunnel there goes beside it here as well.
            ["route" | "route-ipv6", _, .., "net_gateway"] | ["route", _, _, "net_gateway", ..] => {}
            ["route", address, rest @ ..] => {
                let mask =
                    rest.first().copied().filter(|mask| *mask != "default").unwrap_or("255.255.255.255");
                self.routes.extend(network(address, mask).map(|net| IpNet::V4(net.trunc())));
            }
            ["route-ipv6", net, ..] => {
                self.routes.extend(ipv6_network(net).map(|net| IpNet::V6(net.trunc())));
            }
            ["dhcp-option", "DNS" | "DNS6", address] => {
                self.dns.extend(address.parse::<IpAddr>().map(|address| address.to_string()));
            }
            ["dhcp-option", "DOMAIN" | "DOMAIN-SEARCH", domain] => {
                let is_plain = domain.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
                self.dns.extend(Some((*domain).to_owned()).filter(|_| is_plain));
            }
            _ => {}
        }
    }
}

fn network(address: &str, mask: &str) -> Option<Ipv4Net> {
    Ipv4Net::with_netmask(address.parse().ok()?, mask.parse().ok()?).ok()
}

/// A server's configuration in which WireGuard has room: the device has a fixed name, and OpenVPN's pool the lower half of
/// the network. What says so already stays, and so does all else.
pub(super) fn with_room(text: &str, config: &Config, device: &str) -> Zeroizing<String> {
    let has_name = config.device.name.is_some();
    let network = match &config.role {
        Role::Server(server) => server.ipv4.map(|ipv4| ipv4.address.trunc()),
        Role::Client(_) | Role::PointToPoint(_) => None,
    };
    let lines = lines(text);
    let narrows = lines.iter().any(|(_, words)| matches!(words.as_slice(), ["server", _, _]));
    let mut changed = Zeroizing::new(String::with_capacity(text.len() + 512));
    for (line, words) in lines {
        match (words.as_slice(), network) {
            (["dev", ..], _) if !has_name => changed.push_str(&format!("dev {device}\ndev-type tun\n")),
            (["dev-type", ..], _) if !has_name => {}
            (["server", address, mask], Some(net)) => {
                let (first, last) = lower_half(net);
                changed.push_str(&format!(
                    "server {address} {mask} nopool\n\
                     # The addresses above these are for WireGuard.\n\
                     ifconfig-pool {first} {last} {mask}\n"
                ));
            }
            // OpenVPN takes no `server-ipv6` beside `nopool`; this is what it stands for (helper.c).
            (["server-ipv6", net], _) if narrows => match net.parse() {
                Ok(net) => changed.push_str(&expanded(net)),
                Err(_) => changed.push_str(line),
            },
            _ => changed.push_str(line),
        }
    }
    changed
}

/// The lines of a configuration, each with its words; those in blocks have none.
fn lines(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut in_block = false;
    let lines = text.split_inclusive('\n').map(|line| {
        in_block = (in_block && !line.starts_with("</")) || is_opening(line);
        (line, if in_block { Vec::new() } else { line.split_whitespace().collect() })
    });
    lines.collect()
}

/// What `server-ipv6` stands for.
fn expanded(net: Ipv6Net) -> String {
    let bits = net.prefix_len();
    let host = |number: u128| Ipv6Addr::from(u128::from(net.network()) + number);
    let (own, peer, pool) = (host(1), host(2), host(if bits < 112 { 0x1000 } else { 2 }));
    format!("ifconfig-ipv6 {own}/{bits} {peer}\nifconfig-ipv6-pool {pool}/{bits}\npush \"tun-ipv6\"\n")
}

fn is_opening(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('<') && line.ends_with('>') && !line.starts_with("</")
}

/// First and last address of a pool in the lower half of a network, without the network's own and the server's.
fn lower_half(net: Ipv4Net) -> (Ipv4Addr, Ipv4Addr) {
    let (first, last) = (u32::from(net.network()), u32::from(net.broadcast()));
    (Ipv4Addr::from(first + 2), Ipv4Addr::from(first + (last - first) / 2))
}

#[cfg(test)]
mod tests;
