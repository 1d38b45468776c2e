//! Peers that are answered from the address that they write to, when the system's route to them leads by another device than
//! before: their datagrams would go on leaving from the address of the device that was given up.
//!
//! So the protocol lets the system choose the source address again, as the kernel's tunnels do when the device of a route is not
//! that at which the peer's datagrams arrive.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use adit_core::{Instant, Path, PeerId};
use adit_system::{Netlink, RouteChangeWatch, RouteChanges};

use super::sources::Sources;
use crate::poller::{Interest, Poller, Token};

/// Between two looks at peers.
const PAUSE: Duration = Duration::from_millis(100);
/// Looking takes at most one part in so many of the time, however many peers there are.
const LOOKS_SHARE: u32 = 10;
/// Datagrams that a peer sent before it knew of the new address come to the old one for a while, which then is its
/// address again: so many more looks follow a change ...
const MORE_LOOKS: u32 = 4;
/// ... with so much time between them.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Looks for such peers after routes have changed.
pub(super) struct SourceCheck {
    watch: RouteChangeWatch,
    netlink: Netlink,
    /// Changes were reported that are not read yet.
    heard: bool,
    /// Word of changes waits until then.
    rests_until: Instant,
    /// The changes before the looks that are left.
    changes: RouteChanges,
    looks: u32,
    /// When the next of them is due.
    again: Instant,
}

impl SourceCheck {
    /// Begins to listen.
    pub(super) fn new(poller: &Poller) -> io::Result<Self> {
        let (watch, netlink) = (RouteChangeWatch::new()?, Netlink::open()?);
        poller.add(&watch, Token::SourceRoutes, Interest::Read)?;
        let (rests_until, again) = (Instant::ORIGIN, Instant::ORIGIN);
        let changes = RouteChanges::default();
        Ok(SourceCheck { watch, netlink, heard: false, rests_until, changes, looks: 0, again })
    }

    /// Notes that a change was reported. Further changes do not wake the thread until this one was looked at.
    pub(super) fn woke(&mut self, poller: &Poller) {
        poller.remove(&self.watch);
        self.heard = true;
    }

    /// When to look at the peers.
    pub(super) fn due(&self) -> Option<Instant> {
        let heard = self.heard.then_some(self.rests_until);
        let again = (self.looks != 0).then_some(self.again);
        heard.into_iter().chain(again).min()
    }

    /// Whether to look at the peers now.
    pub(super) fn is_due(&mut self, now: Instant, poller: &Poller) -> bool {
        if self.due().is_none_or(|due| now < due) {
            return false;
        }
        if std::mem::take(&mut self.heard) {
            self.watch.take(&mut self.changes);
            // Where the system refuses that, sources are forgotten when datagrams go unanswered.
            let _ = poller.add(&self.watch, Token::SourceRoutes, Interest::Read);
            self.looks = if self.changes.is_empty() { 0 } else { 1 + MORE_LOOKS };
            self.rests_until = now + PAUSE;
        }
        self.looks != 0
    }

    /// The peers to which the system's route, for datagrams with that firewall mark, leads by another device than those at
    /// which datagrams to their local address arrive, if the address is that of such a device.
    pub(super) fn redirected(
        &mut self,
        sources: &Sources,
        mark: u32,
        peers: impl Iterator<Item = (PeerId, Path)>,
    ) -> Vec<(PeerId, Path)> {
        let mut owners = None;
        peers.filter(|(_, path)| self.is_redirected(sources, mark, path, &mut owners)).collect()
    }

    fn is_redirected(
        &mut self,
        sources: &Sources,
        mark: u32,
        path: &Path,
        owners: &mut Option<Vec<(IpAddr, u32)>>,
    ) -> bool {
        let Some(arrivals) = path.socket().and_then(|socket| sources.arrivals(socket)) else { return false };
        let remote = path.remote().ip().to_canonical();
        if !self.changes.may_redirect(remote, &arrivals.devices) {
            return false;
        }
        let Ok(hop) = self.netlink.next_hop_of_marked(remote, mark) else { return false };
        if arrivals.devices.contains(&hop.device) || hop.source == Some(arrivals.address) {
            return false;
        }
        // One of the loopback device, say, is right whatever device datagrams leave by.
        let owners = owners.get_or_insert_with(|| self.netlink.device_addresses().unwrap_or_default());
        owners
            .iter()
            .any(|(address, device)| *address == arrivals.address && arrivals.devices.contains(device))
    }

    /// The look that was due is over.
    pub(super) fn looked(&mut self, began: Instant, now: Instant) {
        self.looks = self.looks.saturating_sub(1);
        if self.looks == 0 {
            self.changes = RouteChanges::default();
        }
        let rest = (now - began) * LOOKS_SHARE;
        (self.rests_until, self.again) = (now + PAUSE.max(rest), now + LOOK_AGAIN.max(rest));
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use adit_sys::LocalAddress;
    use adit_system::testing::in_fresh_network;

    use super::*;
    use crate::clock;

    const BEFORE: &str = "\
link add one type veth peer name other
link set one up
link set other up
link add two type veth peer name another
link set two up
link set another up
link set lo up
address add 192.0.2.1/32 dev one
address add 192.0.2.2/32 dev two
address add 192.0.2.3/32 dev lo
route add 192.0.2.128/25 dev one src 192.0.2.1 metric 2
route add 198.51.100.0/24 dev one src 192.0.2.1
address add 2001:db8:1::1/128 dev one nodad
address add 2001:db8:2::2/128 dev two nodad
-6 route add 2001:db8:9::/48 dev one src 2001:db8:1::1 metric 9";

    fn ip(words: &str) {
        let status = std::process::Command::new("ip").args(words.split(' ')).status().unwrap();
        assert!(status.success(), "ip {words}");
    }

    fn index(name: &str) -> u32 {
        Netlink::open().unwrap().link(name).unwrap().index
    }

    /// Sources with one socket, and the numbers of those addresses, at which datagrams arrived by those devices.
    fn sources<const N: usize>(arrived: [(&str, &str); N]) -> (Sources, [u32; N]) {
        let sources = Sources::default();
        let socket = sources.next_number();
        sources.add_socket(socket, 51820);
        let numbers = arrived.map(|(address, device)| {
            let local = LocalAddress { ip: address.parse().unwrap(), device: 0 };
            sources.arrived(socket, (local, index(device)), clock(), |_, _| ()).number
        });
        (sources, numbers)
    }

    fn peer(number: u32, remote: &str) -> (PeerId, Path) {
        let remote = SocketAddr::new(remote.parse().unwrap(), 51820);
        (PeerId(number), Path::Udp { socket: number, remote })
    }

    #[test]
    fn a_route_by_another_device_redirects_the_peers_behind_it() {
        in_fresh_network(|| {
            BEFORE.lines().for_each(ip);
            let poller = Poller::new().unwrap();
            let mut check = SourceCheck::new(&poller).unwrap();
            let now = clock();
            assert_eq!((check.due(), check.is_due(now, &poller)), (None, false));
            let (sources, [of_one, of_lo]) = sources([("192.0.2.1", "one"), ("192.0.2.3", "one")]);
            let peers = [
                peer(of_one, "192.0.2.200"),
                peer(of_lo, "192.0.2.200"),
                peer(of_one, "198.51.100.7"),
                // The socket's own number.
                peer(0, "192.0.2.200"),
            ];
            let redirected =
                |check: &mut SourceCheck, mark| check.redirected(&sources, mark, peers.into_iter());
            ip("route add 192.0.2.128/25 dev two src 192.0.2.2 metric 1");
            check.woke(&poller);
            assert!(check.is_due(now, &poller));
            assert_eq!(redirected(&mut check, 0), [peers[0]]);
            check.looked(now, now);
            // Datagrams to the old address that were on their way have it used again.
            for look in 1..=MORE_LOOKS {
                let at = now + LOOK_AGAIN * look;
                assert_eq!(check.due(), Some(at));
                assert!(check.is_due(at, &poller));
                assert_eq!(redirected(&mut check, 0), [peers[0]]);
                check.looked(at, at);
            }
            assert_eq!(check.due(), None);
            assert!(!check.is_due(now + LOOK_AGAIN * 9, &poller));
            // By the mark the route is another.
            let later = now + LOOK_AGAIN * 10;
            ip("rule add fwmark 7 lookup 7");
            ip("route add 198.51.100.0/24 dev two src 192.0.2.2 table 7");
            check.woke(&poller);
            assert!(check.is_due(later, &poller));
            assert_eq!(redirected(&mut check, 0), []);
            assert_eq!(redirected(&mut check, 7), [peers[2]]);
        });
    }

    #[test]
    fn the_same_holds_for_ipv6() {
        in_fresh_network(|| {
            BEFORE.lines().for_each(ip);
            let poller = Poller::new().unwrap();
            let (sources, [of_one]) = sources([("2001:db8:1::1", "one")]);
            let mut check = SourceCheck::new(&poller).unwrap();
            ip("-6 route add 2001:db8:9::/48 dev two src 2001:db8:2::2 metric 8");
            check.woke(&poller);
            assert!(check.is_due(clock(), &poller));
            let peers = [peer(of_one, "2001:db8:9::7")];
            assert_eq!(check.redirected(&sources, 0, peers.into_iter()), peers);
        });
    }

    #[test]
    fn a_route_that_goes_redirects_too_and_what_concerns_others_does_not() {
        in_fresh_network(|| {
            BEFORE.lines().for_each(ip);
            let poller = Poller::new().unwrap();
            // The way there and back differ from the start, which is nothing that a change of other routes alters.
            let (sources, [of_two]) = sources([("192.0.2.2", "two")]);
            let mut check = SourceCheck::new(&poller).unwrap();
            let peers = [peer(of_two, "192.0.2.200")];
            let mut look = |words: &str, now| {
                ip(words);
                check.woke(&poller);
                assert!(check.is_due(now, &poller), "{words}");
                let found = check.redirected(&sources, 0, peers.into_iter());
                check.looked(now, now);
                found
            };
            let now = clock();
            assert_eq!(look("route add 203.0.113.0/24 dev two", now), []);
            let later = now + PAUSE;
            assert_eq!(look("route add 192.0.2.192/26 dev two src 192.0.2.2", later), []);
            assert_eq!(look("route delete 192.0.2.192/26 dev two", later + PAUSE), peers);
        });
    }

    #[test]
    fn word_of_a_change_waits_for_a_rest_but_not_for_a_further_look() {
        in_fresh_network(|| {
            BEFORE.lines().for_each(ip);
            let poller = Poller::new().unwrap();
            let mut check = SourceCheck::new(&poller).unwrap();
            let now = clock();
            ip("route add 203.0.113.0/24 dev two");
            check.woke(&poller);
            assert!(check.is_due(now, &poller));
            check.looked(now, now);
            check.woke(&poller);
            assert_eq!(check.due(), Some(now + PAUSE));
            assert!(check.is_due(now + PAUSE, &poller), "looks are left");
            check.looked(now, now + PAUSE);
            check.woke(&poller);
            assert_eq!(check.due(), Some(now + PAUSE * (1 + LOOKS_SHARE)), "a look that takes long is rare");
        });
    }
}
