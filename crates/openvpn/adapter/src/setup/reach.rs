//! The lines of a server's file about the networks that clients reach beyond it, and about their name servers.

use std::fmt::Write as _;

use adit_core::IpNet;
use adit_setup::Reach;

use crate::forwarding::dhcp_option;

/// The lines of server.conf that give clients these networks and name servers.
pub(super) fn lines(reach: &Reach) -> String {
    let mut text = String::new();
    if !reach.is_any() {
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
    if reach.full_tunnel {
        text.push_str("#adit: forward = internet\npush \"redirect-gateway def1 ipv6\"\n");
    }
    for net in &reach.lan {
        let _ = writeln!(text, "#adit: forward = {net}");
        let _ = match net {
            IpNet::V4(net) => writeln!(text, "push \"route {} {}\"", net.addr(), net.netmask()),
            IpNet::V6(net) => writeln!(text, "push \"route-ipv6 {net}\""),
        };
    }
    for address in &reach.dns {
        let _ = writeln!(text, "push \"dhcp-option {} {address}\"", dhcp_option(address));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use adit_openvpn_config::Role;
    use adit_setup::lan;

    use super::*;

    #[test]
    fn lines_say_what_the_options_say() {
        let lan = ["192.168.1.0/24", "fd00:1::/64"].map(|net| lan(net).unwrap()).to_vec();
        let dns = ["192.0.2.53", "2001:db8::53"].map(|address| address.parse().unwrap()).to_vec();
        let reach = Reach::choose(true, lan, dns, &Vec::new);
        let config = parse(&lines(&reach));
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
        let reach = Reach::choose(false, Vec::new(), Vec::new(), &Vec::new);
        assert!(!reach.is_any() && reach.words().is_empty());
        let Role::Server(server) = parse(&lines(&reach)).role else { panic!("a server") };
        assert!(server.forward.is_empty());
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
