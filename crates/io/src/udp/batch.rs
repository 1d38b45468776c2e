//! Many messages a system call, where they go to several peers or differ in size: `sendmmsg`, `recvmmsg`.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use adit_dataplane::{GsoBatch, OuterHeader};
use adit_sys::{Message, Received, SEND_BATCH};

use super::{Backlog, Datagrams, Framing, PinnedSource, RECEIVE_SLOT, Sent, UdpSocket, ip, normalised};

/// A message below this size leaves room for many of its kind in one call. A message that UDP_GRO gathers
/// under load is larger, and better received into the same 64 KiB again and again, which stay in the cache.
const SMALL: usize = 8 * 1024;

/// The messages of one receive, and whether the next receive asks for many.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    found: Vec<Received>,
    /// The messages of the last receive were small: the next asks for many.
    many: bool,
}

impl Gathered {
    /// The messages, in the order of their arrival.
    pub(crate) fn messages(&self) -> &[Received] {
        &self.found
    }

    /// The messages were small: the next receive asks for many, and needs the whole buffer.
    pub(crate) fn small(&self) -> bool {
        self.many
    }
}

/// Messages that wait for the next system call.
struct Batch<'a> {
    socket: &'a UdpSocket,
    source: Option<&'a Arc<PinnedSource>>,
    backlog: &'a mut Backlog,
    messages: [Message<'a>; SEND_BATCH],
    used: usize,
    refused: u64,
}

impl UdpSocket {
    /// Receives the messages of one system call, without waiting: one message, or several if the last ones were small.
    /// IPv4 senders have an IPv4 address. `buffer` is of [`super::RECEIVE_BUFFER`] bytes or more, or of
    /// [`RECEIVE_SLOT`] when the last ones were not small. False when nothing is left in the socket.
    pub(crate) fn receive(&self, buffer: &mut [u8], gathered: &mut Gathered) -> io::Result<bool> {
        let Gathered { found, many } = gathered;
        found.clear();
        let more = if *many {
            adit_sys::receive_many(self.socket.as_fd(), buffer, RECEIVE_SLOT, found)?;
            for message in &mut *found {
                message.from = normalised(message.from);
            }
            found.len() == adit_sys::RECEIVE_SLOTS
        } else {
            let slot = buffer.get_mut(..RECEIVE_SLOT).unwrap_or_default();
            found.push(self.receive_one(slot)?);
            true
        };
        *many = found.iter().all(|message| message.len < SMALL);
        match &self.framing {
            Framing::Nothing => {}
            Framing::Relay(relay) => relay.strip_all(buffer, found),
            Framing::IpHeader => ip::strip_headers(buffer, found),
        }
        Ok(more)
    }

    /// Sends datagrams in order by one system call, without waiting, from `source`, or, without one, from the address that the
    /// system chooses. Gives how many
    /// were sent: fewer than there are where one system call takes no more, the socket's buffer is full, or the system
    /// refuses the next; none by a relay, whose header goes before each.
    pub(crate) fn send_datagrams<'a>(
        &self,
        outer: OuterHeader,
        source: Option<&PinnedSource>,
        datagrams: impl Iterator<Item = (&'a [u8], SocketAddr)>,
    ) -> usize {
        if self.relay().is_some() {
            return 0;
        }
        let mut messages = [Message::NONE; SEND_BATCH];
        let mut used = 0;
        for (place, (bytes, to)) in messages.iter_mut().zip(datagrams) {
            *place = Message { bytes, to: self.wire_address(to), segment: None, outer };
            used += 1;
        }
        let (messages, source) =
            (messages.get(..used).unwrap_or_default(), source.and_then(PinnedSource::get));
        adit_sys::send_many(self.socket.as_fd(), messages, source).unwrap_or(0)
    }

    /// Sends GSO batches in order, as few system calls as there can be: where the kernel cuts GSO batches, each is one
    /// message, and one call takes many messages. Does not wait: messages that the socket's buffer has no room for go
    /// to the backlog, and so do all that come while anything is there. Gives how many messages the system refused, or
    /// the backlog; the others are sent nevertheless. All leave from `source`, or, without one, from the addresses that
    /// the system chooses.
    pub(crate) fn send_gso_batches<'a>(
        &'a self,
        source: Option<&'a Arc<PinnedSource>>,
        mut gso_batches: impl Iterator<Item = GsoBatch<'a>>,
        backlog: &'a mut Backlog,
    ) -> u64 {
        let (first, second) = (gso_batches.next(), gso_batches.next());
        if second.is_none() {
            match first.map(|first| self.message(&first)) {
                None => return 0,
                Some(Some(message)) => return u64::from(!send_or_keep(self, source, backlog, &message)),
                Some(None) => {}
            }
        }
        let messages = [Message::NONE; SEND_BATCH];
        let mut batch = Batch { socket: self, source, backlog, messages, used: 0, refused: 0 };
        for gso_batch in first.into_iter().chain(second).chain(gso_batches) {
            if let Some(message) = self.message(&gso_batch) {
                batch.push(message);
            } else {
                let (to, outer) = (self.wire_address(gso_batch.path.remote()), gso_batch.outer);
                for bytes in gso_batch.bytes.chunks(gso_batch.segment.max(1)) {
                    batch.push(Message { bytes, to, segment: None, outer });
                }
            }
        }
        batch.flush();
        batch.refused
    }

    /// A GSO batch as one message. `None` if the kernel does not cut it.
    fn message<'a>(&self, gso_batch: &GsoBatch<'a>) -> Option<Message<'a>> {
        let GsoBatch { path, outer, segment, bytes } = *gso_batch;
        let (to, segment) = (self.wire_address(path.remote()), segment.max(1));
        if bytes.len() <= segment {
            return Some(Message { bytes, to, segment: None, outer });
        }
        let is_cut = segment <= self.longest_segment(to);
        is_cut.then(|| Message { bytes, to, segment: u16::try_from(segment).ok(), outer })
    }
}

impl<'a> Batch<'a> {
    fn push(&mut self, message: Message<'a>) {
        if let Some(place) = self.messages.get_mut(self.used) {
            *place = message;
            self.used += 1;
        }
        if self.used == SEND_BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let mut rest = self.messages.get(..self.used).unwrap_or_default();
        while let Some((first, others)) = rest.split_first() {
            let taken = match others {
                [] => 0,
                _ if !self.backlog.is_empty() || self.socket.relay().is_some() => 0,
                _ => {
                    let source = self.source.and_then(|source| source.get());
                    adit_sys::send_many(self.socket.as_fd(), rest, source).unwrap_or(0)
                }
            };
            rest = if taken > 0 {
                rest.get(taken..).unwrap_or_default()
            } else {
                // Alone, it is sent again, cut here, or kept, as the refusal asks for.
                self.refused += u64::from(!send_or_keep(self.socket, self.source, self.backlog, first));
                others
            };
        }
        self.used = 0;
    }
}

/// Whether a message was sent, or kept because the socket's buffer is full or others wait already.
fn send_or_keep(
    socket: &UdpSocket,
    source: Option<&Arc<PinnedSource>>,
    backlog: &mut Backlog,
    message: &Message<'_>,
) -> bool {
    let Message { bytes, to, outer, .. } = *message;
    let segment = message.segment.map_or(bytes.len(), usize::from);
    let datagrams = Datagrams { bytes, segment, to, outer };
    let taken = if backlog.is_empty() {
        match socket.try_send(source.map(|source| &**source), datagrams) {
            Sent::All => return true,
            Sent::Refused(_) => return false,
            Sent::Blocked { taken } => taken,
        }
    } else {
        0
    };
    backlog.push(Datagrams { bytes: bytes.get(taken..).unwrap_or_default(), ..datagrams }, source)
}

#[cfg(test)]
mod tests {
    use adit_core::Path;
    use adit_system::testing::in_fresh_network;

    use super::*;
    use crate::udp::tests::{narrow_link, options, payloads};
    use crate::udp::{RECEIVE_BUFFER, wait_readable};

    fn bind(offloads: bool) -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(offloads)).unwrap()
    }

    fn gso_batch(remote: SocketAddr, segment: usize, bytes: &[u8]) -> GsoBatch<'_> {
        let outer = OuterHeader::default();
        GsoBatch { path: Path::Udp { socket: 0, remote }, outer, segment, bytes }
    }

    /// The datagrams that wait in a socket, and how many receives it took to get them.
    fn drain(socket: &UdpSocket, gathered: &mut Gathered) -> (Vec<Vec<u8>>, usize) {
        let mut buffer = vec![0; RECEIVE_BUFFER];
        let (mut datagrams, mut calls) = (Vec::new(), 0);
        loop {
            calls += 1;
            let more = match socket.receive(&mut buffer, gathered) {
                Ok(more) => more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return (datagrams, calls),
                Err(error) => panic!("{error}"),
            };
            for message in gathered.messages() {
                assert!(!message.truncated);
                let bytes = &buffer[message.at..message.at + message.len];
                datagrams.extend(bytes.chunks(message.segment).map(<[u8]>::to_vec));
            }
            if !more {
                return (datagrams, calls);
            }
        }
    }

    #[test]
    fn gso_batches_to_several_peers_arrive_whole_and_in_order() {
        for offloads in [true, false] {
            let (from, one, two) = (bind(offloads), bind(false), bind(offloads));
            let (to_one, to_two) = (one.local_address().unwrap(), two.local_address().unwrap());
            let bytes: Vec<u8> = (0..30_000_u32).map(|index| (index / 7).to_le_bytes()[0]).collect();
            let (mut sent_one, mut sent_two) = (Vec::new(), Vec::new());
            let mut gso_batches = Vec::new();
            // More messages than one call takes, once they are cut.
            for (length, segment) in [(9_000, 300), (100, 100), (1_000, 400), (30_000, 1_000)] {
                gso_batches.push(gso_batch(to_one, segment, &bytes[..length]));
                gso_batches.push(gso_batch(to_two, segment, &bytes[length / 2..length]));
                sent_one.extend(bytes[..length].chunks(segment).map(<[u8]>::to_vec));
                sent_two.extend(bytes[length / 2..length].chunks(segment).map(<[u8]>::to_vec));
            }
            assert_eq!(from.send_gso_batches(None, gso_batches.into_iter(), &mut Backlog::default()), 0);
            assert!(wait_readable(&one).unwrap() && wait_readable(&two).unwrap());
            assert_eq!(drain(&one, &mut Gathered::default()).0, sent_one, "offloads {offloads}");
            assert_eq!(drain(&two, &mut Gathered::default()).0, sent_two, "offloads {offloads}");
        }
    }

    #[test]
    fn datagrams_to_several_peers_leave_by_one_call_up_to_one_that_is_refused() {
        let (from, one, two) = (bind(true), bind(true), bind(true));
        let (to_one, to_two) = (one.local_address().unwrap(), two.local_address().unwrap());
        let oversize = vec![9; 65_535];
        let datagrams: [(&[u8], SocketAddr); 5] =
            [(b"a", to_one), (b"bc", to_two), (b"d", to_one), (&oversize, to_one), (b"e", to_two)];
        let none = OuterHeader::default();
        assert_eq!(from.send_datagrams(none, None, datagrams.into_iter()), 3);
        assert_eq!(from.send_datagrams(none, None, datagrams.into_iter().skip(3)), 0);
        assert_eq!(from.send_datagrams(none, None, datagrams.into_iter().skip(4)), 1);
        assert_eq!(from.send_datagrams(none, None, std::iter::empty()), 0);
        assert_eq!(
            from.send_datagrams(none, None, std::iter::repeat_n((&b"f"[..], to_one), 100)),
            SEND_BATCH
        );
        assert!(wait_readable(&one).unwrap() && wait_readable(&two).unwrap());
        let arrived = drain(&one, &mut Gathered::default()).0;
        assert_eq!((&arrived[..2], arrived.len()), (&[b"a".to_vec(), b"d".to_vec()][..], 2 + SEND_BATCH));
        assert_eq!(drain(&two, &mut Gathered::default()).0, [b"bc".to_vec(), b"e".to_vec()]);
    }

    /// From an address that is gone nothing is sent: alone, such a datagram leaves from another.
    #[test]
    fn datagrams_of_one_call_leave_from_the_address_that_was_chosen() {
        let (any, to) = ("0.0.0.0:0".parse().unwrap(), bind(true));
        let (from, address) = (UdpSocket::bind(any, &options(true)).unwrap(), to.local_address().unwrap());
        let source =
            |ip: &str| PinnedSource::new(adit_sys::LocalAddress { ip: ip.parse().unwrap(), device: 0 });
        let (good, gone, none) = (source("127.0.0.9"), source("192.0.2.9"), OuterHeader::default());
        let datagrams: [(&[u8], SocketAddr); 2] = [(b"a", address), (b"bc", address)];
        assert_eq!(from.send_datagrams(none, Some(&gone), datagrams.into_iter()), 0);
        assert_eq!(from.send_datagrams(none, Some(&good), datagrams.into_iter()), 2);
        for _ in datagrams {
            assert!(wait_readable(&to).unwrap());
            let received = to.receive_one(&mut vec![0; RECEIVE_SLOT]).unwrap();
            assert_eq!(received.from.ip().to_string(), "127.0.0.9");
        }
    }

    #[test]
    fn a_refused_gso_batch_is_cut_and_the_rest_follows() {
        in_fresh_network(|| {
            let (tun, _routing) = narrow_link(600);
            let socket = UdpSocket::bind("10.5.0.1:0".parse().unwrap(), &options(true)).unwrap();
            let to = "10.5.0.2:9".parse().unwrap();
            let gso_batches = [
                gso_batch(to, 400, &[1; 1_000]),
                gso_batch(to, 500, &[2; 1_200]),
                gso_batch(to, 100, &[3; 400]),
            ];
            assert_eq!(socket.send_gso_batches(None, gso_batches.into_iter(), &mut Backlog::default()), 0);
            let arrived = payloads(&tun, 10);
            let lengths: Vec<usize> = arrived.iter().map(|payload| payload.len() - 8).collect();
            assert_eq!(lengths, [400, 400, 200, 500, 500, 200, 100, 100, 100, 100]);
        });
    }

    #[test]
    fn a_message_that_cannot_be_sent_is_counted_and_stops_nothing() {
        let (from, to) = (bind(true), bind(true));
        let address = to.local_address().unwrap();
        // No datagram is this long, whether the kernel segments or we do.
        let oversize = vec![9; 65_535];
        let gso_batches = [
            gso_batch(address, 4, b"before"),
            gso_batch(address, 65_535, &oversize),
            gso_batch(address, 9, b"after"),
        ];
        assert_eq!(from.send_gso_batches(None, gso_batches.into_iter(), &mut Backlog::default()), 1);
        assert!(wait_readable(&to).unwrap());
        assert_eq!(drain(&to, &mut Gathered::default()).0, [&b"befo"[..], b"re", b"after"]);
    }

    #[test]
    fn small_messages_come_many_a_call_and_large_ones_alone() {
        let receiver = bind(true);
        let address = receiver.local_address().unwrap();
        let senders: Vec<UdpSocket> = (0..20).map(|_| bind(true)).collect();
        let mut gathered = Gathered::default();
        let mut expected = Vec::new();
        for (number, sender) in (0..).zip(&senders) {
            expected.push(vec![number; 100 + usize::from(number)]);
            sender.send(&expected[usize::from(number)], 1_000, address).unwrap();
        }
        // The first alone, the others by eight; the last call is not full and says that nothing is left. (When
        // the machine is busy some may arrive late or out of order.)
        assert!(wait_readable(&receiver).unwrap());
        let (mut arrived, mut calls) = (Vec::new(), 0);
        while arrived.len() < expected.len() {
            let (datagrams, more) = drain(&receiver, &mut gathered);
            arrived.extend(datagrams);
            calls += more;
            if let Some(last) = gathered.messages().last() {
                let number = usize::from(arrived.last().unwrap()[0]);
                assert_eq!(last.from, senders[number].local_address().unwrap());
            }
        }
        arrived.sort();
        assert_eq!(arrived, expected);
        assert!(calls < 10, "{calls} calls for 20 messages");

        let large: Vec<u8> = vec![5; 60_000];
        for _ in 0..3 {
            senders[0].send(&large, 1_000, address).unwrap();
        }
        let (datagrams, _) = drain(&receiver, &mut gathered);
        assert_eq!(datagrams.len(), 180);
        assert!(!gathered.many, "what is large is received into one place");
    }
}
