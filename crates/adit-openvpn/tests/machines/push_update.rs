//! PUSH_UPDATE: a server changes the settings of connected clients.

use std::time::Duration;

use adit_core::{IpNet, Protocol, Transport, TunnelSettings};
use adit_openvpn::PushUpdateError;
use adit_openvpn::params::{ClientParams, PullAction, ServerParams};
use adit_openvpn::request::{DataEvent, Event, Reply};
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
                Event::Data(DataEvent::Install(_) | DataEvent::RemovePeer(_) | DataEvent::Retire { .. })
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
            Event::Data(DataEvent::AddPeer(config)) => Some(config.max_mss),
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
        "ifconfig 10.8.0.77 255.255.255.0",
        "-ifconfig",
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
        client.pull_filters.push((PullAction::Ignore, "dns".to_owned()));
        client.pull_filters.push((PullAction::Reject, "redirect-gateway".to_owned()));
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

#[test]
fn addresses_change_where_a_server_says_so() {
    let mut pair = pair(|_, _| {});
    // Our own server gives addresses by its pool alone; this way it sends any message, and forgets the client.
    let message = "PUSH_UPDATE,ifconfig 10.8.0.77 255.255.255.0".to_owned();
    pair.server.handle_reply(pair.now, Reply::KillClient { client: 0, message });
    pair.exchange();
    let expected: IpNet = "10.8.0.77/24".parse().unwrap();
    let last = settings(&pair)[1];
    assert!(last.addresses.contains(&expected), "{last:?}");
}
