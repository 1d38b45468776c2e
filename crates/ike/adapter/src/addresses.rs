//! The addresses from which this machine reaches its peers. The sockets are bound to all addresses, so that the machine of IKE gets
//! them from the system: at the start, after a reload, and whenever routes or addresses change.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Shutdown};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use adit_ike::machine::Connection;
use adit_system::{MARK, Netlink, RouteWatch};
use rustix::event::{PollFd, PollFlags, poll};

use crate::orders::Orders;
use crate::settings::peer_addresses;

/// The time from a change to the look at the addresses: one change is often several messages.
const PAUSE: Duration = Duration::from_millis(100);
/// Looking takes at most one part in so many of the time, however many peers there are.
const LOOKS_SHARE: u32 = 10;

/// The addresses that the system chooses for the tunnel's own datagrams, by the addresses of peers. Without a route to a peer, or
/// without the system's word, there is none.
pub(crate) fn sources(netlink: &mut Netlink, connections: &[Connection]) -> BTreeMap<IpAddr, IpAddr> {
    let mut found = BTreeMap::new();
    for peer in peer_addresses(connections) {
        if found.contains_key(&peer) {
            continue;
        }
        let source = netlink.next_hop_of_marked(peer, MARK).ok().and_then(|hop| hop.source);
        found.extend(source.map(|source| (peer, source)));
    }
    found
}

/// Says when routes or addresses change.
pub(crate) struct AddressWatch {
    watch: RouteWatch,
    netlink: Netlink,
}

/// Ends the thread of an [`AddressWatch`] when it is dropped.
pub(crate) struct Watching(UnixStream);

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl AddressWatch {
    /// Begins to listen.
    ///
    /// # Errors
    /// When netlink is not to be had.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(AddressWatch { watch: RouteWatch::new()?, netlink: Netlink::open()? })
    }

    /// The system's addresses now.
    pub(crate) fn sources(&mut self, connections: &[Connection]) -> BTreeMap<IpAddr, IpAddr> {
        sources(&mut self.netlink, connections)
    }

    /// Looks after the addresses on a thread of its own, until the result is dropped.
    ///
    /// # Errors
    /// When the system refuses the thread.
    pub(crate) fn begin(mut self, orders: Orders) -> io::Result<Watching> {
        let (own, other) = UnixStream::pair()?;
        let work = move || {
            while self.wait(&other) {
                thread::sleep(PAUSE);
                self.watch.drain();
                let began = Instant::now();
                orders.look_at_addresses(&mut self.netlink);
                thread::sleep(began.elapsed() * LOOKS_SHARE);
            }
        };
        thread::Builder::new().name("adit-addresses".to_owned()).spawn(work)?;
        Ok(Watching(own))
    }

    /// Waits for a change. False: the tunnel has ended.
    fn wait(&self, ended: &UnixStream) -> bool {
        loop {
            let mut fds =
                [PollFd::new(&self.watch, PollFlags::IN), PollFd::new(ended, PollFlags::IN | PollFlags::HUP)];
            match poll(&mut fds, None) {
                Ok(_) => return fds[1].revents().is_empty(),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use adit_system::testing::in_fresh_network;

    use super::*;
    use crate::names;
    use crate::testing::planned;

    fn ip(words: &str) {
        let status = Command::new("ip").args(words.split(' ')).status().unwrap();
        assert!(status.success(), "ip {words}");
    }

    #[test]
    fn the_address_towards_each_peer_is_the_one_that_the_system_chooses() {
        let planned = planned("remote_addrs = 192.0.2.9, 198.51.100.9, fd00:9::9", "");
        let connections = names::with_stand_ins(&planned);
        in_fresh_network(move || {
            for words in [
                "link add one type veth peer name other",
                "link set one up",
                "link set other up",
                "address add 192.0.2.1/24 dev one",
                "address add fd00:9::1/64 dev one nodad",
            ] {
                ip(words);
            }
            let mut watch = AddressWatch::new().unwrap();
            let texts = |watch: &mut AddressWatch| {
                let found = watch.sources(&connections);
                found.iter().map(|(peer, source)| format!("{peer} from {source}")).collect::<Vec<_>>()
            };
            assert_eq!(texts(&mut watch), ["192.0.2.9 from 192.0.2.1", "fd00:9::9 from fd00:9::1"]);
            let (_own, other) = UnixStream::pair().unwrap();
            ip("address delete 192.0.2.1/24 dev one");
            ip("address add 192.0.2.2/24 dev one");
            assert!(watch.wait(&other), "a change");
            watch.watch.drain();
            ip("route add 198.51.100.0/24 via 192.0.2.9");
            assert!(watch.wait(&other), "another change");
            assert_eq!(
                texts(&mut watch),
                ["192.0.2.9 from 192.0.2.2", "198.51.100.9 from 192.0.2.2", "fd00:9::9 from fd00:9::1"]
            );
        });
    }

    #[test]
    fn the_watch_ends_with_its_owner() {
        in_fresh_network(|| {
            let watch = AddressWatch::new().unwrap();
            let (own, other) = UnixStream::pair().unwrap();
            drop(Watching(own));
            assert!(!watch.wait(&other));
        });
    }
}
