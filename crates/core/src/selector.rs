use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;

/// Traffic of a session, by addresses, IP protocol and ports (RFC 4301 §4.4.1.1, RFC 7296 §3.13).
///
/// A peer's routes say which peer a packet is for. Selectors say, in addition, which packets a session of that peer may
/// carry. Where there are several, one that matches is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Inner addresses on our side: sources of what we send, destinations of what we receive.
    pub local: RangeInclusive<IpAddr>,
    /// Inner addresses on the peer's side. Of the same family as those on ours.
    pub remote: RangeInclusive<IpAddr>,
    /// The IP protocol; `None`: any.
    pub protocol: Option<u8>,
    /// Ports on our side. If these are not [`Selector::ANY_PORT`], a packet without ports, or a fragment, does not match.
    pub local_ports: RangeInclusive<u16>,
    /// Ports on the peer's side, likewise.
    pub remote_ports: RangeInclusive<u16>,
}

impl Selector {
    /// All ports, and packets that have none.
    pub const ANY_PORT: RangeInclusive<u16> = 0..=u16::MAX;

    /// All packets between two networks of one family.
    pub fn between(local: IpNet, remote: IpNet) -> Self {
        Selector {
            local: local.network()..=local.broadcast(),
            remote: remote.network()..=remote.broadcast(),
            protocol: None,
            local_ports: Selector::ANY_PORT,
            remote_ports: Selector::ANY_PORT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_the_range_of_its_addresses() {
        let selector = Selector::between("10.1.2.3/16".parse().unwrap(), "10.9.0.1/32".parse().unwrap());
        let range = |first: &str, last: &str| first.parse().unwrap()..=last.parse().unwrap();
        assert_eq!(selector.local, range("10.1.0.0", "10.1.255.255"));
        assert_eq!(selector.remote, range("10.9.0.1", "10.9.0.1"));
        let selector = Selector::between("fd00::/64".parse().unwrap(), "::/0".parse().unwrap());
        assert_eq!(selector.local, range("fd00::", "fd00::ffff:ffff:ffff:ffff"));
        assert_eq!(selector.remote, range("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
    }
}
