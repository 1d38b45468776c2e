//! Datagrams by a relay: a header before each, in both directions. SOCKS5 has it so (RFC 1928 §7).
//!
//! The header is the same for all datagrams of a socket, so a GSO batch stays one message: the kernel is given header and
//! datagram in turns, and cuts every so many bytes. Sending copies nothing. Received datagrams are moved together where they lie.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd as _, BorrowedFd};

use adit_sys::{MOST_SEGMENTS, Message, Received};

use super::{Datagrams, Framing, PinnedSource, Sent, UdpSocket};
use crate::proxy::Association;

/// The longest UDP message over IPv4; over IPv6 it may be longer.
const LONGEST_MESSAGE: usize = 65_507;

/// The relay of a socket, and the header that it puts before each datagram.
#[derive(Debug)]
pub struct Relay {
    header: Vec<u8>,
    /// The relay is ours for as long as this connection to it.
    connection: TcpStream,
}

impl Relay {
    /// A relay that another process found: the header before each datagram, and the connection that keeps the relay.
    pub fn new(header: Vec<u8>, connection: TcpStream) -> Self {
        Relay { header, connection }
    }

    /// The header of each datagram.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// The connection to the relay.
    pub fn connection(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }

    /// As many bytes of datagrams of `segment` bytes as go into one message.
    fn most_bytes(&self, segment: usize) -> usize {
        (LONGEST_MESSAGE / (segment + self.header.len())).clamp(1, MOST_SEGMENTS) * segment
    }

    /// Takes the headers off the datagrams of one message, which lie in `buffer`. Those with another header are not of the
    /// remote and are dropped. False if none is left.
    fn strip(&self, buffer: &mut [u8], message: &mut Received) -> bool {
        let bytes = buffer.get_mut(message.at..message.at + message.len).unwrap_or_default();
        let (length, segment) = (bytes.len(), message.segment.max(1));
        let mut used = 0;
        for at in (0..length).step_by(segment) {
            let end = length.min(at + segment);
            if bytes.get(at..end).is_some_and(|datagram| datagram.starts_with(&self.header)) {
                let begin = at + self.header.len();
                bytes.copy_within(begin..end, used);
                used += end - begin;
            }
        }
        message.len = used;
        message.segment = segment.saturating_sub(self.header.len());
        used > 0 && message.segment > 0
    }

    /// Strips the header from all messages that one receive brought.
    pub(super) fn strip_all(&self, buffer: &mut [u8], found: &mut Vec<Received>) {
        found.retain_mut(|message| self.strip(buffer, message));
    }
}

impl UdpSocket {
    /// The socket, with its datagrams going by a relay.
    pub(crate) fn by_relay(mut self, relay: Option<Relay>) -> Self {
        if let Some(relay) = relay {
            self.framing = Framing::Relay(Box::new(relay));
        }
        self
    }

    /// The socket, with its datagrams going by a relay that a proxy gave.
    pub(crate) fn by_association(self, association: Association) -> Self {
        self.by_relay(Some(Relay::new(association.header, association.connection)))
    }

    /// The relay, if there is one.
    pub fn relay(&self) -> Option<&Relay> {
        match &self.framing {
            Framing::Relay(relay) => Some(relay),
            Framing::Nothing | Framing::IpHeader => None,
        }
    }

    /// Sends by the relay in messages that are not too long with their headers.
    pub(super) fn try_send_by_relay(
        &self,
        relay: &Relay,
        source: Option<&PinnedSource>,
        datagrams: Datagrams<'_>,
    ) -> Sent {
        let mut outcome = Sent::All;
        let mut taken = 0;
        for bytes in datagrams.bytes.chunks(relay.most_bytes(datagrams.segment)) {
            match self.try_send_message(source, Datagrams { bytes, ..datagrams }) {
                Sent::All => {}
                Sent::Refused(error) => outcome = Sent::Refused(error),
                Sent::Blocked { taken: more } => return Sent::Blocked { taken: taken + more },
            }
            taken += bytes.len();
        }
        outcome
    }
}

/// One message, with the relay's header before each of its datagrams if there is a relay.
pub(super) fn send(
    socket: &UdpSocket,
    message: &Message<'_>,
    source: Option<adit_sys::LocalAddress>,
) -> io::Result<()> {
    match socket.relay() {
        None => adit_sys::send(socket.as_fd(), message, source),
        Some(relay) => adit_sys::send_with_header(socket.as_fd(), &relay.header, message, source),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};

    use adit_core::Path;
    use adit_dataplane::{GsoBatch, OuterHeader};

    use super::*;
    use crate::udp::tests::options;
    use crate::udp::{Backlog, Gathered, RECEIVE_BUFFER, wait_readable};

    const HEADER: &[u8] = b"\0\0\0\x01\xc0\x00\x02\x01\x04\xaa";

    fn bind(offloads: bool) -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(offloads)).unwrap()
    }

    fn by_relay(socket: UdpSocket) -> UdpSocket {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        socket.by_relay(Some(Relay::new(HEADER.to_vec(), connection)))
    }

    /// As many datagrams as came, if `count` are expected.
    fn receive(socket: &UdpSocket, count: usize) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; RECEIVE_BUFFER];
        let (mut gathered, mut found) = (Gathered::default(), Vec::new());
        while found.len() < count && wait_readable(socket).unwrap() {
            match socket.receive(&mut buffer, &mut gathered) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => drop(outcome.unwrap()),
            }
            for message in gathered.messages() {
                let bytes = &buffer[message.at..message.at + message.len];
                found.extend(bytes.chunks(message.segment).map(<[u8]>::to_vec));
            }
        }
        found
    }

    fn send(socket: &UdpSocket, remote: SocketAddr, segment: usize, bytes: &[u8]) -> u64 {
        let outer = OuterHeader::default();
        let batch = |bytes| GsoBatch { path: Path::Udp { socket: 0, remote }, outer, segment, bytes };
        // Two, so that a socket without a relay would send them by one call.
        let half = bytes.len() / segment / 2 * segment;
        let batches = [batch(&bytes[..half]), batch(&bytes[half..])];
        socket.send_gso_batches(None, batches.into_iter(), &mut Backlog::default())
    }

    #[test]
    fn each_datagram_has_the_header_on_the_wire_alone() {
        for offloads in [true, false] {
            let (ours, relay) = (by_relay(bind(offloads)), bind(offloads));
            let address = relay.local_address().unwrap();
            // With headers the last of these is longer than a message can be.
            for (segment, length) in [(1400, 1400), (1400, 3_000), (1, 2), (1462, 44 * 1462 * 2 - 100)] {
                let bytes: Vec<u8> = (0..length).map(|index: usize| (index / 3).to_le_bytes()[0]).collect();
                assert_eq!(send(&ours, address, segment, &bytes), 0);
                let half = bytes.len() / segment / 2 * segment;
                let halves = bytes[..half].chunks(segment).chain(bytes[half..].chunks(segment));
                let expected: Vec<Vec<u8>> = halves.map(|part| [HEADER, part].concat()).collect();
                let arrived = receive(&relay, expected.len());
                assert!(arrived == expected, "offloads {offloads}, {segment} of {length}: {}", arrived.len());
                // And back.
                for datagram in arrived {
                    relay.send(&datagram, datagram.len(), ours.local_address().unwrap()).unwrap();
                }
                let back: Vec<u8> = receive(&ours, expected.len()).concat();
                assert!(back == bytes, "offloads {offloads}, {segment} of {length}");
            }
        }
    }

    /// The caller then sends each alone.
    #[test]
    fn datagrams_to_several_addresses_do_not_leave_without_the_header() {
        let (ours, relay) = (by_relay(bind(true)), bind(true));
        let datagrams = [(&b"x"[..], relay.local_address().unwrap())];
        assert_eq!(ours.send_datagrams(OuterHeader::default(), None, datagrams.into_iter()), 0);
    }

    #[test]
    fn datagrams_of_others_are_dropped() {
        let (ours, relay) = (by_relay(bind(true)), bind(true));
        let to = ours.local_address().unwrap();
        let good = |text: &[u8]| [HEADER, text].concat();
        let other = [b"\0\0\0\x01\xc0\x00\x02\x02\x04\xaa", &b"two"[..]].concat();
        // In one GSO batch, which arrives as one message.
        let batch = [good(b"one"), other.clone(), good(b"six"), HEADER[..7].to_vec()].concat();
        relay.send(&batch, 13, to).unwrap();
        relay.send(&HEADER[..9], 9, to).unwrap();
        relay.send(HEADER, 10, to).unwrap();
        relay.send(&good(b"end"), 13, to).unwrap();
        assert_eq!(receive(&ours, 3), [b"one", b"six", b"end"]);
    }
}
