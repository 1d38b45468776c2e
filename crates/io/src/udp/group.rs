//! One address, several sockets: each worker has its own, and a small program in the kernel says which of
//! them a datagram goes to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use adit_dataplane::codec::Steering;
use adit_sys::Instruction;

use super::{Sharing, UdpOptions, UdpSocket};

// Classic BPF (linux/filter.h, linux/bpf_common.h).
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const MODULO: u16 = (libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const RETURN_VALUE: u16 = (libc::BPF_RET | libc::BPF_A) as u16;

/// Which of `count` sockets a datagram goes to by the first rule of its kind; the first if there is none.
fn program(rules: &[Steering], count: u32) -> Vec<Instruction> {
    let step = |code, k| Instruction { code, jump_true: 0, jump_false: 0, k };
    let by_rule = |rule: &Steering| {
        [
            step(LOAD_BYTE, 0),
            step(AND, rule.kind_mask.into()),
            // To the next rule.
            Instruction { code: JUMP_IF_EQUAL, jump_true: 0, jump_false: 4, k: rule.kind.into() },
            // A load beyond the end returns 0.
            step(LOAD_WORD, rule.offset),
            step(AND, rule.mask),
            step(MODULO, count),
            step(RETURN_VALUE, 0),
        ]
    };
    rules.iter().flat_map(by_rule).chain([step(RETURN, 0)]).collect()
}

impl UdpSocket {
    /// Binds `count` sockets to `address`, so that a datagram arrives at the socket that the rule names; all arrive at
    /// the first if there is none. That the address is in use by another program is an error as with a single socket.
    pub(crate) fn bind_group(
        address: SocketAddr,
        count: usize,
        rule: Option<Steering>,
        options: &UdpOptions,
    ) -> io::Result<Vec<UdpSocket>> {
        let first = UdpSocket::bind(address, options)?;
        first.into_group((count, rule), |first| first.bind_another(options))
    }

    /// More groups, for these addresses of the machine, beside one for all of them, so that answers leave from the
    /// address that was written to. Addresses that cannot be used so are left to the one for all.
    pub(crate) fn bind_beside(
        group: &[UdpSocket],
        homes: &[IpAddr],
        rule: Option<Steering>,
        options: &UdpOptions,
    ) -> io::Result<Vec<Vec<UdpSocket>>> {
        let Some(first) = group.first() else { return Ok(Vec::new()) };
        let bound = first.local_address()?;
        let fits = |home: &&IpAddr| {
            let family = home.is_ipv4() || bound.is_ipv6();
            // A link-local address means nothing without its link.
            let local = match home {
                IpAddr::V4(home) => home.is_loopback(),
                IpAddr::V6(home) => home.is_loopback() || home.is_unicast_link_local(),
            };
            bound.ip().is_unspecified() && family && !local
        };
        let homes: Vec<IpAddr> = homes.iter().filter(fits).copied().collect();
        if homes.is_empty() {
            return Ok(Vec::new());
        }
        for socket in group {
            socket.socket.set_reuse_port(true)?;
        }
        let bind = |home: &IpAddr| {
            let address = SocketAddr::new(*home, bound.port());
            match UdpSocket::bind_one(address, options, Sharing { address: true, v4: false }) {
                // It is gone, or not usable yet (IPv6, until duplicate address detection ends).
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => None,
                bound => Some(bound.and_then(|first| {
                    first.into_group((group.len(), rule), |first| first.bind_another(options))
                })),
            }
        };
        homes.iter().filter_map(bind).collect()
    }

    /// The socket with as many more at its address as make `count`; `bind_another` makes them.
    pub(super) fn into_group(
        self,
        (count, rule): (usize, Option<Steering>),
        bind_another: impl Fn(&UdpSocket) -> io::Result<UdpSocket>,
    ) -> io::Result<Vec<UdpSocket>> {
        let mut group = vec![self];
        let Ok(number @ 2..) = u32::try_from(count) else { return Ok(group) };
        for socket in &group {
            // Only now: with this option from the start it would share the address with any program of ours.
            socket.socket.set_reuse_port(true)?;
        }
        let Some(first) = group.first() else { return Ok(group) };
        let others = (1..count).map(|_| bind_another(first)).collect::<io::Result<Vec<_>>>()?;
        adit_sys::attach_reuseport_program(first.as_fd(), &program(rule.as_slice(), number))?;
        group.extend(others);
        Ok(group)
    }

    /// Has the kernel bring datagrams to the sockets of this one's group, which has `count`, by these rules from now on: by
    /// the first that a datagram is of the kind of.
    pub(crate) fn steer(&self, count: usize, rules: &[Steering]) -> io::Result<()> {
        match u32::try_from(count) {
            Ok(count @ 2..) => adit_sys::attach_reuseport_program(self.as_fd(), &program(rules, count)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket as Plain;

    use adit_sys::Received;
    use adit_system::testing::in_fresh_network;

    use super::*;
    use crate::udp::tests::options;
    use crate::udp::{RECEIVE_SLOT, wait_readable};

    fn receive(socket: &UdpSocket) -> Option<(Vec<u8>, Received)> {
        let mut buffer = vec![0; RECEIVE_SLOT];
        let received = socket.receive_one(&mut buffer).ok()?;
        Some((buffer[..received.len].to_vec(), received))
    }

    /// Datagrams of kind 9 bear a number.
    const RULE: Option<Steering> =
        Some(Steering { kind_mask: 0xf8, kind: 9 << 3, offset: 0, mask: 0x00ff_ffff });

    /// A datagram of that kind, with that number.
    fn datagram(opcode: u8, peer: u32) -> Vec<u8> {
        let [_, a, b, c] = peer.to_be_bytes();
        [&[opcode << 3 | 1, a, b, c][..], b"the rest of it"].concat()
    }

    #[test]
    fn datagrams_find_the_socket_of_their_peer() {
        in_fresh_network(|| {
            for address in ["127.0.0.1:0", "[::]:0"] {
                let group = UdpSocket::bind_group(address.parse().unwrap(), 3, RULE, &options(true)).unwrap();
                assert_eq!(group.len(), 3);
                let port = group[0].local_address().unwrap().port();
                assert!(group.iter().all(|socket| socket.local_address().unwrap().port() == port));
                let check = |sender: &Plain, bytes: &[u8], expected: usize| {
                    sender.send_to(bytes, ("127.0.0.1", port)).unwrap();
                    assert!(wait_readable(&group[expected]).unwrap(), "{bytes:?} is not at {expected}");
                    let (arrived, received) = receive(&group[expected]).unwrap();
                    assert_eq!((&arrived[..], received.from), (bytes, sender.local_addr().unwrap()));
                };
                for _ in 0..5 {
                    // Whatever the port, and so the kernel's own choice.
                    let sender = Plain::bind("127.0.0.1:0").unwrap();
                    for peer in [0, 1, 2, 3, 4, 300, 0x0001_0000, 0x00ff_ffff] {
                        check(&sender, &datagram(9, peer), (peer % 3) as usize);
                    }
                    for opcode in [1, 3, 4, 5, 6, 7, 8, 10] {
                        check(&sender, &datagram(opcode, 1), 0);
                    }
                    check(&sender, &[9 << 3], 0);
                    check(&sender, &[9 << 3, 0, 0], 0);
                }
                assert!(group.iter().all(|socket| receive(socket).is_none()));
            }
        });
    }

    /// The address that an answer comes from, where the client wrote to each of two addresses.
    #[test]
    fn answers_come_from_the_address_that_was_written_to() {
        in_fresh_network(|| {
            let mut netlink = adit_system::Netlink::open().unwrap();
            let loopback = netlink.link("lo").unwrap().index;
            for address in ["192.0.2.1/32", "192.0.2.2/32", "2001:db8::2/128"] {
                netlink.add_address(loopback, address.parse().unwrap(), None).unwrap();
            }
            // The kernel looks whether another host has it.
            while Plain::bind("[2001:db8::2]:0").is_err() {
                std::thread::yield_now();
            }
            let homes = netlink.addresses().unwrap();
            for (all, count) in [("0.0.0.0:0", 1), ("[::]:0", 2)] {
                let group = UdpSocket::bind_group(all.parse().unwrap(), count, RULE, &options(true)).unwrap();
                let port = group[0].local_address().unwrap().port();
                let beside = UdpSocket::bind_beside(&group, &homes, RULE, &options(true)).unwrap();
                assert!(beside.iter().all(|group| group.len() == count));
                assert_eq!(beside.len(), if all.starts_with('[') { 3 } else { 2 });
                for group in &beside {
                    let home = group[0].local_address().unwrap().ip();
                    let from = if home.is_ipv4() { "192.0.2.1:0" } else { "[2001:db8::2]:0" };
                    let sender = Plain::bind(from).unwrap();
                    sender.send_to(&datagram(7, 0), (home, port)).unwrap();
                    assert!(wait_readable(&group[0]).unwrap());
                    let (_, received) = receive(&group[0]).unwrap();
                    group[0].send(b"answer", 6, received.from).unwrap();
                    let answered = sender.recv_from(&mut [0; 9]).unwrap().1;
                    assert_eq!(answered, SocketAddr::new(home, port));
                }
                // A datagram to another address still arrives.
                let sender = Plain::bind("127.0.0.1:0").unwrap();
                sender.send_to(&datagram(7, 0), ("127.0.0.1", port)).unwrap();
                assert!(wait_readable(&group[0]).unwrap() && receive(&group[0]).is_some());
            }
        });
    }

    #[test]
    fn without_a_rule_all_arrive_at_the_first() {
        in_fresh_network(|| {
            let group =
                UdpSocket::bind_group("127.0.0.1:0".parse().unwrap(), 3, None, &options(true)).unwrap();
            for number in 0..6 {
                let sender = Plain::bind("127.0.0.1:0").unwrap();
                sender.send_to(&datagram(9, number), group[0].local_address().unwrap()).unwrap();
                assert!(wait_readable(&group[0]).unwrap() && receive(&group[0]).is_some());
            }
        });
    }

    #[test]
    fn a_gso_batch_stays_together() {
        in_fresh_network(|| {
            let address = "127.0.0.1:0".parse().unwrap();
            let group = UdpSocket::bind_group(address, 2, RULE, &options(true)).unwrap();
            let sender = UdpSocket::bind(address, &options(true)).unwrap();
            let gso_batch: Vec<u8> = (0..20).flat_map(|_| datagram(9, 7)).collect();
            sender.send(&gso_batch, gso_batch.len() / 20, group[0].local_address().unwrap()).unwrap();
            assert!(wait_readable(&group[1]).unwrap());
            let mut total = 0;
            while let Some((bytes, _)) = receive(&group[1]) {
                total += bytes.len();
            }
            assert_eq!(total, gso_batch.len());
        });
    }

    #[test]
    fn a_group_is_steered_by_several_rules() {
        in_fresh_network(|| {
            let address = "127.0.0.1:0".parse().unwrap();
            let group = UdpSocket::bind_group(address, 3, RULE, &options(true)).unwrap();
            // Datagrams of kind 4 bear a number behind it.
            let other = Steering { kind_mask: 0xff, kind: 4, offset: 1, mask: u32::MAX };
            group[0].steer(3, &[RULE.unwrap(), other]).unwrap();
            let sender = Plain::bind("127.0.0.1:0").unwrap();
            for number in 0..5_u32 {
                let expected = (number % 3) as usize;
                for bytes in [datagram(9, number), [&[4], &number.to_be_bytes()[..]].concat()] {
                    sender.send_to(&bytes, group[0].local_address().unwrap()).unwrap();
                    assert!(wait_readable(&group[expected]).unwrap(), "{bytes:?} is not at {expected}");
                    assert_eq!(receive(&group[expected]).unwrap().0, bytes);
                }
                for bytes in [datagram(7, number), vec![4, 0, 0, 0]] {
                    sender.send_to(&bytes, group[0].local_address().unwrap()).unwrap();
                    assert!(wait_readable(&group[0]).unwrap());
                    assert_eq!(receive(&group[0]).unwrap().0, bytes);
                }
            }
        });
    }

    #[test]
    fn a_group_shares_its_address_with_no_other_socket() {
        in_fresh_network(|| {
            let any = "127.0.0.1:0".parse().unwrap();
            let group = UdpSocket::bind_group(any, 2, RULE, &options(true)).unwrap();
            let address = group[0].local_address().unwrap();
            for count in [1, 2] {
                let error = UdpSocket::bind_group(address, count, RULE, &options(true)).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
            }
            assert_eq!(UdpSocket::bind_group(any, 1, RULE, &options(true)).unwrap().len(), 1);
        });
    }
}
