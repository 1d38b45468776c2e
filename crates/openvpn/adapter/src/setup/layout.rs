//! The tunnel of a server that another protocol shares, by the server's file: device, networks, pool, and the options that it pushes
//! to clients.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use adit_core::{IpNet, Ipv4Net, Ipv6Net, ipv6_network};
use adit_openvpn_config::{Config, Role, ServerConfig, ServerIpv4};
use adit_setup::{Layout, Room};
use zeroize::Zeroizing;

use crate::forwarding;
use adit_host::configuration;

/// Reads a server's configuration that stands in the file `path`, or is about to.
pub(super) fn parse(path: &Path, text: &str) -> Result<Config, String> {
    let load =
        |wanted: &Path| std::fs::read(configuration::find(path, wanted)).map_err(|error| error.to_string());
    let parsed = adit_openvpn_config::parse(&path.display().to_string(), text.as_bytes(), &load);
    let mut config = parsed.map_err(|failure| failure.to_string())?.config;
    forwarding::push_name_servers(&mut config);
    Ok(config)
}

/// The tunnel of a configuration, which another protocol is to share. `other`: the protocol that needs addresses above the pool.
///
/// # Errors
/// Why it cannot.
pub(super) fn of(config: &Config, other: Option<&str>) -> Result<Layout, String> {
    let Role::Server(server) = &config.role else {
        return Err("it is no server's configuration".into());
    };
    let Some(ServerIpv4 { address, pool: Some(pool) }) = server.ipv4 else {
        return Err(other.map_or_else(|| NO_POOL.to_owned(), no_room));
    };
    let ipv6 = server.ipv6.map(|ipv6| IpNet::V6(ipv6.address));
    let own: Vec<IpNet> = std::iter::once(IpNet::V4(address)).chain(ipv6).collect();
    let Pushed { routes, dns } = Pushed::of(server);
    let last = Ipv4Addr::from(u32::from(address.broadcast()).saturating_sub(1));
    if let Some(other) = other.filter(|_| pool.1 >= last) {
        return Err(no_room(other));
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

const NO_POOL: &str = "it has no pool of IPv4 addresses: write `server NETWORK NETMASK`";

fn no_room(other: &str) -> String {
    format!(
        "it leaves no addresses for {other}: write `server NETWORK NETMASK nopool`, and `ifconfig-pool FIRST LAST \
         NETMASK` with a LAST that leaves room above it"
    )
}

/// The options that a server pushes to its clients, and that a protocol without pushed options has in the clients' files.
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
            // A network that is beside the tunnel by a pushed option is beside it by a client's file as well.
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

/// A server's configuration in which another protocol has room: the device has a fixed name, and the pool the lower half of the
/// network. Lines that say so already stay, and so do all others.
pub(super) fn with_room(text: &str, config: &Config, room: Room<'_>) -> Zeroizing<String> {
    let Room { device, other } = room;
    let text = with_device(text, config, device);
    let network = match &config.role {
        Role::Server(server) => server.ipv4.map(|ipv4| ipv4.address.trunc()),
        Role::Client(_) | Role::PointToPoint(_) => None,
    };
    let lines = lines(&text);
    let narrows = lines.iter().any(|(_, words)| matches!(words.as_slice(), ["server", _, _]));
    let mut changed = Zeroizing::new(String::with_capacity(text.len() + 512));
    for (line, words) in lines {
        match (words.as_slice(), network) {
            (["server", address, mask], Some(net)) => {
                let (first, last) = lower_half(net);
                changed.push_str(&format!(
                    "server {address} {mask} nopool\n\
                     # The addresses above these are for {other}.\n\
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

/// A server's configuration whose device has that name, unless it has another. All other lines stay.
pub(super) fn with_device(text: &str, config: &Config, device: &str) -> Zeroizing<String> {
    let has_name = config.device.name.is_some();
    let mut changed = Zeroizing::new(String::with_capacity(text.len() + 512));
    for (line, words) in lines(text) {
        match words.as_slice() {
            ["dev", ..] if !has_name => changed.push_str(&format!("dev {device}\ndev-type tun\n")),
            ["dev-type", ..] if !has_name => {}
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

/// The options that `server-ipv6` stands for.
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
