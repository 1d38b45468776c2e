//! Paths on which datagrams do not fit, as the kernel learns it by ICMP (RFC 1191, RFC 8201): how large those may be that do.
//!
//! Larger ones still arrive, but each in fragments and by a send of its own. So the driver notifies protocols, which
//! can have the packets in the tunnel fit.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use adit_core::Instant;
use adit_system::Netlink;

/// How often the kernel is asked again.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Addresses that are known at once; the protocol learns of no others.
const MOST: usize = 1024;
/// The least MTU that protocols get: every IPv6 path carries it (RFC 8200 §5), and IPv4 paths that carry less are
/// hardly found, whereas a forged ICMP message may hold any number. Datagrams that do not fit then go in fragments.
const LEAST: u16 = 1280;

/// The known MTUs of such paths.
#[derive(Default)]
pub(super) struct PathMtus {
    /// `None`: not opened yet, or the system refuses.
    netlink: Option<Netlink>,
    /// When to ask again.
    known: BTreeMap<IpAddr, Instant>,
}

impl PathMtus {
    /// Opens the connection to the kernel, which a confined process cannot open any more.
    pub(super) fn new() -> Self {
        PathMtus { netlink: Netlink::open().ok(), known: BTreeMap::new() }
    }

    /// The MTUs to report now, where `limited` are the addresses to which datagrams did not fit lately, and `mark` is
    /// the firewall mark of the datagrams.
    pub(super) fn look(
        &mut self,
        now: Instant,
        mark: u32,
        limited: impl IntoIterator<Item = IpAddr>,
    ) -> Vec<(IpAddr, Option<u16>)> {
        for address in limited {
            if self.known.len() < MOST {
                self.known.entry(address).or_insert(now);
            }
        }
        let Some(netlink) = &mut self.netlink else { return Vec::new() };
        let mut told = Vec::new();
        self.known.retain(|address, due| {
            if now < *due {
                return true;
            }
            *due = now + LOOK_EVERY;
            let mtu = netlink.known_path_mtu(*address, mark).ok().flatten();
            told.push((*address, mtu.map(|mtu| u16::try_from(mtu).unwrap_or(u16::MAX).max(LEAST))));
            mtu.is_some()
        });
        told
    }
}

#[cfg(test)]
mod tests {
    use adit_system::testing::in_fresh_network;

    use super::*;

    fn ip(words: &str) {
        let status = std::process::Command::new("ip").args(words.split(' ')).status().unwrap();
        assert!(status.success(), "ip {words}");
    }

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    #[test]
    fn the_mtu_of_a_path_is_told_again_and_when_it_is_wide() {
        in_fresh_network(|| {
            ip("link set lo up");
            ip("link add one type veth peer name other");
            ip("link set one up");
            ip("address add 192.0.2.1/24 dev one");
            ip("address add 2001:db8::1/64 dev one nodad");
            let addresses: [IpAddr; 2] = ["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
            let mut mtus = PathMtus::new();
            assert_eq!(mtus.look(at(0), 0, []), []);
            for address in addresses {
                ip(&format!("route add {address} dev one mtu 1300"));
                assert_eq!(mtus.look(at(0), 0, [address]), [(address, Some(1300))]);
                assert_eq!(mtus.look(at(9), 0, [address]), [], "it was told");
                ip(&format!("route change {address} dev one mtu 600"));
                assert_eq!(mtus.look(at(10), 0, []), [(address, Some(LEAST))]);
                ip(&format!("route delete {address} dev one"));
                assert_eq!(mtus.look(at(20), 0, []), [(address, None)]);
                assert_eq!(mtus.look(at(40), 0, []), [], "it is forgotten");
            }
        });
    }

    #[test]
    fn addresses_are_bounded() {
        in_fresh_network(|| {
            ip("link set lo up");
            ip("route add 10.0.0.0/8 dev lo mtu 1300");
            let mut mtus = PathMtus::new();
            let limited = (0..2000_u32).map(|number| IpAddr::from((0x0a00_0000 + number).to_be_bytes()));
            assert_eq!(mtus.look(at(0), 0, limited).len(), MOST);
        });
    }
}
