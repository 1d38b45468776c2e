use adit_core::TunnelSettings;
use adit_sys::LocalAddress;
use adit_system::Routing;
use adit_system::testing::in_fresh_network;

use super::self_test::UdpOffloads;
use super::*;
use crate::tun::{READ_BUFFER, Tun, TunConfig, VNET_HEADER};

pub(super) fn options(offloads: bool) -> UdpOptions {
    UdpOptions {
        buffers: Buffers::default(),
        gso: offloads,
        gro: offloads,
        routing: SocketRouting::default(),
    }
}

/// Sends one GSO batch and gives the datagrams that arrive.
fn carry(from: &UdpSocket, to: &UdpSocket, address: SocketAddr, gso_batch: &[u8]) -> Vec<Vec<u8>> {
    from.send(gso_batch, 700, address).unwrap();
    let mut datagrams = Vec::new();
    let mut buffer = vec![0; RECEIVE_SLOT];
    let mut total = 0;
    while total < gso_batch.len() {
        assert!(wait_readable(to).unwrap(), "only {total} of {} bytes came", gso_batch.len());
        let received = to.receive_one(&mut buffer).unwrap();
        assert!(!received.truncated);
        datagrams.extend(buffer[..received.len].chunks(received.segment).map(<[u8]>::to_vec));
        total += received.len;
    }
    datagrams
}

#[test]
fn gso_batches_arrive_with_and_without_offloads() {
    let gso_batch: Vec<u8> = (0..700 * 5 + 123_u32).map(|index| index.to_le_bytes()[0]).collect();
    let expected: Vec<Vec<u8>> = gso_batch.chunks(700).map(<[u8]>::to_vec).collect();
    for (send, receive) in [(true, true), (true, false), (false, true), (false, false)] {
        let to = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(receive)).unwrap();
        let from = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(send)).unwrap();
        let address = to.local_address().unwrap();
        assert_eq!(carry(&from, &to, address, &gso_batch), expected, "gso {send}, gro {receive}");
    }
}

#[test]
fn a_dual_stack_socket_shows_ipv4_as_ipv4() {
    let server = UdpSocket::bind("[::]:0".parse().unwrap(), &options(true)).unwrap();
    let port = server.local_address().unwrap().port();
    let client = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(true)).unwrap();
    client.send(b"hello", 5, ([127, 0, 0, 1], port).into()).unwrap();
    assert!(wait_readable(&server).unwrap());
    let mut buffer = [0; 16];
    let received = server.receive_one(&mut buffer).unwrap();
    assert_eq!(received.from, client.local_address().unwrap());
    server.send(b"back", 4, received.from).unwrap();
    assert!(wait_readable(&client).unwrap());
    assert_eq!(client.receive_one(&mut buffer).unwrap().len, 4);
}

/// IPv4, IPv6, and IPv4 at sockets for both families: the traffic class that is set is the one that arrives,
/// also of a GSO batch.
#[test]
fn traffic_classes_are_sent_and_received() {
    for (server, client) in [
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("[::1]:0", "[::1]:0"),
        ("[::]:0", "127.0.0.1:0"),
        ("127.0.0.1:0", "[::]:0"),
        ("[::]:0", "[::]:0"),
    ] {
        let [server, client] =
            [server, client].map(|at| UdpSocket::bind(at.parse().unwrap(), &options(true)).unwrap());
        let port = server.local_address().unwrap().port();
        let ip: IpAddr =
            if server.reaches_ipv4() { [127, 0, 0, 1].into() } else { Ipv6Addr::LOCALHOST.into() };
        let send = |outer| {
            let datagrams = Datagrams { bytes: &[7; 250], segment: 100, to: (ip, port).into(), outer };
            client.send_from(None, datagrams).unwrap();
            let (mut arrived, mut class, mut buffer) = (0, None, vec![0; RECEIVE_SLOT]);
            while arrived < 250 {
                assert!(wait_readable(&server).unwrap(), "nothing came");
                let received = server.receive_one(&mut buffer).unwrap();
                assert_eq!(*class.get_or_insert(received.traffic_class), received.traffic_class);
                arrived += received.len;
            }
            class
        };
        let ce = OuterHeader { traffic_class: 3, hop_limit: 9 };
        assert_eq!(send(ce), Some(0), "the socket was not told to say it");
        server.learn_traffic_classes().unwrap();
        // Where the other options take room, too.
        server.learn_local_addresses().unwrap();
        for traffic_class in [3, 0x88, 0, 0xff] {
            assert_eq!(send(OuterHeader { traffic_class, hop_limit: 9 }), Some(traffic_class), "{ip}");
        }
    }
}

#[test]
fn a_link_local_peer_is_answered() {
    in_fresh_network(|| {
        for command in [
            "link add left type veth peer name right",
            "link set left addrgenmode none up",
            "link set right addrgenmode none up",
            "addr add fe80::1/64 dev left nodad",
            "addr add fe80::2/64 dev right nodad",
        ] {
            let status = std::process::Command::new("ip").args(command.split(' ')).status().unwrap();
            assert!(status.success(), "ip {command}");
        }
        let mut netlink = adit_system::Netlink::open().unwrap();
        let [left, right] = ["left", "right"].map(|name| netlink.link(name).unwrap().index);
        let server = UdpSocket::bind("[::]:0".parse().unwrap(), &options(true)).unwrap();
        server.learn_local_addresses().unwrap();
        let port = server.local_address().unwrap().port();
        let own = SocketAddrV6::new("fe80::1".parse().unwrap(), 0, 0, left);
        let client = UdpSocket::bind(own.into(), &options(true)).unwrap();
        let to = SocketAddrV6::new("fe80::2".parse().unwrap(), port, 0, left).into();
        // The kernel adds the local route of an IPv6 address a moment later.
        let arrived = (0..10).any(|_| {
            client.send(b"hello", 5, to).unwrap();
            wait_readable(&server).unwrap()
        });
        assert!(arrived);
        let mut buffer = [0; 16];
        let Received { from, local, .. } = server.receive_one(&mut buffer).unwrap();
        assert!(matches!(from, SocketAddr::V6(v6) if v6.scope_id() == right), "{from}");
        // From the address that the system chooses, and from the one that was written to, which means nothing without its
        // device.
        let local = local.unwrap();
        assert_eq!(local, LocalAddress { ip: "fe80::2".parse().unwrap(), device: right });
        let source = PinnedSource::new(local);
        for source in [None, Some(&source)] {
            let back = Datagrams { bytes: b"back", segment: 4, to: from, outer: OuterHeader::default() };
            server.send_from(source, back).unwrap();
            assert!(wait_readable(&client).unwrap());
            let back = client.receive_one(&mut buffer).unwrap();
            assert_eq!((back.len, back.from.ip().to_string()), (4, "fe80::2".to_owned()));
        }
        assert!(source.get().is_some());
    });
}

#[test]
fn segments_beyond_the_mtu_go_out_one_by_one() {
    // The loopback device's MTU is 65,536: two segments do not fit a send at all, so the kernel
    // refuses, and the fallback must deliver.
    let to = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(true)).unwrap();
    let from = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(true)).unwrap();
    let gso_batch = vec![7; 2 * 40_000];
    from.send(&gso_batch, 40_000, to.local_address().unwrap()).unwrap();
    let mut buffer = vec![0; RECEIVE_SLOT];
    for _ in 0..2 {
        assert!(wait_readable(&to).unwrap());
        assert_eq!(to.receive_one(&mut buffer).unwrap().len, 40_000);
    }
}

#[test]
fn this_kernel_has_the_offloads() {
    assert_eq!(self_test(), UdpOffloads { gso: Ok(()), gro: Ok(()) });
}

/// A TUN device without any offload is the only way to 10.5.0.0/24.
pub(super) fn narrow_link(mtu: u16) -> (Tun, Routing) {
    let mut config = TunConfig::default();
    (config.offloads.tun_tcp, config.offloads.tun_udp) = (false, false);
    let tun = Tun::create(&config).unwrap();
    let mut routing = Routing::new(tun.name()).unwrap();
    let addresses = vec!["10.5.0.1/24".parse().unwrap()];
    let settings = TunnelSettings { addresses, mtu, ..TunnelSettings::default() };
    assert_eq!(routing.apply(&settings), []);
    (tun, routing)
}

/// The next `count` IPv4 packets that come out of the device, without their headers.
pub(super) fn payloads(tun: &Tun, count: usize) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; READ_BUFFER];
    let mut found = Vec::new();
    while found.len() < count {
        assert!(readable(tun.as_fd()).unwrap(), "only {} of {count} packets came", found.len());
        let length = tun.read(&mut buffer).unwrap();
        let packet = &buffer[VNET_HEADER..length];
        if packet[0] == 0x45 {
            found.push(packet[20..].to_vec());
        }
    }
    found
}

#[test]
fn a_device_without_offloads_gets_every_datagram() {
    in_fresh_network(|| {
        let (tun, _routing) = narrow_link(1500);
        let socket = UdpSocket::bind("10.5.0.1:0".parse().unwrap(), &options(true)).unwrap();
        let gso_batch: Vec<u8> = (0..5).flat_map(|number| vec![number; 1000]).chain([9; 300]).collect();
        for _ in 0..2 {
            socket.send(&gso_batch, 1000, "10.5.0.2:9".parse().unwrap()).unwrap();
            let payloads = payloads(&tun, 6);
            assert!(payloads.iter().map(|payload| &payload[8..]).eq(gso_batch.chunks(1000)));
        }
    });
}

#[test]
fn a_kernel_without_segmentation_is_not_asked_again() {
    let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(true)).unwrap();
    let to: SocketAddr = "192.0.2.1:9".parse().unwrap();
    assert!(!socket.learn(&io::Error::from_raw_os_error(libc::ENETUNREACH), 1000, to));
    assert!(socket.gso_refusal().is_none());
    assert!(socket.learn(&io::Error::from_raw_os_error(libc::ENOPROTOOPT), 500, to));
    assert_eq!(socket.gso_refusal().unwrap().raw_os_error(), Some(libc::ENOPROTOOPT));
    assert_eq!(socket.longest_segment("198.51.100.1:9".parse().unwrap()), 0);
}

/// Without IPv6, sockets for IPv4 are enough; a port that is taken, or may not be had, is an error all the same.
#[test]
fn a_machine_without_ipv6_is_known_by_its_error() {
    let lacks = |number| lacks_v6(&io::Error::from_raw_os_error(number));
    assert!(lacks(libc::EAFNOSUPPORT) && lacks(libc::EADDRNOTAVAIL));
    assert!(![libc::EADDRINUSE, libc::EACCES, libc::EPERM, libc::EMFILE].into_iter().any(lacks));
}

#[test]
fn what_one_path_refuses_holds_for_that_path_alone() {
    let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(true)).unwrap();
    let [narrow, plain, other]: [SocketAddr; 3] =
        ["192.0.2.1:9", "192.0.2.2:9", "192.0.2.3:9"].map(|address| address.parse().unwrap());
    assert!(socket.learn(&io::Error::from_raw_os_error(libc::EMSGSIZE), 1300, narrow));
    // The error of older kernels for a device without checksum offload.
    assert!(socket.learn(&io::Error::from_raw_os_error(libc::EIO), 500, plain));
    let longest = [narrow, plain, other].map(|to| socket.longest_segment(to));
    assert_eq!(longest, [1299, 0, usize::from(u16::MAX)]);
    assert!(socket.gso_refusal().is_none(), "other paths use it");
    assert_eq!(socket.gso_limited_destinations(), 2);
}

#[test]
fn a_narrow_path_leaves_the_others_their_large_sends() {
    in_fresh_network(|| {
        let (narrow, _routing) = narrow_link(600);
        let socket = UdpSocket::bind("0.0.0.0:0".parse().unwrap(), &options(true)).unwrap();
        let receiver = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(true)).unwrap();
        std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
        socket.send(&[7; 3000], 1000, "10.5.0.2:9".parse().unwrap()).unwrap();
        payloads(&narrow, 6);
        assert_eq!(socket.gso_limited_destinations(), 1);
        socket.send(&[8; 3000], 1000, receiver.local_address().unwrap()).unwrap();
        assert!(wait_readable(&receiver).unwrap());
        let received = receiver.receive_one(&mut vec![0; RECEIVE_SLOT]).unwrap();
        assert_eq!(
            (received.len, received.segment),
            (3000, 1000),
            "one large send, which loopback keeps whole"
        );
    });
}

#[test]
fn a_peer_at_port_0_changes_nothing_for_its_address() {
    let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(true)).unwrap();
    let _ = socket.send(&[1; 3000], 1000, "127.0.0.1:0".parse().unwrap());
    assert_eq!(socket.gso_limited_destinations(), 0);
    assert_eq!(socket.longest_segment("127.0.0.1:9".parse().unwrap()), usize::from(u16::MAX));
}

#[test]
fn datagrams_longer_than_the_mtu_travel_in_fragments() {
    in_fresh_network(|| {
        let (tun, _routing) = narrow_link(600);
        let socket = UdpSocket::bind("10.5.0.1:0".parse().unwrap(), &options(true)).unwrap();
        socket.send(&[7; 3000], 1000, "10.5.0.2:9".parse().unwrap()).unwrap();
        let total: usize = payloads(&tun, 6).iter().map(Vec::len).sum();
        assert_eq!(total, 3 * 1008, "three datagrams with a UDP header each");
        assert_eq!(socket.longest_segment("10.5.0.2:9".parse().unwrap()), 999, "shorter ones are still cut");
        socket.send(&[8; 1200], 400, "10.5.0.2:9".parse().unwrap()).unwrap();
        assert!(payloads(&tun, 3).iter().all(|payload| payload.len() == 408));
    });
}

/// Whether the next `count` IPv4 packets that come out of the device have DF.
fn dont_fragment(tun: &Tun, count: usize) -> Vec<bool> {
    let mut buffer = vec![0; READ_BUFFER];
    let mut found = Vec::new();
    while found.len() < count {
        assert!(readable(tun.as_fd()).unwrap(), "only {} of {count} packets came", found.len());
        let length = tun.read(&mut buffer).unwrap();
        let packet = &buffer[VNET_HEADER..length];
        if packet[0] == 0x45 {
            found.push(packet[6] & 0x40 != 0);
        }
    }
    found
}

/// A path that carries less, and on which ICMP gets lost, carries single datagrams and batches alike.
#[test]
fn routers_may_cut_single_datagrams_as_they_may_batches_unless_it_is_forbidden() {
    in_fresh_network(|| {
        let (tun, _routing) = narrow_link(1500);
        let to: SocketAddr = "10.5.0.2:9".parse().unwrap();
        let cases = [
            (Fragmentation::System, true, false),
            (Fragmentation::Allowed, false, false),
            (Fragmentation::ByPath, true, false),
            (Fragmentation::Forbidden, true, true),
        ];
        for (fragmentation, single, batch) in cases {
            let routing = SocketRouting { fragmentation, ..SocketRouting::default() };
            for bound in ["0.0.0.0:0", "[::]:0"] {
                let options = UdpOptions { routing, ..options(true) };
                let socket = UdpSocket::bind(bound.parse().unwrap(), &options).unwrap();
                socket.send(&[7; 1000], 1000, to).unwrap();
                assert_eq!(dont_fragment(&tun, 1), [single], "{fragmentation:?}, {bound}");
                socket.send(&[7; 4000], 1000, to).unwrap();
                assert_eq!(dont_fragment(&tun, 4), [batch; 4], "{fragmentation:?}, a batch, {bound}");
            }
        }
    });
}

#[test]
fn the_system_cuts_long_datagrams_unless_it_is_forbidden() {
    in_fresh_network(|| {
        let (_tun, mut routing) = narrow_link(1500);
        let addresses = ["10.5.0.1/24", "fd00:5::1/64"].map(|address| address.parse().unwrap()).to_vec();
        let settings = TunnelSettings { addresses, mtu: 1500, ..TunnelSettings::default() };
        assert_eq!(routing.apply(&settings), []);
        let cases =
            [Fragmentation::System, Fragmentation::Allowed, Fragmentation::ByPath, Fragmentation::Forbidden];
        for fragmentation in cases {
            let is_forbidden = fragmentation == Fragmentation::Forbidden;
            let routing = SocketRouting { fragmentation, ..SocketRouting::default() };
            for (bound, to) in
                [("0.0.0.0:0", "10.5.0.2:9"), ("[::]:0", "[::ffff:10.5.0.2]:9"), ("[::]:0", "[fd00:5::2]:9")]
            {
                let options = UdpOptions { routing, ..options(true) };
                let socket = UdpSocket::bind(bound.parse().unwrap(), &options).unwrap();
                let sent = socket.send(&[7; 2000], 2000, to.parse().unwrap());
                let refused = sent.err().and_then(|error| error.raw_os_error());
                assert_eq!(refused, is_forbidden.then_some(libc::EMSGSIZE), "{fragmentation:?}, {to}");
            }
        }
    });
}

/// A batch, and a single datagram, from an address that is not there; then the batch again when it is.
#[test]
fn a_source_that_the_system_refuses_is_done_without() {
    in_fresh_network(|| {
        let add = "addr add 2001:db8::1 dev lo nodad".split(' ');
        assert!(std::process::Command::new("ip").args(add).status().unwrap().success());
        let mut netlink = adit_system::Netlink::open().unwrap();
        // The kernel adds its local route a moment later.
        while !netlink.next_hop("2001:db8::1".parse().unwrap()).is_ok_and(|hop| hop.local) {
            std::thread::yield_now();
        }
        let cases = [
            ("0.0.0.0:0", "127.0.0.1", "127.0.0.9", "192.0.2.9"),
            ("[::]:0", "::1", "2001:db8::1", "2001:db8::9"),
        ];
        for (any, loopback, there, gone) in cases {
            let from = UdpSocket::bind(any.parse().unwrap(), &options(true)).unwrap();
            let to = UdpSocket::bind(SocketAddr::new(loopback.parse().unwrap(), 0), &options(true)).unwrap();
            let source = |ip: &str| PinnedSource::new(LocalAddress { ip: ip.parse().unwrap(), device: 0 });
            let send = |source: &PinnedSource| {
                let batch = [5; 3 * 700];
                let address = to.local_address().unwrap();
                let batch =
                    Datagrams { bytes: &batch, segment: 700, to: address, outer: OuterHeader::default() };
                from.send_from(Some(source), batch).unwrap();
                assert!(wait_readable(&to).unwrap());
                let received = to.receive_one(&mut vec![0; RECEIVE_SLOT]).unwrap();
                assert_eq!((received.len, received.segment), (2100, 700), "one large send");
                received.from.ip()
            };
            let (good, bad) = (source(there), source(gone));
            assert_eq!(send(&good).to_string(), there);
            assert!(good.get().is_some());
            for _ in 0..2 {
                assert_eq!(send(&bad).to_string(), loopback);
                assert!(bad.get().is_none());
            }
            assert_eq!(from.gso_limited_destinations(), 0, "it was not the length of the segments");
            bad.restore();
            assert!(bad.get().is_some());
        }
    });
}

#[test]
fn sockets_say_where_datagrams_came_to() {
    in_fresh_network(|| {
        for (any, to) in [("0.0.0.0:0", "127.0.0.5"), ("[::]:0", "::1")] {
            let socket = UdpSocket::bind(any.parse().unwrap(), &options(true)).unwrap();
            let from = UdpSocket::bind(any.parse().unwrap(), &options(true)).unwrap();
            let address = SocketAddr::new(to.parse().unwrap(), socket.local_address().unwrap().port());
            let receive = || {
                from.send(&[3; 1500], 500, address).unwrap();
                assert!(wait_readable(&socket).unwrap());
                let received = socket.receive_one(&mut vec![0; RECEIVE_SLOT]).unwrap();
                assert_eq!((received.len, received.segment), (1500, 500));
                received.local
            };
            assert_eq!(receive(), None, "nobody asked");
            socket.learn_local_addresses().unwrap();
            assert_eq!(receive(), Some(LocalAddress { ip: to.parse().unwrap(), device: 0 }));
        }
    });
}
