//! The networks that the clients of a new server reach beyond it, and their name servers: `--full-tunnel`, `--lan`, `--dns`.

use std::net::IpAddr;

use adit_core::{IpNet, Ipv4Net, Ipv6Net};

/// Quad9's name servers, for servers whose own name servers cannot be reached by other machines.
const PUBLIC_NAME_SERVERS: [&str; 3] = ["9.9.9.9", "149.112.112.112", "2620:fe::fe"];

/// The networks that clients reach beyond the server, and the clients' name servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// All traffic of the clients goes through the server.
    pub full_tunnel: bool,
    /// Networks behind the server.
    pub lan: Vec<IpNet>,
    /// The name servers of the clients.
    pub dns: Vec<IpAddr>,
    /// The origin of the name servers, in words.
    dns_origin: &'static str,
}

impl Reach {
    /// Chooses the name servers: those that were named, or with a full tunnel this machine's own, which `own` gives, or else public
    /// ones.
    pub fn choose(
        full_tunnel: bool,
        lan: Vec<IpNet>,
        named: Vec<IpAddr>,
        own: &dyn Fn() -> Vec<IpAddr>,
    ) -> Self {
        let (dns, dns_origin) = match (named.is_empty(), full_tunnel) {
            (false, _) => (named, "as --dns says"),
            (true, false) => (Vec::new(), ""),
            (true, true) => match own() {
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
    pub fn is_any(&self) -> bool {
        self.full_tunnel || !self.lan.is_empty()
    }

    /// The networks that clients reach beyond the server; prefixes of length 0 are the internet.
    pub fn networks(&self) -> Vec<IpNet> {
        let all = [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
        let internet = all.into_iter().filter(|_| self.full_tunnel);
        internet.chain(self.lan.iter().copied()).collect()
    }

    /// The networks that clients reach, and their name servers, in words, each with its heading.
    pub fn words(&self) -> Vec<(&'static str, String)> {
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
}

/// A network behind the server, as `--lan` names it.
///
/// # Errors
/// The form or the option to write instead.
pub fn lan(text: &str) -> Result<IpNet, String> {
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
    use super::*;

    #[test]
    fn a_full_tunnel_has_name_servers_in_any_case() {
        let choose = |own: &dyn Fn() -> Vec<IpAddr>| Reach::choose(true, Vec::new(), Vec::new(), own).dns;
        let own = vec![IpAddr::from([192, 0, 2, 53])];
        assert_eq!(choose(&|| own.clone()), own);
        assert_eq!(choose(&Vec::new).len(), PUBLIC_NAME_SERVERS.len());
    }

    #[test]
    fn networks_are_networks() {
        assert!(lan("192.168.1.7/24").is_err_and(|why| why.ends_with("write 192.168.1.0/24")));
        assert!(lan("0.0.0.0/0").is_err_and(|why| why.contains("--full-tunnel")));
        assert!(lan("home").is_err_and(|why| why.contains("such as 192.168.1.0/24")));
    }
}
