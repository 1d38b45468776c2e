//! Endpoints by name.

mod again;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::thread;
use std::time::Duration;

use adit_core::{Severity, escaped};
use adit_guard::HelperFiles;
use adit_wireguard::Sockets;
use adit_wireguard_config::{Parsed, Peer};

pub(super) use self::again::NamedPeers;
use adit_host::failure::Failure;
use adit_host::log::Logger;

/// Where peers are, by the lines of their sections.
pub(super) type Endpoints = BTreeMap<u32, SocketAddr>;

/// How often a name is asked for again while no name server answers (wg(8), `WG_ENDPOINT_RESOLUTION_RETRIES`).
const RETRIES: u32 = 15;
/// The first wait.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// No wait is longer.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// The families of addresses for which there are sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Families {
    ipv4: bool,
    ipv6: bool,
}

impl Families {
    /// The families for which the system can make sockets.
    pub(super) fn of_the_system() -> Self {
        Families { ipv4: true, ipv6: adit_io::has_ipv6() }
    }

    /// The families of sockets that are bound.
    pub(super) const fn of(sockets: Sockets) -> Self {
        Families { ipv4: sockets.ipv4.is_some(), ipv6: sockets.ipv6.is_some() }
    }

    /// Of the addresses that were found for a name those that can be used, with that port.
    ///
    /// # Errors
    /// There is none.
    fn usable(self, found: Vec<SocketAddr>, port: u16) -> io::Result<Vec<SocketAddr>> {
        if found.is_empty() {
            return Err(io::Error::other("the name has no address"));
        }
        let found = found.into_iter().map(|address| at_port(address, port));
        let usable: Vec<_> = found.filter(|it| if it.is_ipv4() { self.ipv4 } else { self.ipv6 }).collect();
        if usable.is_empty() {
            let lacks = if self.ipv4 { "IPv6" } else { "IPv4" };
            let why = format!("the name has only {lacks} addresses, and there is no socket for {lacks} here");
            return Err(io::Error::other(why));
        }
        Ok(usable)
    }
}

/// The resolver of names.
pub(super) enum Resolver<'a> {
    /// This process, before it has given up its rights.
    System,
    /// This process, before it has given up its rights, while the kill switch is on. The file has the name
    /// servers, in place of `/etc/resolv.conf`.
    Marked(Option<&'a Path>),
    /// The helper.
    Helper(&'a HelperFiles),
}

impl Resolver<'_> {
    fn resolve(&self, host: &str, port: u16, families: Families) -> io::Result<SocketAddr> {
        if let Some((address, zone)) = literal(host) {
            let mut endpoint = SocketAddr::new(address, port);
            if let (SocketAddr::V6(endpoint), Some(zone)) = (&mut endpoint, zone) {
                endpoint.set_scope_id(adit_system::scope_of_zone(zone)?);
            }
            return Ok(endpoint);
        }
        let found = match self {
            Resolver::System => (host, port).to_socket_addrs()?.collect(),
            Resolver::Marked(resolv_conf) => {
                adit_io::opener::look_up_marked(host, resolv_conf.map(Path::to_owned))?
            }
            Resolver::Helper(files) => files.look_up_one(host)?.map_err(io::Error::other)?,
        };
        let usable = families.usable(found, port)?;
        let first = match self {
            Resolver::System => adit_io::first_not_refusing(&usable, 0),
            // The kill switch lets out what has this mark alone.
            Resolver::Marked(_) => adit_io::first_not_refusing(&usable, adit_system::MARK),
            // The interface runs, and its addresses have their turn (`again`).
            Resolver::Helper(_) => usable.first().copied(),
        };
        first.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The address that a host is, and its zone (RFC 4007 §11) as in `fe80::1%eth0`. `None`: it is a name.
fn literal(host: &str) -> Option<(IpAddr, Option<&str>)> {
    match host.split_once('%') {
        Some((address, zone)) => Some((IpAddr::V6(address.parse().ok()?), Some(zone))),
        None => Some((host.parse().ok()?, None)),
    }
}

/// An address that was found for a name, with that port. One of a link keeps its scope, without which it cannot be reached.
fn at_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    if let IpAddr::V4(canonical) = address.ip().to_canonical() {
        return (canonical, port).into();
    }
    address.set_port(port);
    address
}

/// Finds where all peers are: the first address of each name, as `wg` does, but of those for which there is a socket, and that do
/// not refuse datagrams at once.
///
/// # Errors
/// A name that does not exist, or cannot be asked for; the line is named.
pub(super) fn look_up(
    file: &Path,
    parsed: &Parsed,
    (resolver, families): (&Resolver<'_>, Families),
    log: &mut Logger,
) -> Result<Endpoints, Failure> {
    let mut endpoints = Endpoints::new();
    let retries = retries(std::env::var("WG_ENDPOINT_RESOLUTION_RETRIES").ok().as_deref());
    for peer in &parsed.config.peers {
        let Some(endpoint) = &peer.endpoint else { continue };
        let place = place(file, parsed, peer);
        let mut waits = waits(retries);
        let found = loop {
            match resolver.resolve(&endpoint.host, endpoint.port, families) {
                Ok(found) => break found,
                Err(error) => {
                    let why = format!("{place}: Endpoint {}: {error}", escaped(&endpoint.host));
                    let wait = waits.next().filter(|_| is_passing(&error));
                    let Some(wait) = wait else { return Err(Failure::World(why)) };
                    let seconds = wait.as_secs_f32();
                    log.log(Severity::Warning, format_args!("{why}; trying again in {seconds:.1} s"));
                    thread::sleep(wait);
                }
            }
        };
        endpoints.insert(peer.line, found);
    }
    Ok(endpoints)
}

/// Whether another attempt may succeed. The C library's EAI_AGAIN comes as its text alone.
fn is_passing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut || error.to_string().contains("Temporary failure")
}

/// `None`: without end.
fn retries(variable: Option<&str>) -> Option<u32> {
    match variable {
        Some("infinity") => None,
        Some(number) => Some(number.parse().unwrap_or(RETRIES)),
        None => Some(RETRIES),
    }
}

fn waits(retries: Option<u32>) -> impl Iterator<Item = Duration> {
    let all = std::iter::successors(Some(FIRST_WAIT), |wait| Some(wait.mul_f32(1.2).min(LONGEST_WAIT)));
    all.take(retries.map_or(usize::MAX, |count| count as usize))
}

/// The line of a peer's `Endpoint`.
fn place(file: &Path, parsed: &Parsed, peer: &Peer) -> String {
    let mut after = parsed.report.iter().filter(|entry| entry.line > peer.line);
    let line = after.find(|entry| entry.directive.eq_ignore_ascii_case("Endpoint"));
    format!("{}:{}", file.display(), line.map_or(peer.line, |entry| entry.line))
}

#[cfg(test)]
mod tests {
    use adit_host::log::LogSettings;

    use super::*;

    const BOTH: Families = Families { ipv4: true, ipv6: true };

    #[test]
    fn addresses_are_taken_as_they_are() {
        let resolve = |host, port| Resolver::System.resolve(host, port, BOTH);
        assert_eq!(resolve("192.0.2.1", 7).unwrap(), "192.0.2.1:7".parse().unwrap());
        assert_eq!(resolve("2001:db8::1", 7).unwrap(), "[2001:db8::1]:7".parse().unwrap());
        assert!(resolve("localhost", 7).unwrap().ip().is_loopback());
    }

    #[test]
    fn an_address_of_one_link_has_the_scope_of_its_interface() {
        let resolve = |host| Resolver::System.resolve(host, 7, BOTH);
        // The loopback device is the first of every network namespace.
        assert_eq!(resolve("fe80::1%lo").unwrap(), "[fe80::1%1]:7".parse().unwrap());
        assert_eq!(resolve("fe80::1%42").unwrap(), "[fe80::1%42]:7".parse().unwrap());
        let error = resolve("fe80::1%none").unwrap_err();
        assert!(error.to_string().contains("no such interface") && !is_passing(&error), "{error}");
    }

    /// A machine without IPv6 would never reach an IPv6 address that came first.
    #[test]
    fn addresses_without_a_socket_of_their_family_are_left_out() {
        let found =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let of = |ipv4, ipv6| Families::of(Sockets { port: 7, ipv4, ipv6 });
        let both = found(&["[2001:db8::1]:0", "192.0.2.1:0", "[::ffff:192.0.2.2]:0"]);
        let usable = |families: Families| families.usable(both.clone(), 7).unwrap();
        let [v6, first, second] =
            ["[2001:db8::1]:7", "192.0.2.1:7", "192.0.2.2:7"].map(|it| it.parse().unwrap());
        assert_eq!(usable(of(Some(1), None)), [first, second]);
        assert_eq!(usable(of(None, Some(2))), [v6]);
        assert_eq!(usable(of(Some(1), Some(2))), [v6, first, second]);
        let error = of(Some(1), None).usable(found(&["[2001:db8::1]:0"]), 7).unwrap_err();
        assert!(error.to_string().contains("only IPv6 addresses") && !is_passing(&error), "{error}");
        assert!(BOTH.usable(Vec::new(), 7).is_err());
    }

    /// The error names the endpoint and its line.
    #[test]
    fn a_name_without_a_usable_address_is_an_error_with_its_line() {
        let key = adit_wireguard::PublicKey([1; 32]);
        let text = format!("[Interface]\n[Peer]\nPublicKey = {key}\nEndpoint = localhost:7\n");
        let parsed = adit_wireguard_config::parse(text.as_bytes(), "wg0.conf").unwrap();
        let by = (&Resolver::System, Families { ipv4: false, ipv6: false });
        let mut log = Logger::new(&LogSettings::default()).unwrap();
        let outcome = look_up(Path::new("wg0.conf"), &parsed, by, &mut log);
        let Err(Failure::World(why)) = outcome else { panic!("no address can be used") };
        assert!(why.starts_with("wg0.conf:4: Endpoint localhost: the name has only "), "{why}");
    }

    #[test]
    fn found_addresses_keep_their_scopes() {
        let found = |text: &str| at_port(text.parse().unwrap(), 7).to_string();
        assert_eq!(found("[fe80::1%3]:0"), "[fe80::1%3]:7");
        assert_eq!(found("[2001:db8::1]:0"), "[2001:db8::1]:7");
        assert_eq!([found("[::ffff:192.0.2.1]:0"), found("192.0.2.1:0")], ["192.0.2.1:7"; 2]);
    }

    #[test]
    fn waits_grow_to_a_limit() {
        let all: Vec<Duration> = waits(Some(RETRIES)).collect();
        assert_eq!((all.len(), all[0]), (15, FIRST_WAIT));
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]) && all[14] <= LONGEST_WAIT, "{all:?}");
        assert_eq!(waits(None).nth(1000), Some(LONGEST_WAIT));
        assert_eq!([retries(Some("3")), retries(Some("infinity")), retries(None)], [Some(3), None, Some(15)]);
    }
}
