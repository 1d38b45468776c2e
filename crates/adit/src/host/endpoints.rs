//! Files that are endpoints of one tunnel: servers with the same `dev`, and a WireGuard interface of that name beside them. What
//! they must agree on, and what they share.

mod beside;
#[cfg(test)]
mod beside_wireguard;

use std::path::Path;

use adit_core::SharedPool;
use adit_io::SharedDevice;
use adit_openvpn_config::{Parsed, Role, ServerConfig};
use adit_system::Forwarding;

pub(crate) use self::beside::{Binding, DeviceTerms, Unbound, contradictions as contradictions_beside};
use super::forwarding;
use crate::host::configuration::Dialect;
use crate::openvpn::adapter::clients::Leases;
use crate::openvpn::adapter::translate;
use crate::openvpn::adapter::tunnel::place;

/// What the endpoints of a tunnel share. Clones share the same.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    /// The device with its data plane.
    pub(crate) device: SharedDevice,
    /// Addresses and names.
    pub(crate) pool: SharedPool,
    /// What is remembered of the pool.
    pub(crate) leases: Leases,
    /// What the endpoints are called.
    pub(crate) names: Vec<String>,
    /// What the device has of the OpenVPN servers.
    pub(crate) terms: Option<DeviceTerms>,
    /// The tunnel's forwarding, by the files of all endpoints; `None`: it forwards nothing.
    pub(crate) forwarding: Option<Forwarding>,
    /// Which of these have bound their sockets.
    pub(crate) binding: Binding,
}

impl Shared {
    /// The tunnel's forwarding, if `name` is the first of the endpoints: one helper forwards for all of them.
    pub(crate) fn take_forwarding(&self, name: &str) -> Option<Forwarding> {
        self.forwarding.clone().filter(|_| self.names.first().is_some_and(|first| first == name))
    }
}

/// Something that the endpoints of a tunnel must have the same, in words, and the directives that say so.
type Term = (&'static [&'static str], String);

/// Whether two files are endpoints of one tunnel.
pub(crate) fn are_one_tunnel(one: &Parsed, other: &Parsed) -> bool {
    let device = |parsed: &Parsed| match &parsed.config.role {
        Role::Server(_) => parsed.config.device.name.clone(),
        Role::Client(_) | Role::PointToPoint(_) => None,
    };
    device(one).is_some_and(|name| device(other) == Some(name))
}

/// The same, whatever their dialects.
pub(crate) fn share_a_tunnel((file, one): (&Path, &Dialect), (other_file, other): (&Path, &Dialect)) -> bool {
    match (one, other) {
        (Dialect::OpenVpn(one), Dialect::OpenVpn(other)) => are_one_tunnel(one, other),
        (Dialect::WireGuard(_), Dialect::OpenVpn(server)) => beside::is_beside(file, server),
        (Dialect::OpenVpn(server), Dialect::WireGuard(_)) => beside::is_beside(other_file, server),
        (Dialect::WireGuard(_), Dialect::WireGuard(_)) => false,
    }
}

/// What each of these files, by its name, shares with others; `None` if it is a tunnel of its own.
pub(crate) fn share(all: &[(&str, &Path, &Dialect)]) -> Vec<Option<Shared>> {
    let mut shared: Vec<Option<Shared>> = Vec::with_capacity(all.len());
    for (number, (_, file, dialect)) in all.iter().enumerate() {
        let is_same = |(other_number, (_, other_file, other)): &(usize, &(&str, &Path, &Dialect))| {
            *other_number == number || share_a_tunnel((file, dialect), (other_file, other))
        };
        let members = || all.iter().enumerate().filter(is_same);
        let names: Vec<String> = members().map(|(_, (name, ..))| (*name).to_owned()).collect();
        let terms = members().find_map(|(_, (_, _, dialect))| beside::device_terms(dialect));
        let before = members().map(|(other, _)| other).find(|other| *other < number);
        shared.push(match before.and_then(|before| shared.get(before).cloned().flatten()) {
            Some(found) => Some(found),
            None if names.len() > 1 => {
                let dialects = members().map(|(_, (_, file, dialect))| (*file, *dialect));
                let forwarding = forwarding::of_all(dialects);
                Some(Shared { names, terms, forwarding, ..Shared::default() })
            }
            None => None,
        });
    }
    shared
}

/// What two endpoints of one tunnel contradict each other in, one problem a line, with both places.
pub(crate) fn contradictions(
    (file, parsed): (&Path, &Parsed),
    (other_file, other): (&Path, &Parsed),
) -> Vec<String> {
    let device = parsed.config.device.name.as_deref().unwrap_or_default();
    let differ = terms(parsed).into_iter().zip(terms(other)).filter(|((_, one), (_, theirs))| one != theirs);
    let problem = |((directives, value), (_, theirs)): (Term, Term)| {
        let (here, there) = (place(parsed, file, directives), place(other, other_file, directives));
        format!(
            "{here}: {value}, but {theirs} at {there}: servers with the same `dev` are endpoints of one tunnel, and \
             must agree; correct one of them, or give it a device of its own in place of {device}"
        )
    };
    differ.map(problem).collect()
}

/// What the endpoints of a tunnel must have the same, in words, and the directives that say so. Where none of them is
/// there, the place is that of `dev`.
fn terms(parsed: &Parsed) -> Vec<Term> {
    let Role::Server(server) = &parsed.config.role else { return Vec::new() };
    let device = &parsed.config.device;
    let flag = |on: bool, name: &str| if on { format!("`{name}`") } else { format!("no `{name}`") };
    vec![
        (&["server", "ifconfig", "dev"], network(server)),
        (&["server-ipv6", "ifconfig-ipv6", "dev"], network_v6(server)),
        (&["ifconfig-pool", "server", "dev"], pool(server)),
        (&["ifconfig-ipv6-pool", "server-ipv6", "dev"], pool_v6(server)),
        (&["tun-mtu", "dev"], format!("the MTU {}", device.mtu)),
        (&["txqueuelen", "dev"], format!("`txqueuelen {}`", translate::txqueuelen(&parsed.config))),
        (&["client-to-client", "dev"], flag(server.client_to_client, "client-to-client")),
        (&["duplicate-cn", "dev"], flag(server.duplicate_cn, "duplicate-cn")),
    ]
}

fn network(server: &ServerConfig) -> String {
    server.ipv4.map_or("no IPv4 network".to_owned(), |own| format!("the server's address {}", own.address))
}

fn network_v6(server: &ServerConfig) -> String {
    server.ipv6.map_or("no IPv6 network".to_owned(), |own| format!("the server's address {}", own.address))
}

fn pool(server: &ServerConfig) -> String {
    let range = server.ipv4.and_then(|own| own.pool);
    range.map_or("no IPv4 pool".to_owned(), |(first, last)| format!("the pool {first} to {last}"))
}

fn pool_v6(server: &ServerConfig) -> String {
    let first = server.ipv6.and_then(|own| own.pool);
    first.map_or("no IPv6 pool".to_owned(), |first| format!("the pool from {first}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &str = "dh none\n<ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n\
                        <cert>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</cert>\n\
                        <key>\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n</key>\n";

    fn server(name: &str, lines: &str) -> Parsed {
        let none = |_: &Path| Err("no such file".to_owned());
        adit_openvpn_config::parse(name, format!("{lines}{KEYS}").as_bytes(), &none).expect("a good file")
    }

    fn of(lines: &str, others: &str) -> Vec<String> {
        let [one, other] = [server("udp.conf", lines), server("tcp.conf", others)];
        assert!(are_one_tunnel(&one, &other));
        contradictions((Path::new("tcp.conf"), &other), (Path::new("udp.conf"), &one))
    }

    #[test]
    fn endpoints_agree_on_what_the_device_and_the_pool_have_once() {
        let lines = "dev tun0\nserver 10.8.0.0 255.255.255.0\n";
        assert_eq!(of(lines, &format!("proto tcp\n{lines}max-clients 5\nverb 4\n")), [""; 0]);
        assert_eq!(of(lines, &format!("{lines}txqueuelen 1000\n")), [""; 0], "the default");
        for (more, expected) in [
            (
                "client-to-client\n",
                "tcp.conf:3: `client-to-client`, but no `client-to-client` at udp.conf:1: ",
            ),
            ("duplicate-cn\n", "tcp.conf:3: `duplicate-cn`, but no `duplicate-cn` at udp.conf:1: "),
            ("tun-mtu 1400\n", "tcp.conf:3: the MTU 1400, but the MTU 1500 at udp.conf:1: "),
            ("txqueuelen 50\n", "tcp.conf:3: `txqueuelen 50`, but `txqueuelen 1000` at udp.conf:1: "),
            (
                "server-ipv6 fd00::/64\n",
                "tcp.conf:3: the server's address fd00::1/64, but no IPv6 network at ",
            ),
        ] {
            let found = of(lines, &format!("{lines}{more}"));
            assert!(found.first().is_some_and(|line| line.starts_with(expected)), "{found:?}");
            assert!(
                found.iter().all(|line| line.ends_with("a device of its own in place of tun0")),
                "{found:?}"
            );
        }
        let found = of(lines, "dev tun0\nserver 10.9.0.0 255.255.255.0\n");
        let start = "tcp.conf:2: the server's address 10.9.0.1/24, but the server's address 10.8.0.1/24 at udp.conf:2: ";
        assert!(found.len() == 2 && found[0].starts_with(start), "{found:?}");
    }

    #[test]
    fn servers_with_one_named_device_share_a_tunnel() {
        let [udp, tcp] = ["udp", "tcp"].map(|proto| {
            server("x.conf", &format!("dev tun0\nproto {proto}\nserver 10.8.0.0 255.255.255.0\n"))
        });
        let other = server("other.conf", "dev tun1\nserver 10.9.0.0 255.255.255.0\n");
        let [any, more] = [10, 11].map(|number| {
            server("any.conf", &format!("dev tun\nport {number}\nserver 10.{number}.0.0 255.255.255.0\n"))
        });
        let all = [("udp", udp), ("other", other), ("any", any), ("more", more), ("tcp", tcp)]
            .map(|(name, parsed)| (name, Dialect::OpenVpn(Box::new(parsed))));
        let all = all.each_ref().map(|(name, dialect)| (*name, Path::new("x.conf"), dialect));
        let names: Vec<Vec<String>> =
            share(&all).into_iter().map(|shared| shared.map(|it| it.names).unwrap_or_default()).collect();
        assert_eq!(names[0], ["udp", "tcp"]);
        assert_eq!(names[4], names[0]);
        assert!(names[1..4].iter().all(Vec::is_empty), "{names:?}");
    }
}
