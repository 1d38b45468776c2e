//! Sockets for both address families on one port.

use std::io;

use adit_dataplane::codec::Steering;

use super::{UdpOptions, UdpSocket, lacks_v6};
use crate::helper_channels::SocketChannel;

/// How often another port is tried where the one that the system chose for IPv4 is taken for IPv6.
const ATTEMPTS: usize = 100;

/// How such sockets are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairOptions {
    /// Sockets of each family, one for each worker.
    pub(crate) count: usize,
    /// Which of them a datagram goes to.
    pub(crate) steering: Option<Steering>,
    /// The sockets say which of our addresses each datagram came to.
    pub(crate) learn_local: bool,
    /// The sockets say which traffic class each datagram came with.
    pub(crate) learn_classes: bool,
    /// All else.
    pub(crate) udp: UdpOptions,
}

impl PairOptions {
    /// Has a socket report the facts of each datagram that these options name.
    pub(crate) fn learn(&self, socket: &UdpSocket) -> io::Result<()> {
        if self.learn_local {
            socket.learn_local_addresses()?;
        }
        if self.learn_classes {
            socket.learn_traffic_classes()?;
        }
        Ok(())
    }
}

/// Sockets that are bound to all addresses, those for IPv4 and those for IPv6 on the same port.
#[derive(Debug)]
pub(crate) struct UdpPair {
    /// The port.
    pub(crate) port: u16,
    /// One for each worker.
    pub(crate) ipv4: Vec<UdpSocket>,
    /// The IPv6 sockets; `None` on a machine without it.
    pub(crate) ipv6: Option<Vec<UdpSocket>>,
}

impl UdpPair {
    /// Binds to `port`, or to one that the system chooses (0), with that firewall mark: by a helper, if there is one. Nothing
    /// is left behind on an error.
    ///
    /// # Errors
    /// The port is taken for one of the families; or there is no right to mark, or to bind to a low port.
    pub(crate) fn bind(
        port: u16,
        mark: u32,
        options: &PairOptions,
        helper: Option<&dyn SocketChannel>,
    ) -> io::Result<UdpPair> {
        let mut left = if port == 0 { ATTEMPTS } else { 1 };
        loop {
            left -= 1;
            match UdpPair::try_bind(port, mark, options, helper) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && left > 0 => {}
                outcome => return outcome,
            }
        }
    }

    fn try_bind(
        port: u16,
        mark: u32,
        options: &PairOptions,
        helper: Option<&dyn SocketChannel>,
    ) -> io::Result<UdpPair> {
        let ipv4 = bind_group((port, false), options, helper)?;
        let port = ipv4.first().map(UdpSocket::local_address).transpose()?.map_or(port, |bound| bound.port());
        let ipv6 = match bind_group((port, true), options, helper) {
            Err(error) if lacks_v6(&error) => None,
            bound => Some(bound?),
        };
        let pair = UdpPair { port, ipv4, ipv6 };
        for socket in pair.ipv4.iter().chain(pair.ipv6.iter().flatten()) {
            // A socket has no mark at first, and not every process may set one, not even 0.
            if mark != 0 {
                socket.set_mark(mark, helper)?;
            }
            options.learn(socket)?;
        }
        Ok(pair)
    }
}

/// Binds sockets for IPv6, or for IPv4.
fn bind_group(
    (port, v6): (u16, bool),
    options: &PairOptions,
    helper: Option<&dyn SocketChannel>,
) -> io::Result<Vec<UdpSocket>> {
    let bind = |port, shared| UdpSocket::bind_to_port_by(helper, (port, v6), shared, &options.udp);
    let another = |first: &UdpSocket| bind(first.local_address()?.port(), true);
    bind(port, false)?.into_group((options.count, options.steering), another)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv6Addr, SocketAddr, UdpSocket as Plain};

    use adit_system::testing::in_fresh_network;

    use super::*;
    use crate::udp::tests::options;
    use crate::udp::{Sharing, has_ipv6};

    fn with(count: usize) -> PairOptions {
        PairOptions { count, steering: None, learn_local: false, learn_classes: false, udp: options(true) }
    }

    fn addresses(pair: &UdpPair) -> Vec<SocketAddr> {
        let sockets = pair.ipv4.iter().chain(pair.ipv6.iter().flatten());
        sockets.map(|socket| socket.local_address().unwrap()).collect()
    }

    #[test]
    fn both_families_have_the_port_that_was_asked_for_or_chosen() {
        in_fresh_network(|| {
            for count in [1, 2] {
                let chosen = UdpPair::bind(0, 0, &with(count), None).unwrap();
                assert_ne!(chosen.port, 0);
                let v4 = SocketAddr::from(([0, 0, 0, 0], chosen.port));
                let v6 = SocketAddr::from(([0_u16; 8], chosen.port));
                assert_eq!(addresses(&chosen), [vec![v4; count], vec![v6; count]].concat());
                let error = UdpPair::bind(chosen.port, 0, &with(count), None).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
                drop(chosen);
                assert_eq!(UdpPair::bind(v4.port(), 0, &with(count), None).unwrap().port, v4.port());
            }
        });
    }

    #[test]
    fn a_port_that_is_taken_for_ipv6_alone_is_refused_or_passed_over() {
        in_fresh_network(|| {
            let range = "/proc/sys/net/ipv4/ip_local_port_range";
            std::fs::write(range, "40000 40003").unwrap();
            // Two of the four ports that the system chooses from.
            let taken = [40_000, 40_001].map(|port| {
                UdpSocket::bind_one(
                    (Ipv6Addr::UNSPECIFIED, port).into(),
                    &options(true),
                    Sharing { address: false, v4: true },
                )
                .unwrap()
            });
            assert_eq!(taken.len(), 2);
            for _ in 0..8 {
                assert!(UdpPair::bind(0, 0, &with(1), None).unwrap().port >= 40_002);
            }
            let error = UdpPair::bind(40_001, 0, &with(1), None).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
            assert!(Plain::bind("0.0.0.0:40001").is_ok(), "nothing is left of it");
        });
    }

    #[test]
    fn there_are_sockets_for_ipv6_where_the_machine_has_it() {
        in_fresh_network(|| {
            let pair = UdpPair::bind(0, 0, &with(1), None).unwrap();
            assert_eq!(pair.ipv6.is_some(), has_ipv6());
        });
    }

    #[test]
    fn all_sockets_have_the_mark() {
        in_fresh_network(|| {
            let pair = UdpPair::bind(0, 77, &with(2), None).unwrap();
            let sockets = pair.ipv4.iter().chain(pair.ipv6.iter().flatten());
            let marks: Vec<u32> = sockets.map(|socket| socket.socket.mark().unwrap()).collect();
            assert_eq!(marks, [77; 4]);
        });
    }
}
