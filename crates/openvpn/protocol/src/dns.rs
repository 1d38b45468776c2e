//! Name servers by priority, as a configuration file and a server's push write them: `server PRIORITY address …`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use adit_core::{Dns, is_domain};

/// DNS over UDP and TCP (RFC 1035 §4.2).
const DNS_PORT: u16 = 53;
/// Most servers and domains taken: a push is short, a file need not be.
const MAX_ENTRIES: usize = 64;

/// The content of the `dns` lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsOptions {
    /// By priority: the lowest usable one is taken.
    servers: BTreeMap<i16, DnsServer>,
    search: Vec<String>,
}

/// One `dns server PRIORITY`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsServer {
    /// Its addresses, each with the port that was said with it.
    pub addresses: Vec<(IpAddr, Option<u16>)>,
    /// The domains that it is for; none: all names.
    pub domains: Vec<String>,
    /// `dnssec`: `yes`, `optional` or `no`.
    pub dnssec: Option<&'static str>,
    /// `transport`: `plain`, `DoT` or `DoH`.
    pub transport: Option<&'static str>,
    /// `sni`: the name that its certificate must have, for `DoT` and `DoH`.
    pub sni: Option<String>,
}

impl DnsOptions {
    /// Reads the words after `dns`.
    ///
    /// # Errors
    /// The fault, in a few words.
    pub fn apply<S: AsRef<str>>(&mut self, words: &[S]) -> Result<(), &'static str> {
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        match words.as_slice() {
            ["search-domains", domains @ ..] if !domains.is_empty() => add_domains(&mut self.search, domains),
            ["server", priority, what, values @ ..] if !values.is_empty() => {
                let priority = priority.parse().ok().filter(|number| (-128..=127).contains(number));
                let priority: i16 = priority.ok_or("the priority must be a number from -128 to 127")?;
                self.servers.entry(priority).or_default().apply(what, values)
            }
            _ => Err("write `search-domains NAME …` or `server PRIORITY address|resolve-domains …`"),
        }
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        *self == DnsOptions::default()
    }

    /// The servers by priority, without those that have no address.
    pub fn servers(&self) -> impl Iterator<Item = &DnsServer> {
        self.servers.values().filter(|server| !server.addresses.is_empty())
    }

    /// The domains that names are searched in.
    pub fn search_domains(&self) -> &[String] {
        &self.search
    }

    /// Adds the settings of the `dns` lines to `dns`, with those of `dhcp-option` ([`Dns::only_for`] may hold `.`: all
    /// names). Where `dns` lines name a server, `dhcp-option` does not count.
    pub fn settle(&self, dns: &mut Dns, by_dhcp: &Dns) {
        match self.servers().find(|server| server.is_usable()) {
            Some(server) => {
                let mut servers = Vec::new();
                add_new(&mut servers, server.addresses.iter().map(|(address, _)| address));
                *dns = Dns { servers, search: self.search.clone(), only_for: server.domains.clone() };
            }
            None => {
                add_new(&mut dns.servers, by_dhcp.servers.iter());
                add_new(&mut dns.search, by_dhcp.search.iter().chain(&self.search));
                if by_dhcp.only_for.iter().any(|domain| domain == ".") {
                    dns.only_for.clear();
                } else {
                    add_new(&mut dns.only_for, by_dhcp.only_for.iter());
                }
            }
        }
    }
}

fn add_new<'a, T: Clone + PartialEq + 'a>(to: &mut Vec<T>, items: impl Iterator<Item = &'a T>) {
    for item in items {
        if !to.contains(item) {
            to.push(item.clone());
        }
    }
}

impl DnsServer {
    /// Whether the system's resolver can use it: at the usual port, without TLS.
    fn is_usable(&self) -> bool {
        let is_usual = |(_, port): &(IpAddr, Option<u16>)| port.is_none_or(|port| port == DNS_PORT);
        self.addresses.iter().all(is_usual) && matches!(self.transport, None | Some("plain"))
    }

    fn apply(&mut self, what: &str, values: &[&str]) -> Result<(), &'static str> {
        const UNKNOWN: &str = "it is not known, or malformed";
        let word = |known: &[&'static str], value: &str| known.iter().find(|word| **word == value).copied();
        match (what, values) {
            ("address", addresses) => {
                for address in addresses {
                    let address = endpoint(address).ok_or("a server's address is malformed")?;
                    if self.addresses.len() < MAX_ENTRIES && !self.addresses.contains(&address) {
                        self.addresses.push(address);
                    }
                }
            }
            ("resolve-domains", domains) => add_domains(&mut self.domains, domains)?,
            ("dnssec", [value]) => {
                self.dnssec = Some(word(&["yes", "optional", "no"], value).ok_or(UNKNOWN)?)
            }
            ("transport", [value]) => {
                self.transport = Some(word(&["plain", "DoT", "DoH"], value).ok_or(UNKNOWN)?);
            }
            ("sni", [name]) if is_domain(name) => self.sni = Some((*name).to_owned()),
            _ => return Err(UNKNOWN),
        }
        Ok(())
    }
}

/// `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`.
fn endpoint(text: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Ok(address) = text.parse() {
        return Some((address, None));
    }
    let with_port = text.parse().map(|end: SocketAddr| (end.ip(), Some(end.port())));
    let in_brackets = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    with_port.ok().or_else(|| Some((IpAddr::V6(in_brackets()?), None)))
}

fn add_domains(to: &mut Vec<String>, domains: &[&str]) -> Result<(), &'static str> {
    if !domains.iter().all(|domain| is_domain(domain)) {
        return Err("a domain is no name of letters, digits, `-`, `_` and dots");
    }
    for domain in domains {
        if to.len() < MAX_ENTRIES && !to.iter().any(|known| known == domain) {
            to.push((*domain).to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(lines: &[&str]) -> DnsOptions {
        let mut options = DnsOptions::default();
        for line in lines {
            options.apply(&line.split(' ').collect::<Vec<_>>()).unwrap();
        }
        options
    }

    fn settled(lines: &[&str]) -> Dns {
        let mut dns = Dns::default();
        let by_dhcp = Dns {
            servers: vec!["10.9.9.9".parse().unwrap()],
            search: vec!["old.example".to_owned()],
            ..Dns::default()
        };
        read(lines).settle(&mut dns, &by_dhcp);
        dns
    }

    #[test]
    fn the_first_usable_server_counts() {
        let dns = settled(&[
            "server 2 address 10.8.0.2",
            "server 1 address 10.8.0.1 [fd00::1]:53",
            "server 1 resolve-domains corp.example lab.example",
            "server 1 dnssec optional",
            "server -1 address 10.8.0.3:5353",
            "server 0 address 10.8.0.4",
            "server 0 transport DoT",
            "search-domains corp.example",
        ]);
        assert_eq!(dns.servers, ["10.8.0.1".parse::<IpAddr>().unwrap(), "fd00::1".parse().unwrap()]);
        assert_eq!((dns.search.len(), dns.only_for.len()), (1, 2));
    }

    #[test]
    fn all_that_is_said_of_a_server_is_kept() {
        let options = read(&[
            "server 1 address 10.8.0.1 [fd00::1]:853 10.8.0.1",
            "server 1 dnssec yes",
            "server 1 transport DoT",
            "server 1 sni dns.example",
            "server 2 sni nowhere.example",
        ]);
        let expected = DnsServer {
            addresses: vec![("10.8.0.1".parse().unwrap(), None), ("fd00::1".parse().unwrap(), Some(853))],
            domains: Vec::new(),
            dnssec: Some("yes"),
            transport: Some("DoT"),
            sni: Some("dns.example".to_owned()),
        };
        assert_eq!(options.servers().collect::<Vec<_>>(), [&expected]);
    }

    /// The last word on a transport counts.
    #[test]
    fn an_address_that_is_said_twice_counts_once() {
        let dns = settled(&[
            "server 1 address 10.8.0.1 10.8.0.1:53",
            "server 1 transport DoH",
            "server 1 transport plain",
        ]);
        assert_eq!(dns.servers, ["10.8.0.1".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn without_a_server_dhcp_options_count() {
        let dns = settled(&["search-domains corp.example"]);
        assert_eq!(dns.servers, ["10.9.9.9".parse::<IpAddr>().unwrap()]);
        assert_eq!(dns.search, ["old.example", "corp.example"]);
    }

    #[test]
    fn what_is_no_name_or_address_is_refused() {
        for line in [
            "server 1 address 10.8.0.1;reboot",
            "server 999 address 10.8.0.1",
            "server 1 resolve-domains $(reboot)",
            "search-domains a`b`",
            "search-domains",
            "server 1 address",
            "server 1 dnssec maybe",
            "server 1 dnssec yes no",
            "server 1 transport tcp",
            "server 1 sni a;b",
            "frobnicate",
        ] {
            let mut options = DnsOptions::default();
            assert!(options.apply(&line.split(' ').collect::<Vec<_>>()).is_err(), "{line}");
        }
    }

    #[test]
    fn routed_domains_of_dhcp_options_count_without_a_server() {
        let only_for = |own: &[&str], dhcp: &[&str]| {
            let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            let mut dns = Dns { only_for: list(own), ..Dns::default() };
            DnsOptions::default().settle(&mut dns, &Dns { only_for: list(dhcp), ..Dns::default() });
            dns.only_for
        };
        assert_eq!(only_for(&["a.example"], &["b.example", "a.example"]), ["a.example", "b.example"]);
        assert_eq!(only_for(&["a.example"], &["b.example", "."]), [""; 0], "all names");
    }

    proptest! {
        #[test]
        fn any_words_are_read(words in proptest::collection::vec("[ -~]{0,12}|server|address|search-domains|1", 0..6)) {
            let _ = DnsOptions::default().apply(&words);
        }
    }
}
