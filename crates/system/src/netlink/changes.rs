//! Word of routes that changed, with the changes.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use ipnet::IpNet;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::{RecvFlags, recv};

use super::{LINKS, ROUTES};

/// More changes than this are not told apart.
const MOST: usize = 256;
/// Room for the messages of one read: the kernel hands over one at a time (`rtmsg_fib` in Linux's
/// net/ipv4/fib_semantics.c).
const MESSAGE: usize = 8192;

/// The routes and devices that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteChanges {
    /// Destinations of unicast routes that came or went, of whichever table.
    destinations: Vec<IpNet>,
    /// Indices of devices that are not up any more. The kernel says nothing of the IPv4 routes that go with them.
    down: Vec<u32>,
    /// There were more changes, which may concern any address.
    more: bool,
}

impl RouteChanges {
    /// Whether datagrams to that address, which left by one of these devices until now, may leave by another one.
    pub fn may_redirect(&self, address: IpAddr, devices: &[u32]) -> bool {
        self.more
            || self.destinations.iter().any(|destination| destination.contains(&address))
            || self.down.iter().any(|device| devices.contains(device))
    }

    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        *self == RouteChanges::default()
    }

    fn take(&mut self, message: &RouteNetlinkMessage) {
        match message {
            RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route) => {
                let new = destination(route).filter(|new| !self.destinations.contains(new));
                self.destinations.extend(new);
            }
            RouteNetlinkMessage::NewLink(link) | RouteNetlinkMessage::DelLink(link) => {
                let is_new = !self.down.contains(&link.header.index);
                if is_new && !is_up(link, matches!(message, RouteNetlinkMessage::DelLink(_))) {
                    self.down.push(link.header.index);
                }
            }
            _ => {}
        }
        if self.destinations.len() > MOST || self.down.len() > MOST {
            *self = RouteChanges { more: true, ..RouteChanges::default() };
        }
    }

    /// Takes the messages out of one read.
    fn take_all(&mut self, mut received: &[u8]) {
        while !self.more && received.len() >= 16 {
            let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(received) else {
                self.more = true;
                return;
            };
            if let NetlinkPayload::InnerMessage(inner) = &message.payload {
                self.take(inner);
            }
            let length = usize::try_from(message.header.length).unwrap_or(usize::MAX).max(16);
            received = received.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// Says which routes of the network namespace change.
#[derive(Debug)]
pub struct RouteChangeWatch {
    socket: Socket,
}

impl RouteChangeWatch {
    /// Starts to watch.
    ///
    /// # Errors
    /// When netlink is not to be had.
    pub fn new() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, LINKS | ROUTES))?;
        socket.set_non_blocking(true)?;
        Ok(RouteChangeWatch { socket })
    }

    /// Adds the changes that were reported since the last call.
    pub fn take(&self, changes: &mut RouteChanges) {
        let mut buffer = [0; MESSAGE];
        loop {
            match recv(&self.socket, &mut buffer[..], RecvFlags::TRUNC) {
                Ok((received, length)) if length <= received => {
                    changes.take_all(buffer.get(..received).unwrap_or_default());
                }
                // A message that is longer than the buffer, or more than the socket holds (ENOBUFS).
                Ok(_) | Err(rustix::io::Errno::NOBUFS) => changes.more = true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

impl AsFd for RouteChangeWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn is_up(link: &LinkMessage, is_deleted: bool) -> bool {
    !is_deleted && link.header.flags.contains(LinkFlags::Up)
}

/// The destination of a unicast route.
fn destination(route: &RouteMessage) -> Option<IpNet> {
    if route.header.kind != RouteType::Unicast {
        return None;
    }
    let address = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
        RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    });
    // A default route has no such attribute.
    let everything = match route.header.address_family {
        AddressFamily::Inet => IpAddr::from([0; 4]),
        AddressFamily::Inet6 => IpAddr::from([0; 16]),
        _ => return None,
    };
    IpNet::new(address.unwrap_or(everything), route.header.destination_prefix_length).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Netlink;
    use crate::testing::in_fresh_network;

    fn ip(words: &str) {
        let status = std::process::Command::new("ip").args(words.split(' ')).status().unwrap();
        assert!(status.success(), "ip {words}");
    }

    #[test]
    fn routes_and_devices_that_change_concern_the_addresses_behind_them() {
        in_fresh_network(|| {
            ip("link add one type veth peer name other");
            ip("link set one up");
            ip("link set other up");
            ip("address add 192.0.2.1/24 dev one");
            ip("address add 2001:db8::1/64 dev one nodad");
            let one = Netlink::open().unwrap().link("one").unwrap().index;
            let watch = RouteChangeWatch::new().unwrap();
            let told = |words: &str| {
                ip(words);
                let mut changes = RouteChanges::default();
                watch.take(&mut changes);
                changes
            };
            let [near, far, near6, far6] = ["192.0.2.7", "198.51.100.1", "2001:db8::7", "2a00::1"]
                .map(|text| text.parse::<IpAddr>().unwrap());
            for (words, redirected) in [
                ("route add 198.51.100.0/24 via 192.0.2.9", [false, true, false, false]),
                ("route add default via 192.0.2.9 table 7", [true, true, false, false]),
                ("-6 route add 2a00::/16 via 2001:db8::9", [false, false, false, true]),
                ("-6 route delete 2a00::/16 via 2001:db8::9", [false, false, false, true]),
                ("address add 192.0.2.2/24 dev one", [false; 4]),
                ("rule add to 198.51.100.1 lookup 7", [false; 4]),
            ] {
                let changes = told(words);
                let said = [near, far, near6, far6].map(|address| changes.may_redirect(address, &[one]));
                assert_eq!(said, redirected, "{words}: {changes:?}");
            }
            let down = told("link set one down");
            assert!(down.may_redirect(near, &[5, one]), "{down:?}");
            assert!(
                !RouteChanges { down: vec![one], ..RouteChanges::default() }.may_redirect(near, &[one + 1])
            );
        });
    }

    #[test]
    fn what_cannot_be_told_apart_concerns_all() {
        let mut changes = RouteChanges { down: (0..=MOST as u32).collect(), ..RouteChanges::default() };
        changes.take(&RouteNetlinkMessage::NewRoute(RouteMessage::default()));
        assert!(changes.may_redirect("192.0.2.1".parse().unwrap(), &[]));
        let mut changes = RouteChanges::default();
        changes.take_all(&[1; 20]);
        assert!(changes.may_redirect("192.0.2.1".parse().unwrap(), &[]));
    }
}
