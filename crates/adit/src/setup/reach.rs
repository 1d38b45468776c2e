//! The networks that the clients of a new server reach beyond it, and their name servers: `--full-tunnel`, `--lan`, `--dns`.

use std::fmt::Write as _;
use std::net::IpAddr;

use adit_core::IpNet;

use adit_host::forwarding;
use adit_openvpn_adapter::forwarding::dhcp_option;

/// Quad9's name servers, for servers whose own name servers cannot be reached by other machines.
const PUBLIC_NAME_SERVERS: [&str; 3] = ["9.9.9.9", "149.112.112.112", "2620:fe::fe"];

/// The networks that clients reach beyond the server, and the clients' name servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// All traffic of the clients goes through the server.
    pub(crate) full_tunnel: bool,
    /// Networks behind the server.
    pub(crate) lan: Vec<IpNet>,
    /// The name servers of the clients.
    pub(crate) dns: Vec<IpAddr>,
    /// The origin of the name servers, in words.
    dns_origin: &'static str,
}

impl Reach {
    /// Chooses the name servers: those that were named, or with a full tunnel this machine's own, or else public ones.
    pub(crate) fn choose(full_tunnel: bool, lan: Vec<IpNet>, named: Vec<IpAddr>) -> Self {
        let (dns, dns_origin) = match (named.is_empty(), full_tunnel) {
            (false, _) => (named, "as --dns says"),
            (true, false) => (Vec::new(), ""),
            (true, true) => match forwarding::name_servers() {
                own if !own.is_empty() => (own, "those of this machine; --dns names others"),
                _ => (
                    PUBLIC_NAME_SERVERS.into_iter().filter_map(|text| text.parse().ok()).collect(),
                    "Quad9's, as those of this machine answer it alone; --dns names others",
                ),
            },
        };
        Reach { full_tunnel, lan, dns, dns_origin }
    }

    /// Whether clients reach anything beyond the server.
    pub(crate) fn is_any(&self) -> bool {
        self.full_tunnel || !self.lan.is_empty()
    }

    /// The networks that clients reach, and their name servers, in words, each with its heading.
    pub(crate) fn words(&self) -> Vec<(&'static str, String)> {
        let mut words = Vec::new();
        let mut reached: Vec<String> = self.lan.iter().map(ToString::to_string).collect();
        if self.full_tunnel {
            reached.insert(0, "the internet through this server, by IPv4 and IPv6".to_owned());
        }
        if !reached.is_empty() {
            words.push(("Clients reach:", reached.join("; ")));
        }
        if !self.dns.is_empty() {
            let dns: Vec<String> = self.dns.iter().map(ToString::to_string).collect();
            words.push(("Name servers:", format!("{} ({})", dns.join(", "), self.dns_origin)));
        }
        words
    }

    /// The lines of server.conf that give clients these networks and name servers.
    pub(super) fn lines(&self) -> String {
        let mut text = String::new();
        if !self.is_any() {
            text.push_str(
                "# To carry all traffic of the clients: `#adit: forward = internet` on a line of its own. To give them a\n\
                 # network behind this machine: `#adit: forward = 192.168.1.0/24`. adit forwards and translates by itself.\n",
            );
        } else {
            text.push_str(
                "# What clients reach beyond this machine: adit forwards and translates it. OpenVPN takes these lines for\n\
                 # comments, and leaves that to you.\n",
            );
        }
        // Writing to a string cannot fail.
        if self.full_tunnel {
            text.push_str("#adit: forward = internet\npush \"redirect-gateway def1 ipv6\"\n");
        }
        for net in &self.lan {
            let _ = writeln!(text, "#adit: forward = {net}");
            let _ = match net {
                IpNet::V4(net) => writeln!(text, "push \"route {} {}\"", net.addr(), net.netmask()),
                IpNet::V6(net) => writeln!(text, "push \"route-ipv6 {net}\""),
            };
        }
        for address in &self.dns {
            let _ = writeln!(text, "push \"dhcp-option {} {address}\"", dhcp_option(address));
        }
        text
    }
}

/// A network behind the server, as `--lan` names it.
///
/// # Errors
/// The form or the option to write instead.
pub(crate) fn lan(text: &str) -> Result<IpNet, String> {
    let host = || text.parse().ok().map(|address: IpAddr| IpNet::from(address));
    let net = text
        .parse::<IpNet>()
        .ok()
        .or_else(host)
        .ok_or("it is a network such as 192.168.1.0/24 or fd00:1::/64")?;
    if net.prefix_len() == 0 {
        return Err("that is the internet: --full-tunnel".to_owned());
    }
    match net == net.trunc() {
        true => Ok(net),
        false => Err(format!("{net} has bits beyond its prefix: write {}", net.trunc())),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use adit_openvpn_config::Role;

    use super::*;

    #[test]
    fn lines_say_what_the_options_say() {
        let lan = ["192.168.1.0/24", "fd00:1::/64"].map(|net| lan(net).unwrap()).to_vec();
        let dns = ["192.0.2.53", "2001:db8::53"].map(|address| address.parse().unwrap()).to_vec();
        let reach = Reach::choose(true, lan, dns);
        let config = parse(&reach.lines());
        let Role::Server(server) = config.role else { panic!("a server") };
        let expected = ["0.0.0.0/0", "::/0", "192.168.1.0/24", "fd00:1::/64"].map(|net| net.parse().unwrap());
        assert_eq!(server.forward, expected);
        let pushed = [
            "redirect-gateway def1 ipv6",
            "route 192.168.1.0 255.255.255.0",
            "route-ipv6 fd00:1::/64",
            "dhcp-option DNS 192.0.2.53",
            "dhcp-option DNS6 2001:db8::53",
        ];
        // Nothing is pushed twice, nor are this machine's own name servers.
        let known = |option: &&String| {
            !["topology", "route-gateway", "tun-ipv6"].iter().any(|it| option.starts_with(it))
        };
        assert_eq!(server.push.iter().filter(known).collect::<Vec<_>>(), pushed);
        assert!(reach.words()[0].1.starts_with("the internet through this server"));
    }

    #[test]
    fn without_options_nothing_is_forwarded() {
        let reach = Reach::choose(false, Vec::new(), Vec::new());
        assert!(!reach.is_any() && reach.words().is_empty());
        let Role::Server(server) = parse(&reach.lines()).role else { panic!("a server") };
        assert!(server.forward.is_empty());
        // A full tunnel has name servers in any case.
        assert!(!Reach::choose(true, Vec::new(), Vec::new()).dns.is_empty());
    }

    #[test]
    fn networks_are_networks() {
        assert!(lan("192.168.1.7/24").is_err_and(|why| why.ends_with("write 192.168.1.0/24")));
        assert!(lan("0.0.0.0/0").is_err_and(|why| why.contains("--full-tunnel")));
        assert!(lan("home").is_err_and(|why| why.contains("such as 192.168.1.0/24")));
    }

    fn parse(lines: &str) -> adit_openvpn_config::Config {
        let text = format!(
            "server 10.8.0.0 255.255.255.0\nserver-ipv6 fd00:8::/64\n{lines}<ca>\n-----BEGIN CERTIFICATE-----\n</ca>\n\
             <cert>\n-----BEGIN CERTIFICATE-----\n</cert>\n<key>\n-----BEGIN PRIVATE KEY-----\n</key>\n"
        );
        let none = |_: &Path| Err("no such file".to_owned());
        adit_openvpn_config::parse("server.conf", text.as_bytes(), &none).unwrap().config
    }
}
