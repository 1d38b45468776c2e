//! Compression and `fragment`: the effect of each end's file, of the push and of the other end's options string, and
//! the parameters of the data planes.

use std::net::SocketAddr;

use adit_core::{
    Cipher, Command, Digest, Instant, Notice, Path, PeerId, PeerOrder, Protocol, Transport, UnixTime,
};
use adit_openvpn::StaticTunnel;
use adit_openvpn::codec::{Compression, Framing, Payloads, session_id};
use adit_openvpn::params::{
    ClientParams, DataParams, Fragment, PushedCompression, ServerParams, StaticParams,
};
use adit_openvpn::request::{DataEvent, Event};
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::testing::{Authority, Pair, client_params, server_params};
use adit_openvpn::wrap::{KeyDirection, WrapConfig};
use rcgen::ExtendedKeyUsagePurpose;

fn pair(
    transport: Transport,
    client: impl FnOnce(&mut ClientParams),
    server: impl FnOnce(&mut ServerParams),
) -> Pair {
    let authority = Authority::new();
    let identity = authority.issue("server", ExtendedKeyUsagePurpose::ServerAuth);
    let mut server_params = server_params(&identity, WrapConfig::Plain);
    server(&mut server_params);
    let identity = authority.issue("client", ExtendedKeyUsagePurpose::ClientAuth);
    let mut client_params = client_params(&identity, WrapConfig::Plain, transport);
    client(&mut client_params);
    Pair::new(client_params, server_params)
}

/// The first installed session's framing and payloads.
fn installed(events: &[Event]) -> Option<(Compression, Payloads)> {
    events.iter().find_map(|event| match event {
        Event::Data(DataEvent::Install(install)) => match install.codec.framing {
            Framing::Data(framing) | Framing::Epoch(framing) => {
                Some((framing.compression, install.codec.payloads))
            }
            Framing::StaticKey(_) => None,
        },
        _ => None,
    })
}

fn is_told(events: &[Event], words: &str) -> bool {
    events.iter().any(|event| matches!(event, Event::Report(report) if report.text.contains(words)))
}

/// Our file, as `comp-lzo` makes it.
fn names_lzo(data: &mut DataParams) {
    data.compression = Compression::LzoNo;
    data.decompress = true;
    data.pushed_compression = PushedCompression::Decompressed;
}

#[test]
fn each_end_decompresses_what_its_file_asks_for() {
    let pair =
        pair(Transport::Udp, |client| names_lzo(&mut client.data), |server| names_lzo(&mut server.data));
    assert!(pair.is_up());
    let expected = Some((Compression::LzoNo, Payloads { decompress: true, ..Payloads::default() }));
    assert_eq!(installed(&pair.client_events), expected);
    assert_eq!(installed(&pair.server_events), expected);
    let plain = self::pair(Transport::Udp, |_| {}, |_| {});
    assert_eq!(installed(&plain.client_events), Some((Compression::None, Payloads::default())));
    assert_eq!(installed(&plain.server_events), Some((Compression::None, Payloads::default())));
}

#[test]
fn a_pushed_algorithm_is_decompressed_if_the_file_lets_it() {
    let push = |server: &mut ServerParams| server.push.push("compress lz4".to_owned());
    for (accepts, decompress) in
        [(PushedCompression::Decompressed, true), (PushedCompression::FramingAlone, false)]
    {
        let pair = pair(Transport::Udp, |client| client.data.pushed_compression = accepts, push);
        assert!(pair.is_up());
        let expected = Some((Compression::Stub, Payloads { decompress, ..Payloads::default() }));
        assert_eq!(installed(&pair.client_events), expected);
        assert_eq!(is_told(&pair.client_events, "allow-compression asym"), !decompress);
    }
    let refusing = |client: &mut ClientParams| client.data.pushed_compression = PushedCompression::Refused;
    let pair = pair(Transport::Udp, refusing, push);
    assert_eq!(installed(&pair.client_events), None);
    let failed = |event: &Event| format!("{event:?}").contains("`allow-compression no` here forbids");
    assert!(pair.client_events.iter().any(failed), "{:?}", pair.client_events);
}

/// A later PUSH_UPDATE may set such an MTU, and the keys stay.
#[test]
fn a_client_takes_payloads_of_the_largest_mtu_that_may_be_pushed() {
    let large = |client: &mut ClientParams| {
        names_lzo(&mut client.data);
        client.max_pushed_mtu = 9000;
    };
    let pair = pair(Transport::Udp, large, |server| names_lzo(&mut server.data));
    assert!(pair.is_up());
    let (_, payloads) = installed(&pair.client_events).unwrap();
    assert_eq!(payloads, Payloads { decompress: true, fragment: None, longest: 9000 });
    let (_, payloads) = installed(&pair.server_events).unwrap();
    assert_eq!(payloads.longest, 1600);
}

#[test]
fn a_static_key_has_them_too() {
    let key = StaticKey::from_bytes(&[7; 256]);
    let params = StaticParams {
        digest: Digest::Sha256,
        decompress: true,
        fragment: Some(Fragment::Payload(1200)),
        ..StaticParams::new(key, KeyDirection::Normal, Cipher::Aes256Cbc, UnixTime(1_790_000_000))
    };
    let mut tunnel = StaticTunnel::new(params, Instant::ORIGIN, [3; 32]);
    let payloads = std::iter::from_fn(|| tunnel.poll_event()).find_map(|event| match event {
        Event::Data(DataEvent::Install(install)) => Some(install.codec.payloads),
        _ => None,
    });
    // HMAC 32, IV 16, and 72 blocks of 16; a byte of padding, packet id 8, header of a part 4.
    let expected = Payloads { decompress: true, fragment: Some(1139), longest: 1600 };
    assert_eq!(payloads, Some(expected));
}

#[test]
fn fragment_holds_over_udp_alone_and_at_both_ends() {
    let cuts = |data: &mut DataParams| data.fragment = Some(Fragment::Payload(1200));
    let both = pair(Transport::Udp, |client| cuts(&mut client.data), |server| cuts(&mut server.data));
    assert!(both.is_up());
    for events in [&both.client_events, &both.server_events] {
        // Header 4, packet id 8 in the epoch format, tag 16, header of a part 4.
        let (_, payloads) = installed(events).unwrap();
        assert_eq!(payloads, Payloads { fragment: Some(1168), ..Payloads::default() });
        assert!(!is_told(events, "`fragment`"));
    }
    let by_tcp = pair(Transport::Tcp, |client| cuts(&mut client.data), |server| cuts(&mut server.data));
    assert!(by_tcp.is_up());
    for events in [&by_tcp.client_events, &by_tcp.server_events] {
        assert_eq!(installed(events), Some((Compression::None, Payloads::default())));
    }
    let one = pair(Transport::Udp, |client| cuts(&mut client.data), |_| {});
    assert!(one.is_up(), "as with OpenVPN");
    assert!(is_told(&one.client_events, "`fragment` is in our file and not in the other end's"));
    assert!(is_told(&one.server_events, "`fragment` is in the other end's file and not in ours"));
}

/// The longest parts of each session that the data plane got, and each MSS that it got for the peer.
fn sizes(events: &[Event]) -> (Vec<u16>, Vec<u16>) {
    let parts = events.iter().filter_map(|event| match event {
        Event::Data(DataEvent::Install(install)) => install.codec.payloads.fragment,
        _ => None,
    });
    let segments = events.iter().filter_map(|event| match event {
        Event::Data(DataEvent::Peer(PeerOrder::Add(config))) => config.max_mss,
        Event::Data(DataEvent::Peer(PeerOrder::SetMaxMss { max_mss, .. })) => *max_mss,
        _ => None,
    });
    (parts.collect(), segments.collect())
}

/// Delivers everything until both ends are silent. The server sees the client on the first path, the client the server on
/// the second.
fn exchange(pair: &mut Pair, client_path: Path, server_path: Path) {
    let Pair { client, server, now, client_events, server_events, .. } = pair;
    loop {
        let (mut datagram, mut quiet) = (Vec::new(), true);
        while client.poll_transmit(&mut datagram).is_some() {
            let _ = server.handle_datagram(*now, client_path, &datagram);
            datagram.clear();
            quiet = false;
        }
        while server.poll_transmit(&mut datagram).is_some() {
            let _ = client.handle_datagram(*now, server_path, &datagram);
            datagram.clear();
            quiet = false;
        }
        client_events.extend(std::iter::from_fn(|| client.poll_event()));
        server_events.extend(std::iter::from_fn(|| server.poll_event()));
        if quiet {
            return;
        }
    }
}

/// Where the system learnt the MTU of the path.
#[test]
fn segments_fit_the_mtu_of_the_path() {
    let mut pair = pair(Transport::Udp, |_| {}, |_| {});
    assert!(pair.is_up());
    let (client, server) = (pair.client_path(), pair.server_path());
    let elsewhere = "198.51.100.77".parse().unwrap();
    for mtu in [Some(1300), Some(1300), None, Some(1280)] {
        for remote in [client.remote().ip(), elsewhere] {
            pair.server.handle_command(pair.now, Command::PathMtu { remote, mtu });
        }
        for remote in [server.remote().ip(), elsewhere] {
            pair.client.handle_command(pair.now, Command::PathMtu { remote, mtu });
        }
        exchange(&mut pair, client, server);
    }
    for events in [&pair.client_events, &pair.server_events] {
        let (_, segments) = sizes(events);
        assert_eq!(segments, [1396, 1396 - 192, 1396, 1396 - 212]);
    }
    // The MTU of one path changes nothing for another path.
    let Path::Udp { socket, .. } = client else { unreachable!() };
    let path = Path::Udp { socket, remote: SocketAddr::new(elsewhere, 1194) };
    pair.server.handle_notice(pair.now, Notice::Moved { peer: PeerId(0), path });
    exchange(&mut pair, path, server);
    assert_eq!(sizes(&pair.server_events).1.last(), Some(&1396));
}

/// The outer headers of IPv6 are 20 bytes longer.
#[test]
fn parts_and_segments_fit_the_path_to_which_a_peer_moves() {
    let cuts = |data: &mut DataParams| data.fragment = Some(Fragment::Mtu(1200));
    let floats = |client: &mut ClientParams| {
        cuts(&mut client.data);
        client.float = true;
    };
    let v6 = |path: Path| match path {
        Path::Udp { socket, .. } => Path::Udp { socket, remote: "[2001:db8::9]:1194".parse().unwrap() },
        path => path,
    };
    for client_moves in [true, false] {
        let mut pair = pair(Transport::Udp, floats, |server| cuts(&mut server.data));
        assert!(pair.is_up());
        let (client, server) = (pair.client_path(), pair.server_path());
        let before = if client_moves { client } else { server };
        for path in [v6(before), before] {
            if client_moves {
                pair.server.handle_notice(pair.now, Notice::Moved { peer: PeerId(0), path });
                exchange(&mut pair, path, server);
            } else {
                pair.client.handle_notice(pair.now, Notice::Moved { peer: PeerId::SERVER, path });
                exchange(&mut pair, client, path);
            }
        }
        assert!(pair.is_up());
        let events = if client_moves { &pair.server_events } else { &pair.client_events };
        let added =
            events.iter().filter(|event| matches!(event, Event::Data(DataEvent::Peer(PeerOrder::Add(_)))));
        assert_eq!(added.count(), 1, "routes that moved to another client since stay there");
        // 1200 without IPv4 20 and UDP 8; header 4, packet id 8 in the epoch format, tag 16, header of a part 4. Back on IPv4,
        // the keys are left as they are: parts are shorter than they might be.
        assert_eq!(sizes(events), (vec![1140, 1120], vec![1100, 1080, 1100]), "client moves: {client_moves}");
    }
}

/// A session goes on when the other end moves to an address of the other family.
#[test]
fn parts_of_a_static_key_fit_both_address_families() {
    let params = StaticParams {
        fragment: Some(Fragment::Mtu(1200)),
        ..StaticParams::new(
            StaticKey::from_bytes(&[7; 256]),
            KeyDirection::Normal,
            Cipher::Aes256Cbc,
            UnixTime(1_790_000_000),
        )
    };
    let mut tunnel = StaticTunnel::new(params, Instant::ORIGIN, [3; 32]);
    let (peer, path) = (PeerId::SERVER, Path::Udp { socket: 0, remote: ([192, 0, 2, 1], 1194).into() });
    tunnel.handle_notice(Instant::ORIGIN, Notice::Moved { peer, path });
    tunnel.handle_notice(Instant::ORIGIN, Notice::LimitNear { peer, session: session_id(peer, 0) });
    let events: Vec<Event> = std::iter::from_fn(|| tunnel.poll_event()).collect();
    // 1200 without IPv6 40 and UDP 8; HMAC 20, IV 16, and 69 blocks of 16; a byte of padding, packet id 8, header of a part 4.
    assert_eq!(sizes(&events).0, [1091, 1091]);
}
