//! The settings of a server for one client alone: addresses, networks, pushes, and whether it may come in.

use std::time::Duration;

use adit_core::{Ended, IpNet, PeerId, PeerOrder, PoolEntry, Protocol, RouteVia, TunnelSettings};
use adit_openvpn::params::{ClientParams, PerClientParams, ServerParams};
use adit_openvpn::request::{DataEvent, Event, NoSettings, PeerSettings, PushChange, Reply, Request};
use adit_openvpn::testing::{Authority, Pair, client_params, server_params};
use adit_openvpn::wrap::WrapConfig;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

fn pair(change: impl Fn(&mut ServerParams)) -> Pair {
    pair_of(|_, server| change(server))
}

fn pair_of(change: impl Fn(&mut ClientParams, &mut ServerParams)) -> Pair {
    let authority = Authority::new();
    let mut client =
        client_params(&authority.issue("alice", ClientAuth), WrapConfig::Plain, adit_core::Transport::Udp);
    let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
    change(&mut client, &mut server);
    Pair::new(client, server)
}

fn asking() -> Pair {
    let pair = pair(|server| server.per_client.ask = true);
    let asked = |event: &Event| matches!(event, Event::Request(Request::PeerSettings { peer: PeerId(0), name }) if name == "alice");
    assert_eq!(pair.server_events.iter().filter(|event| asked(event)).count(), 1);
    assert!(!pair.is_up(), "nobody told yet what holds for alice");
    pair
}

fn answer(pair: &mut Pair, name: &str, settings: Result<PeerSettings, NoSettings>) {
    let settings = settings.map(Box::new);
    let reply = Reply::PeerSettings { peer: PeerId(0), name: name.to_owned(), settings };
    pair.server.handle_reply(pair.now, reply);
    pair.exchange();
}

fn told(pair: &Pair) -> &TunnelSettings {
    let mut settings = None;
    for event in &pair.client_events {
        if let Event::Up(up) = event {
            settings = Some(up);
        }
    }
    settings.unwrap()
}

fn routes_at_server(pair: &Pair) -> Vec<String> {
    let added = |event: &Event| match event {
        Event::Data(DataEvent::Peer(PeerOrder::Add(config))) => Some(config.routes.clone()),
        _ => None,
    };
    let routes = pair.server_events.iter().rev().find_map(added).unwrap();
    routes.iter().map(IpNet::to_string).collect()
}

#[test]
fn a_client_gets_what_its_file_says() {
    let mut pair = asking();
    let push = |option: &str| PushChange::Add(option.to_owned());
    let settings = PeerSettings {
        ipv4: Some(("10.8.0.50".parse().unwrap(), "255.255.255.0".parse().unwrap())),
        ipv6: Some(("fd00:8::50/64".parse().unwrap(), None)),
        routes: ["192.168.7.0/24", "fd07::/48", "fd08::/64"].map(|net| net.parse().unwrap()).to_vec(),
        push: vec![
            push("route 172.20.0.0 255.255.0.0"),
            push("route 192.168.7.0 255.255.255.0"),
            push("route-ipv6 fd07::/48"),
            push("route-ipv6 fd08::"),
            push("dhcp-option DNS 10.8.0.9"),
            PushChange::Remove("dhcp-option".to_owned()),
        ],
        ..PeerSettings::default()
    };
    answer(&mut pair, "alice", Ok(settings));
    assert!(pair.is_up());
    let told = told(&pair);
    assert_eq!(told.addresses, ["10.8.0.50/24".parse().unwrap(), "fd00:8::50/64".parse::<IpNet>().unwrap()]);
    let routes: Vec<String> = told.routes.iter().map(|route| route.destination.to_string()).collect();
    assert!(routes.contains(&"172.20.0.0/16".to_owned()), "{routes:?}");
    assert!(
        !routes.iter().any(|route| ["192.168.7", "fd07", "fd08"].iter().any(|net| route.starts_with(net))),
        "{routes:?}"
    );
    assert_eq!(told.dns.servers, Vec::<std::net::IpAddr>::new());
    assert_eq!(
        routes_at_server(&pair),
        ["10.8.0.50/32", "fd00:8::50/128", "192.168.7.0/24", "fd07::/48", "fd08::/64"]
    );
}

#[test]
fn a_peer_address_of_net30_becomes_a_netmask() {
    let mut pair = asking();
    let ipv4 = Some(("10.8.0.5".parse().unwrap(), "10.8.0.6".parse().unwrap()));
    answer(&mut pair, "alice", Ok(PeerSettings { ipv4, ..PeerSettings::default() }));
    assert_eq!(told(&pair).addresses[0], "10.8.0.5/24".parse::<IpNet>().unwrap());
}

#[test]
fn a_disabled_client_and_one_without_a_file_are_told() {
    for settings in [
        Ok(PeerSettings { disabled: true, ..PeerSettings::default() }),
        Err(NoSettings::Refused("ccd has no file for it (ccd-exclusive)".to_owned())),
    ] {
        let mut pair = asking();
        answer(&mut pair, "alice", settings);
        assert!(!pair.is_up());
        let failed =
            |event: &Event| matches!(event, Event::Ended(Ended::Failed(why)) if why.contains("AUTH_FAILED"));
        assert!(pair.client_events.iter().any(failed));
        pair.advance(Duration::from_secs(10));
        assert_eq!(pair.server.half_open(), 0);
    }
}

/// A fault of the server's is final to none: not to a client that knows `TEMP`, nor to one before OpenVPN 2.6.
#[test]
fn a_client_with_a_wrong_file_comes_again() {
    for (older, words) in [(false, "AUTH_FAILED,TEMP"), (true, "RESTART")] {
        let mut pair = pair_of(|client, server| {
            client.data.before_2_6 = older;
            server.per_client.ask = true;
        });
        let fault = "ccd/alice:1: there is no directive `disabel`";
        answer(&mut pair, "alice", Err(NoSettings::Fault(fault.to_owned())));
        let says = |events: &[Event], words: &str| {
            events.iter().any(|event| matches!(event, Event::Report(report) if report.text.contains(words)))
        };
        assert!(says(&pair.server_events, fault));
        assert!(says(&pair.client_events, words), "{words}: {:?}", pair.client_events);
        pair.server_events.clear();
        pair.advance(Duration::from_secs(10));
        let asks = |event: &Event| match event {
            Event::Request(Request::PeerSettings { peer, .. }) => Some(*peer),
            _ => None,
        };
        let peer = pair.server_events.iter().find_map(asks).expect("it comes again");
        let settings = Ok(Box::default());
        let reply = Reply::PeerSettings { peer, name: "alice".to_owned(), settings };
        pair.server.handle_reply(pair.now, reply);
        pair.exchange();
        assert!(pair.is_up(), "{words}");
    }
}

/// OpenVPN's page on rules for groups: net30, and clients in a network besides that of `server`.
#[test]
fn a_pair_outside_the_servers_network_is_a_pair() {
    let mut pair = pair_of(|_, server| {
        server.per_client.ask = true;
        server.push = ["route-gateway 10.8.0.1", "topology subnet", "route 10.20.0.0 255.255.0.0"]
            .map(str::to_owned)
            .to_vec();
    });
    let ipv4 = Some(("10.8.1.1".parse().unwrap(), "10.8.1.2".parse().unwrap()));
    answer(&mut pair, "alice", Ok(PeerSettings { ipv4, ..PeerSettings::default() }));
    let settings = told(&pair);
    assert_eq!(settings.addresses[0], "10.8.1.1/32".parse::<IpNet>().unwrap());
    assert_eq!(settings.peer_address, Some("10.8.1.2".parse().unwrap()));
    let routes: Vec<String> = settings.routes.iter().map(|route| route.destination.to_string()).collect();
    assert_eq!(routes, ["10.20.0.0/16", "10.8.0.1/32"], "the server is reached, too");
    assert!(settings.routes.iter().all(|route| route.via == RouteVia::Tunnel));
    assert_eq!(routes_at_server(&pair)[0], "10.8.1.1/32");
}

#[test]
fn answers_that_nobody_waits_for_change_nothing() {
    let mut pair = asking();
    answer(&mut pair, "mallory", Ok(PeerSettings::default()));
    assert!(!pair.is_up());
    answer(&mut pair, "alice", Ok(PeerSettings::default()));
    assert!(pair.is_up());
    let address = told(&pair).addresses[0];
    let ipv4 = Some(("10.8.0.99".parse().unwrap(), "255.255.255.0".parse().unwrap()));
    answer(&mut pair, "alice", Ok(PeerSettings { ipv4, disabled: true, ..PeerSettings::default() }));
    assert!(pair.is_up());
    assert_eq!(pair.server.peers()[0].1.addresses[0], address.addr());
}

#[test]
fn without_an_answer_the_client_goes() {
    let mut pair = asking();
    pair.cut = true;
    pair.advance(Duration::from_secs(70));
    assert_eq!(pair.server.half_open(), 0);
}

#[test]
fn a_remembered_address_is_given_again_and_told() {
    let ipv4 = "10.8.0.77".parse().ok();
    let entry = PoolEntry { name: "alice".to_owned(), ipv4, ipv6: "fd00:8::104b".parse().ok() };
    let remembered = vec![
        PoolEntry { name: "bob".to_owned(), ipv4: "10.8.0.2".parse().ok(), ipv6: None },
        entry.clone(),
        PoolEntry { name: "out of range".to_owned(), ipv4: "10.9.0.1".parse().ok(), ipv6: None },
    ];
    let pair =
        pair(|server| server.per_client = PerClientParams { ask: false, remembered: remembered.clone() });
    assert_eq!(told(&pair).addresses[0], "10.8.0.77/24".parse::<IpNet>().unwrap());
    let leased = |event: &Event| matches!(event, Event::Request(Request::Leased(leased)) if *leased == entry);
    assert!(pair.server_events.iter().any(leased), "{:?}", pair.server_events);
}
