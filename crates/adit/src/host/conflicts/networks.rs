//! Addresses and default routes: between a WireGuard file and any other. (OpenVPN's clients get theirs from their servers.)

use std::path::Path;

use adit_core::IpNet;
use adit_openvpn_config::Role;
use adit_wireguard::AllowedIp;
use adit_wireguard_config::Table;

use crate::host::configuration::Dialect;
use crate::host::place::place_in;

/// A file says this by these directives.
type Said<T> = (T, &'static [&'static str]);

pub(super) fn compare(
    (file, dialect): (&Path, &Dialect),
    (other_file, other): (&Path, &Dialect),
    problems: &mut Vec<String>,
) {
    let mut problem = |ours: Said<String>, theirs: Said<String>| {
        let here = place_in(dialect.report(), file, ours.1);
        let there = place_in(other.report(), other_file, theirs.1);
        problems.push(format!("{here}: {} contradicts {} at {there}", ours.0, theirs.0));
    };
    for (network, directives) in networks(dialect) {
        let overlapping = networks(other).into_iter().find(|(theirs, _)| overlap(network, *theirs));
        if let Some((theirs, of_other)) = overlapping {
            let text = format!("the address {network}");
            problem((text, directives), (theirs.to_string(), of_other));
        }
    }
    for ((v4, directives), (theirs_v4, of_other)) in default_routes(dialect)
        .iter()
        .flat_map(|ours| default_routes(other).into_iter().map(move |it| (*ours, it)))
    {
        if v4 == theirs_v4 {
            let text = |v4| format!("a default route for IPv{}", if v4 { 4 } else { 6 });
            problem((text(v4), directives), ("that".to_owned(), of_other));
        }
    }
}

/// The networks of our own addresses.
fn networks(dialect: &Dialect) -> Vec<Said<IpNet>> {
    match dialect {
        Dialect::WireGuard(parsed) => {
            let addresses = parsed.config.interface.addresses.iter();
            addresses.map(|address| (*address, ["Address"].as_slice())).collect()
        }
        Dialect::OpenVpn(parsed) => {
            let Role::Server(server) = &parsed.config.role else { return Vec::new() };
            let v4 = server.ipv4.map(|own| (IpNet::V4(own.address), ["server", "ifconfig"].as_slice()));
            let v6 =
                server.ipv6.map(|own| (IpNet::V6(own.address), ["server-ipv6", "ifconfig-ipv6"].as_slice()));
            v4.into_iter().chain(v6).collect()
        }
    }
}

/// Two networks that have addresses in common. A single address may be one of another tunnel's network, but not ours there.
fn overlap(one: IpNet, other: IpNet) -> bool {
    let is_single = |net: IpNet| net.prefix_len() == net.max_prefix_len();
    if is_single(one) || is_single(other) {
        return one.addr() == other.addr();
    }
    let (one, other) = (one.trunc(), other.trunc());
    one.contains(&other) || other.contains(&one)
}

/// The default routes into the tunnel, each with whether it is IPv4's.
fn default_routes(dialect: &Dialect) -> Vec<Said<bool>> {
    match dialect {
        Dialect::WireGuard(parsed) if parsed.config.interface.table == Table::Auto => {
            let changes = parsed.config.peers.iter().flat_map(|peer| &peer.allowed_ips);
            let mut families: Vec<bool> = changes
                .filter_map(|change| match change {
                    AllowedIp::Add(net) if net.prefix_len() == 0 => Some(net.addr().is_ipv4()),
                    AllowedIp::Add(_) | AllowedIp::Remove(_) => None,
                })
                .collect();
            families.sort_unstable();
            families.dedup();
            families.into_iter().map(|v4| (v4, ["AllowedIPs"].as_slice())).collect()
        }
        Dialect::WireGuard(_) => Vec::new(),
        Dialect::OpenVpn(parsed) => match &parsed.config.role {
            Role::Client(client) if client.redirect_gateway.is_some() => {
                vec![(true, ["redirect-gateway"].as_slice())]
            }
            _ => Vec::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::conflicts::check;

    fn wireguard(name: &str, lines: &str) -> Dialect {
        let parsed = adit_wireguard_config::parse(format!("[Interface]\n{lines}").as_bytes(), name);
        Dialect::WireGuard(Box::new(parsed.expect("a good file")))
    }

    fn between(one: &str, other: &str) -> Vec<String> {
        let (one, other) = (wireguard("wg0.conf", one), wireguard("wg1.conf", other));
        let outcome = check(&[(Path::new("wg0.conf"), &one), (Path::new("wg1.conf"), &other)]);
        outcome.err().map(|why| why.lines().map(str::to_owned).collect()).unwrap_or_default()
    }

    #[test]
    fn wireguard_files_share_neither_port_nor_addresses_nor_default_route() {
        let peer = "[Peer]\nPublicKey=AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\nAllowedIPs=10.9.0.0/16,0.0.0.0/0\n";
        assert_eq!(
            between("ListenPort=51820\n", "MTU=1400\nListenPort=51820\n"),
            ["wg1.conf:3: UDP port 51820 is that of wg0.conf:2 too: each tunnel needs its own"]
        );
        assert_eq!(
            between("Address=10.0.0.1/24\n", "Address=10.0.0.9/16\n"),
            ["wg1.conf:2: the address 10.0.0.9/16 contradicts 10.0.0.1/24 at wg0.conf:2"]
        );
        assert_eq!(
            between(peer, peer),
            ["wg1.conf:4: a default route for IPv4 contradicts that at wg0.conf:4"]
        );
        for (one, other) in [
            ("Address=10.0.0.1/24\n", "Address=10.0.0.9/32\n"),
            ("Address=10.0.0.1/32\n", "Address=10.0.0.9/32\n"),
            ("Address=10.0.0.1/24\n", "Address=10.0.1.1/24\n"),
            ("ListenPort=0\n", "ListenPort=0\n"),
        ] {
            assert_eq!(between(one, other), [""; 0], "{one} {other}");
        }
        assert_eq!(between(&format!("Table=off\n{peer}"), peer), [""; 0]);
        assert_eq!(between("Address=10.0.0.1/32\n", "Address=10.0.0.1/24\n").len(), 1);
    }

    #[test]
    fn the_same_device_is_refused() {
        let text = "[Interface]\n";
        let parse = || {
            let parsed = adit_wireguard_config::parse(text.as_bytes(), "wg0.conf").expect("a good file");
            Dialect::WireGuard(Box::new(parsed))
        };
        let (one, other) = (parse(), parse());
        let why = check(&[(Path::new("a/wg0.conf"), &one), (Path::new("b/wg0.conf"), &other)]);
        assert_eq!(
            why.unwrap_err(),
            "b/wg0.conf: the device wg0 is that of a/wg0.conf too: each tunnel needs its own"
        );
    }
}
