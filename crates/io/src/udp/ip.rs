//! Sockets for an IP protocol other than UDP: raw sockets (raw(7), RFC 3542 section 3).
//!
//! The kernel writes the IP header of a sent datagram. It leaves the header before a received one over IPv4, and not
//! over IPv6. There is no port, no UDP_SEGMENT and no UDP_GRO: each datagram is a message, of which one system call
//! takes many.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;

use adit_core::Path;
use adit_dataplane::codec::Steering;
use adit_sys::{Instruction, Received};
use socket2::{Domain, Protocol, Socket, Type};

use super::{DEFAULT_BUFFER, Framing, UdpOptions, UdpSocket, set_buffers};
use crate::config::Buffers;
use adit_system::mark;

// Classic BPF (linux/filter.h, linux/bpf_common.h).
const LOAD_HEADER_LENGTH: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
const LOAD_NO_HEADER: u16 = (libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM) as u16;
const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_IND) as u16;
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_IND) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const MODULO: u16 = (libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// The shortest IPv4 header.
const IPV4_HEADER: usize = 20;

/// One of the workers' sockets at an address.
#[derive(Clone, Copy)]
struct Share {
    number: u32,
    count: u32,
}

/// Which datagrams a worker's socket takes: the kernel gives each of the sockets a copy. Those that no rule names are the
/// first worker's.
fn program(v6: bool, rule: Option<Steering>, share: Share) -> Vec<Instruction> {
    let step = |code, k| Instruction { code, jump_true: 0, jump_false: 0, k };
    let verdict = |takes: bool| step(RETURN, if takes { u32::MAX } else { 0 });
    let others = verdict(share.number == 0);
    let Some(rule) = rule else { return vec![others] };
    vec![
        step(if v6 { LOAD_NO_HEADER } else { LOAD_HEADER_LENGTH }, 0),
        // A load beyond the end drops the datagram.
        step(LOAD_BYTE, 0),
        step(AND, rule.kind_mask.into()),
        Instruction { code: JUMP_IF_EQUAL, jump_true: 0, jump_false: 6, k: rule.kind.into() },
        step(LOAD_WORD, rule.offset),
        step(AND, rule.mask),
        step(MODULO, share.count),
        Instruction { code: JUMP_IF_EQUAL, jump_true: 1, jump_false: 0, k: share.number },
        verdict(false),
        verdict(true),
        others,
    ]
}

impl UdpSocket {
    /// A socket for that IP protocol, which is bound to `address`.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_RAW`; the address is not this machine's.
    pub(crate) fn bind_ip(protocol: u8, address: IpAddr, options: &UdpOptions) -> io::Result<UdpSocket> {
        let address = SocketAddr::new(address, 0);
        let kind = Protocol::from(libc::c_int::from(protocol));
        let socket = Socket::new(Domain::for_address(address), Type::RAW, Some(kind))?;
        mark::route(&socket, options.routing)?;
        socket.set_nonblocking(true)?;
        let Buffers { sndbuf, rcvbuf } = options.buffers;
        let buffers =
            Buffers { sndbuf: sndbuf.or(Some(DEFAULT_BUFFER)), rcvbuf: rcvbuf.or(Some(DEFAULT_BUFFER)) };
        set_buffers(&socket, buffers);
        socket.bind(&address.into())?;
        UdpSocket::of_ip(socket, address.is_ipv6(), options)
    }

    /// A raw socket that is bound.
    pub(super) fn of_ip(socket: Socket, v6: bool, options: &UdpOptions) -> io::Result<UdpSocket> {
        let protocol = socket.protocol()?.and_then(|protocol| u8::try_from(libc::c_int::from(protocol)).ok());
        let protocol = protocol.ok_or_else(|| io::Error::other("a raw socket without a protocol"))?;
        let framing = if v6 { Framing::Nothing } else { Framing::IpHeader };
        let udp = UdpSocket::of(socket, v6, options);
        Ok(UdpSocket { gso: false, framing, protocol: Some(protocol), ..udp })
    }

    /// The path to `remote` by this socket, which has that number.
    pub(crate) fn path(&self, number: u32, remote: SocketAddr) -> Path {
        match self.protocol {
            None => Path::Udp { socket: number, remote },
            Some(protocol) => Path::Ip { socket: number, protocol, remote },
        }
    }
}

/// The workers' sockets for an IP protocol at an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpGroup {
    pub(crate) protocol: u8,
    pub(crate) address: IpAddr,
    /// How many there are.
    pub(crate) count: usize,
    /// Says which of them a datagram is for; all arrive at the first if there is none.
    pub(crate) steering: Option<Steering>,
}

impl IpGroup {
    /// Binds them.
    ///
    /// # Errors
    /// As [`UdpSocket::bind_ip`].
    pub(crate) fn bind(self, options: &UdpOptions) -> io::Result<Vec<UdpSocket>> {
        let count = u32::try_from(self.count.max(1)).map_err(io::Error::other)?;
        let bind = |number| {
            let socket = UdpSocket::bind_ip(self.protocol, self.address, options)?;
            if count > 1 {
                let program = program(self.address.is_ipv6(), self.steering, Share { number, count });
                adit_sys::attach_filter(socket.as_fd(), &program)?;
            }
            Ok(socket)
        };
        (0..count).map(bind).collect()
    }
}

/// Takes the IPv4 headers off the datagrams of one receive, which lie in `buffer`. One whose header is not whole is dropped.
pub(super) fn strip_headers(buffer: &[u8], found: &mut Vec<Received>) {
    found.retain_mut(|message| {
        let first = buffer.get(message.at).copied().unwrap_or_default();
        let header = usize::from(first & 0xf) * 4;
        if header < IPV4_HEADER || header >= message.len {
            return false;
        }
        message.at += header;
        message.len -= header;
        message.segment = message.len;
        true
    });
}

#[cfg(test)]
mod tests {
    use adit_dataplane::{GsoBatch, OuterHeader};
    use adit_sys::LocalAddress;

    use super::*;
    use crate::udp::tests::options;
    use crate::udp::{Backlog, Gathered, PinnedSource, RECEIVE_BUFFER, wait_readable};
    use adit_system::testing::in_fresh_network;

    /// For experiments (RFC 3692).
    const PROTOCOL: u8 = 253;

    /// The datagrams of one receive after the other, until `count` datagrams came, and the number of
    /// receives.
    fn receive(socket: &UdpSocket, count: usize) -> (Vec<(Vec<u8>, Received)>, usize) {
        let mut buffer = vec![0; RECEIVE_BUFFER];
        let (mut gathered, mut all, mut calls) = (Gathered::default(), Vec::new(), 0);
        while all.len() < count && wait_readable(socket).unwrap() {
            calls += 1;
            match socket.receive(&mut buffer, &mut gathered) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => drop(outcome.unwrap()),
            }
            let messages = gathered.messages().iter();
            all.extend(messages.map(|found| (buffer[found.at..found.at + found.len].to_vec(), *found)));
        }
        (all, calls)
    }

    fn bind(address: &str) -> UdpSocket {
        UdpSocket::bind_ip(PROTOCOL, address.parse().unwrap(), &options(true)).unwrap()
    }

    #[test]
    fn gso_batches_arrive_datagram_by_datagram_in_few_receives() {
        in_fresh_network(|| {
            for address in ["127.0.0.1", "::1"] {
                let (from, to) = (bind(address), bind(address));
                let remote = to.local_address().unwrap();
                assert_eq!(remote.port(), 0);
                let path = from.path(3, remote);
                assert_eq!(path, Path::Ip { socket: 3, protocol: PROTOCOL, remote });
                let outer = OuterHeader { traffic_class: 2, hop_limit: 9 };
                let bytes: Vec<u8> = (0..30_000_u32).map(|index| (index / 7).to_le_bytes()[0]).collect();
                let batches = [&bytes[..10_000], &bytes[10_000..]];
                let batches = batches.map(|bytes| GsoBatch { path, outer, segment: 1_000, bytes });
                assert_eq!(from.send_gso_batches(None, batches.into_iter(), &mut Backlog::default()), 0);
                let (arrived, calls) = receive(&to, 30);
                let expected: Vec<&[u8]> = bytes.chunks(1_000).collect();
                let datagrams: Vec<&[u8]> = arrived.iter().map(|(bytes, _)| &bytes[..]).collect();
                assert!(datagrams == expected, "{address}: {}", datagrams.len());
                assert!(arrived.iter().all(|(_, found)| found.from == remote && found.segment == found.len));
                assert!(calls < 10, "{address}: {calls} receives for 30 datagrams");
            }
        });
    }

    #[test]
    fn each_datagram_has_its_local_address_and_leaves_from_one() {
        in_fresh_network(|| {
            let to = bind("0.0.0.0");
            to.learn_local_addresses().unwrap();
            to.learn_traffic_classes().unwrap();
            let from = bind("0.0.0.0");
            let source = PinnedSource::new(LocalAddress { ip: "127.0.0.9".parse().unwrap(), device: 0 });
            let outer = OuterHeader { traffic_class: 2, hop_limit: 0 };
            let remote: SocketAddr = "127.0.0.7:0".parse().unwrap();
            assert_eq!(from.send_datagrams(outer, Some(&source), [(&b"word"[..], remote)].into_iter()), 1);
            let (arrived, _) = receive(&to, 1);
            let (bytes, found) = &arrived[0];
            assert_eq!((&bytes[..], found.from.to_string()), (&b"word"[..], "127.0.0.9:0".to_owned()));
            assert_eq!(found.local.map(|local| local.ip.to_string()).as_deref(), Some("127.0.0.7"));
            assert_eq!(found.traffic_class, 2);
        });
    }

    #[test]
    fn the_traffic_class_of_each_datagram_is_learned_by_either_family() {
        in_fresh_network(|| {
            for address in ["127.0.0.1", "::1"] {
                let (from, to) = (bind(address), bind(address));
                to.learn_traffic_classes().unwrap();
                let remote = to.local_address().unwrap();
                let outer = OuterHeader { traffic_class: 3, hop_limit: 0 };
                assert_eq!(from.send_datagrams(outer, None, [(&b"word"[..], remote)].into_iter()), 1);
                let (arrived, _) = receive(&to, 1);
                assert_eq!(arrived[0].1.traffic_class, 3, "{address}");
            }
        });
    }

    #[test]
    fn a_datagram_arrives_at_the_socket_of_its_worker_alone() {
        in_fresh_network(|| {
            let rule = Steering { kind_mask: 0x80, kind: 0x80, offset: 0, mask: 0xff };
            for address in ["127.0.0.1", "::1"] {
                let address: IpAddr = address.parse().unwrap();
                let group = IpGroup { protocol: PROTOCOL, address, count: 3, steering: Some(rule) };
                let group = group.bind(&options(true)).unwrap();
                let to = SocketAddr::new(address, 0);
                let from = bind(&address.to_string());
                for (datagram, expected) in
                    [([0x80, 0, 0, 0], 0), ([0x80, 0, 0, 1], 1), ([0x81, 7, 7, 5], 2), ([0x01, 0, 0, 1], 0)]
                {
                    from.send(&datagram, 4, to).unwrap();
                    let (arrived, _) = receive(&group[expected], 1);
                    assert_eq!(arrived.first().map(|(bytes, _)| &bytes[..]), Some(&datagram[..]));
                    let mut buffer = vec![0; RECEIVE_BUFFER];
                    for (_, other) in group.iter().enumerate().filter(|(number, _)| *number != expected) {
                        let error = other.receive(&mut buffer, &mut Gathered::default()).unwrap_err();
                        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    }
                }
            }
        });
    }

    #[test]
    fn a_header_that_is_not_whole_drops_the_datagram() {
        let from = "192.0.2.1:0".parse().unwrap();
        let message = |at, len| Received {
            at,
            len,
            segment: len,
            from,
            local: None,
            device: 0,
            traffic_class: 0,
            truncated: false,
        };
        let mut buffer = [0; 100];
        (buffer[0], buffer[40], buffer[60], buffer[80]) = (0x46, 0x44, 0x45, 0x45);
        let mut found = vec![message(0, 40), message(40, 20), message(60, 20), message(80, 0)];
        strip_headers(&buffer, &mut found);
        let left: Vec<(usize, usize)> = found.iter().map(|found| (found.at, found.len)).collect();
        assert_eq!(left, [(24, 16)]);
    }
}
