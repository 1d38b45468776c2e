//! PUSH_UPDATE: a server changes the settings of connected clients.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use adit_core::{
    FixedAddresses, IpNet, PeerId, PeerOrder, PoolRanges, Protocol, SharedPool, Transport, TunnelSettings,
};
use adit_openvpn::PushUpdateError;
use adit_openvpn::params::{ClientParams, PullAction, PullFilter, ServerParams};
use adit_openvpn::request::{DataEvent, Event};
use adit_openvpn::testing::{Authority, Pair, client_params, server_params};
use adit_openvpn::wrap::WrapConfig;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

fn pair(change: impl FnOnce(&mut ClientParams, &mut ServerParams)) -> Pair {
    let authority = Authority::new();
    let mut client = client_params(&authority.issue("alice", ClientAuth), WrapConfig::Plain, Transport::Udp);
    let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
    server.push.retain(|option| !option.starts_with("route "));
    server.push.push("route 10.50.0.0 255.255.0.0".to_owned());
    change(&mut client, &mut server);
    let pair = Pair::new(client, server);
    assert!(pair.is_up());
    pair
}

fn update(pair: &mut Pair, client: Option<u64>, options: &str) -> Result<usize, PushUpdateError> {
    let sent = pair.server.push_update(pair.now, client, options);
    pair.exchange();
    sent
}

/// The settings that the client's system was given, one after the other.
fn settings(pair: &Pair) -> Vec<&TunnelSettings> {
    let mut all = Vec::new();
    for event in &pair.client_events {
        if let Event::Up(settings) = event {
            all.push(settings);
        }
    }
    all
}

fn routes(settings: &TunnelSettings) -> Vec<String> {
    settings.routes.iter().map(|route| route.destination.to_string()).collect()
}

#[test]
fn settings_change_while_the_tunnel_is_up() {
    let mut pair = pair(|_, _| {});
    let before = settings(&pair)[0].clone();
    let sessions = |pair: &Pair| {
        let of_session = |event: &&Event| {
            matches!(
                event,
                Event::Data(
                    DataEvent::Install(_) | DataEvent::Peer(PeerOrder::Remove(_)) | DataEvent::Retire { .. }
                )
            )
        };
        pair.client_events.iter().filter(of_session).count()
    };
    let installed = sessions(&pair);
    let options = "route 10.60.0.0 255.255.0.0, route 10.61.0.0 255.255.0.0,dns server 1 address 192.0.2.53,tun-mtu 1300";
    assert_eq!(update(&mut pair, Some(0), options), Ok(1));
    let after = settings(&pair)[1];
    assert_eq!(routes(&before), ["10.50.0.0/16"]);
    assert_eq!(routes(after), ["10.60.0.0/16", "10.61.0.0/16"]);
    assert_eq!((after.mtu, after.addresses.clone()), (1300, before.addresses.clone()));
    assert_eq!(after.dns.servers.len(), 1);
    // The smaller MTU holds for the segments of TCP, too.
    let sizes: Vec<Option<u16>> = pair
        .client_events
        .iter()
        .filter_map(|event| match event {
            Event::Data(DataEvent::Peer(PeerOrder::Add(config))) => Some(config.max_mss),
            _ => None,
        })
        .collect();
    assert_eq!(sizes.len(), 2);
    assert!(sizes[1] <= sizes[0]);
    assert_eq!(sessions(&pair), installed, "no session went or came");
    assert!(pair.is_up());
    // Broadcast, and what changes nothing.
    assert_eq!(update(&mut pair, None, "-dns,-tun-mtu,route 10.50.0.0 255.255.0.0"), Ok(1));
    assert_eq!(*settings(&pair)[2], before);
    assert_eq!(update(&mut pair, None, "?unheard-of,-route-metric"), Ok(1));
    assert_eq!(settings(&pair).len(), 3);
}

#[test]
fn a_long_update_comes_in_parts_and_is_applied_once() {
    let mut pair = pair(|_, _| {});
    let many: Vec<String> = (0..200).map(|n| format!("route 10.70.{n}.0 255.255.255.0")).collect();
    assert_eq!(update(&mut pair, None, &many.join(",")), Ok(1));
    let ups = settings(&pair);
    assert_eq!((ups.len(), ups[1].routes.len()), (2, 200));
}

#[test]
fn keepalive_changes_at_once() {
    let mut pair = pair(|_, _| {});
    assert_eq!(update(&mut pair, None, "keepalive 3 9"), Ok(1));
    let pings = |pair: &Pair| {
        pair.client_events
            .iter()
            .filter(|event| matches!(event, Event::Data(DataEvent::Inject { .. })))
            .count()
    };
    let before = pings(&pair);
    pair.advance(Duration::from_secs(4));
    assert_eq!(pings(&pair), before + 1);
    assert!(pair.client.poll_timeout().is_some());
}

#[test]
fn what_clients_would_refuse_is_not_sent() {
    let mut pair = pair(|_, _| {});
    for options in [
        "",
        " , ",
        "cipher AES-128-GCM",
        "route 10.1.0.0,peer-id 7",
        "route 10.1.0.0,ifconfig 10.8.0.77",
        "ifconfig-ipv6 fd00:8::77",
    ] {
        assert!(update(&mut pair, None, options).is_err(), "{options}");
    }
    let long = format!("route {}", "1".repeat(2000));
    assert!(matches!(update(&mut pair, None, &long), Err(PushUpdateError::Encoding(_))));
    assert_eq!(update(&mut pair, Some(99), "-route"), Ok(0), "there is no such client");
    assert_eq!(settings(&pair).len(), 1);
}

#[test]
fn a_client_filters_updates() {
    let mut pair = pair(|client, _| {
        client.pull_filters.push(PullFilter { action: PullAction::Ignore, prefix: "dns".to_owned() });
        client
            .pull_filters
            .push(PullFilter { action: PullAction::Reject, prefix: "redirect-gateway".to_owned() });
    });
    assert_eq!(update(&mut pair, None, "dns server 1 address 192.0.2.53,?redirect-gateway def1"), Ok(1));
    assert_eq!(settings(&pair).len(), 1, "one is ignored, the other need not be taken");
    assert!(pair.is_up());
    assert_eq!(update(&mut pair, None, "redirect-gateway def1,-route"), Ok(1));
    assert_eq!(settings(&pair).len(), 1, "nothing of it is applied");
    assert!(
        pair.client_events.iter().any(|event| matches!(event, Event::PeerDown { .. })),
        "it connects anew"
    );
}

/// The orders to the server's data plane about the client's addresses, one a line.
fn routed(pair: &Pair) -> Vec<String> {
    let order = |event: &Event| match event {
        Event::Data(DataEvent::Peer(PeerOrder::AddRoute { route, .. })) => Some(format!("+{route}")),
        Event::Data(DataEvent::Peer(PeerOrder::RemoveRoute { route, .. })) => Some(format!("-{route}")),
        _ => None,
    };
    pair.server_events.iter().filter_map(order).collect()
}

fn addresses(pair: &Pair) -> Vec<String> {
    let peers = pair.server.peers();
    peers.iter().flat_map(|(_, info)| &info.addresses).map(ToString::to_string).collect()
}

/// Both ends follow, and the pool (OpenVPN 2.7 push_util.c, `send_single_push_update`).
#[test]
fn a_clients_addresses_change() {
    let mut pair = pair(|_, _| {});
    assert_eq!(addresses(&pair), ["10.8.0.2", "fd00:8::1000"]);
    let options = "ifconfig 10.8.0.77 255.255.255.0,ifconfig-ipv6 fd00:8::77/64 fd00:8::1,topology subnet";
    assert_eq!(update(&mut pair, Some(0), options), Ok(1));
    let expected: [IpNet; 2] = ["10.8.0.77/24", "fd00:8::77/64"].map(|text| text.parse().unwrap());
    assert_eq!(settings(&pair)[1].addresses, expected);
    assert_eq!(addresses(&pair), ["10.8.0.77", "fd00:8::77"]);
    assert_eq!(routed(&pair), ["-10.8.0.2/32", "-fd00:8::1000/128", "+10.8.0.77/32", "+fd00:8::77/128"]);
    // The update again, and one of the addresses taken away.
    assert_eq!(update(&mut pair, None, "ifconfig 10.8.0.77 255.255.255.0,-ifconfig-ipv6"), Ok(1));
    assert_eq!(settings(&pair)[2].addresses, expected[..1]);
    assert_eq!(addresses(&pair), ["10.8.0.77"]);
    assert_eq!(routed(&pair)[4..], ["-fd00:8::77/128"]);
    assert!(pair.is_up());
}

/// The address of the server, and those that no host can have in its networks.
#[test]
fn no_client_gets_an_address_that_the_servers_networks_do_not_leave() {
    let mut pair = pair(|_, _| {});
    for (option, why) in [
        ("ifconfig 10.8.0.1 255.255.255.0", "10.8.0.1 is the address of the server"),
        ("ifconfig-ipv6 fd00:8::1/64 fd00:8::2", "fd00:8::1 is the address of the server"),
        (
            "ifconfig 10.8.0.0 255.255.255.0",
            "10.8.0.0 is the network address of 10.8.0.0/24, which no client can have",
        ),
        (
            "ifconfig 10.8.0.255 255.255.255.0",
            "10.8.0.255 is the broadcast address of 10.8.0.0/24, which no client can have",
        ),
        (
            "ifconfig-ipv6 fd00:8::/64 fd00:8::1",
            "fd00:8:: is the network address of fd00:8::/64, which no client can have",
        ),
    ] {
        let options = format!("route 10.60.0.0 255.255.0.0,{option}");
        assert_eq!(update(&mut pair, Some(0), &options).unwrap_err().to_string(), why);
    }
    assert_eq!((settings(&pair).len(), routed(&pair).len()), (1, 0), "nothing is sent, nothing changes");
    assert_eq!(addresses(&pair), ["10.8.0.2", "fd00:8::1000"]);
}

#[test]
fn no_client_gets_the_address_of_another() {
    let authority = Authority::new();
    let pool = SharedPool::default();
    let client = client_params(&authority.issue("alice", ClientAuth), WrapConfig::Plain, Transport::Udp);
    let server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
    let ranges = PoolRanges { v4: server.pool4, v6: server.pool6 };
    let mut pair = Pair::with_pool(client, server, &pool);
    assert!(pair.is_up());
    // A client of another endpoint.
    let other = pool.join(ranges, &[]);
    let lease = other.lease(PeerId(5), None, FixedAddresses::default()).unwrap();
    other.bind_name(PeerId(5), "berta");
    assert_eq!(lease.v4(), Some([10, 8, 0, 3].into()));
    let options = "route 10.60.0.0 255.255.0.0,ifconfig 10.8.0.3 255.255.255.0";
    let taken = PushUpdateError::Taken([10, 8, 0, 3].into(), "berta".to_owned());
    assert_eq!(update(&mut pair, None, options), Err(taken));
    assert_eq!((settings(&pair).len(), routed(&pair).len()), (1, 0), "nothing is sent, nothing changes");
    other.release(&lease);
    assert_eq!(update(&mut pair, None, options), Ok(1));
    assert_eq!(
        other.lease(PeerId(6), None, FixedAddresses::default()).unwrap().v4(),
        Some([10, 8, 0, 4].into())
    );
    // alice has left the first address, which is the pool's again.
    let fixed = FixedAddresses { v4: Some([10, 8, 0, 2].into()), v6: None };
    assert!(other.holders(&other.lease(PeerId(7), None, fixed).unwrap()).is_empty());
}

/// The pool leases these to no client, whether they are in its ranges or not.
#[test]
fn no_client_gets_the_address_of_a_peer_of_another_protocol() {
    let authority = Authority::new();
    let pool = SharedPool::default();
    let client = client_params(&authority.issue("alice", ClientAuth), WrapConfig::Plain, Transport::Udp);
    let server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
    let mut pair = Pair::with_pool(client, server, &pool);
    assert!(pair.is_up());
    let kept = [[10_u8, 8, 0, 7], [10, 9, 0, 1]].map(IpAddr::from);
    let keeper = pool.keeper();
    keeper.keep(kept.into());
    for address in kept {
        let why = format!("{address} is the address of a peer of another protocol");
        let options = format!("route 10.60.0.0 255.255.0.0,ifconfig {address} 255.255.255.0");
        assert_eq!(update(&mut pair, Some(0), &options).unwrap_err().to_string(), why);
    }
    assert_eq!((settings(&pair).len(), routed(&pair).len()), (1, 0), "nothing is sent, nothing changes");
    keeper.keep(BTreeSet::new());
    assert_eq!(update(&mut pair, Some(0), "ifconfig 10.8.0.7 255.255.255.0"), Ok(1));
}
