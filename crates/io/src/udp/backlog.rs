//! The datagrams for which a UDP socket's buffer had no room.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use adit_dataplane::OuterHeader;

use super::{Datagrams, PinnedSource, Sent, UdpSocket};

/// Bytes that may wait before more are dropped. The TUN device is not read while anything waits, so these are
/// the datagrams that were sealed before that was known, and those that clients send each other meanwhile.
const LIMIT: usize = 1 << 20;

/// Datagrams that wait, in order, for room in a socket's buffer.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    segment: usize,
    to: SocketAddr,
    outer: OuterHeader,
    source: Option<Arc<PinnedSource>>,
}

impl Waiting {
    fn datagrams(&self) -> Datagrams<'_> {
        Datagrams { bytes: &self.bytes, segment: self.segment, to: self.to, outer: self.outer }
    }
}

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Keeps a copy for later. False when too much waits already.
    pub(super) fn push(&mut self, datagrams: Datagrams<'_>, source: Option<&Arc<PinnedSource>>) -> bool {
        let Datagrams { bytes, segment, to, outer } = datagrams;
        if self.bytes + bytes.len() > LIMIT {
            return false;
        }
        self.bytes += bytes.len();
        let source = source.map(Arc::clone);
        self.waiting.push_back(Waiting { bytes: bytes.to_vec(), segment, to, outer, source });
        true
    }

    /// Sends the datagrams that wait, as far as the socket takes them. Gives how many GSO batches the system
    /// refused.
    pub(crate) fn flush(&mut self, socket: &UdpSocket) -> u64 {
        let mut refused = 0;
        while let Some(mut first) = self.waiting.pop_front() {
            self.bytes -= first.bytes.len();
            match socket.try_send(first.source.as_deref(), first.datagrams()) {
                Sent::All => {}
                Sent::Refused(_) => refused += 1,
                Sent::Blocked { taken } => {
                    first.bytes.drain(..taken);
                    self.bytes += first.bytes.len();
                    self.waiting.push_front(first);
                    break;
                }
            }
        }
        refused
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use adit_core::Path;
    use adit_dataplane::GsoBatch;
    use adit_system::testing::in_fresh_network;

    use super::*;
    use crate::clock;
    use crate::config::Buffers;
    use crate::udp::tests::options;
    use crate::udp::{UdpOptions, wait_readable};

    fn run(program: &str, arguments: &str) {
        let status = Command::new(program).args(arguments.split(' ')).status().unwrap();
        assert!(status.success(), "{program} {arguments}");
    }

    #[test]
    fn a_full_socket_does_not_block_and_loses_nothing() {
        for gso in [true, false] {
            in_fresh_network(move || {
                // Bytes that the slow device has not sent yet are charged to the socket's small buffer.
                run("ip", "link set lo up");
                run("tc", "qdisc add dev lo root tbf rate 1mbit burst 4000 limit 1000000");
                let bind = |buffers, gso| {
                    let options = UdpOptions { buffers, gso, ..options(false) };
                    UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap()
                };
                let receiver = bind(Buffers::default(), false);
                let sender = bind(Buffers { sndbuf: Some(20_000), rcvbuf: None }, gso);
                let path = Path::Udp { socket: 0, remote: receiver.local_address().unwrap() };
                let outer = OuterHeader { traffic_class: 2, hop_limit: 0 };
                let gso_batches: Vec<Vec<u8>> = (0..20).map(|number| vec![number; 5_000]).collect();
                let sent = gso_batches.iter().map(|bytes| GsoBatch { path, outer, segment: 1_000, bytes });
                let mut backlog = Backlog::default();
                let before = clock();
                assert_eq!(sender.send_gso_batches(None, sent, &mut backlog), 0);
                // At that rate all of it takes 0.8 s.
                assert!(clock() < before + Duration::from_millis(500), "it waited");
                assert!(!backlog.is_empty());

                let mut numbers = Vec::new();
                let mut buffer = [0; 2_000];
                while numbers.len() < 100 {
                    assert!(wait_readable(&receiver).unwrap(), "only {} of 100 came", numbers.len());
                    let received = receiver.receive_one(&mut buffer).unwrap();
                    assert_eq!(received.len, 1_000);
                    numbers.push(buffer[0]);
                    assert_eq!(backlog.flush(&sender), 0);
                }
                let expected: Vec<u8> = (0..100).map(|index| index / 5).collect();
                assert_eq!(numbers, expected, "all of them, in order");
                assert!(backlog.is_empty() && backlog.bytes == 0);
            });
        }
    }

    #[test]
    fn what_waits_has_a_limit() {
        let mut backlog = Backlog::default();
        let to = "127.0.0.1:9".parse().unwrap();
        let datagrams = Datagrams { bytes: &[0; 10_000], segment: 1_000, to, outer: OuterHeader::default() };
        let fitting = (0..1_000).take_while(|_| backlog.push(datagrams, None)).count();
        assert_eq!(fitting, LIMIT / 10_000);
    }
}
