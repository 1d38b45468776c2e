//! `inactive` and `session-timeout` of a client, a server, and a point-to-point tunnel.
use std::time::Duration;

use adit_core::{Command, Ended, IdleLimit, PeerId, PeerLimits, Protocol, Report, Transport};
use adit_openvpn::params::{
    ClientParams, Keepalive, LocalSettings, PerClientParams, PointToPointParams, ServerParams,
};
use adit_openvpn::request::{Event, PeerSettings, Reply};
use adit_openvpn::testing::{Authority, Pair, client_params, server_params};
use adit_openvpn::wrap::WrapConfig;
use rcgen::ExtendedKeyUsagePurpose;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const IDLE: PeerLimits = PeerLimits { idle: Some(IdleLimit { after: seconds(20), bytes: 0 }), length: None };
const LENGTH: PeerLimits = PeerLimits { idle: None, length: Some(seconds(20)) };

fn ends() -> (ClientParams, ServerParams) {
    let authority = Authority::new();
    let client = authority.issue("alice", ExtendedKeyUsagePurpose::ClientAuth);
    let server = authority.issue("vpn.example.org", ExtendedKeyUsagePurpose::ServerAuth);
    let client = client_params(&client, WrapConfig::Plain, Transport::Udp);
    let mut server = server_params(&server, WrapConfig::Plain);
    // Silence has no other consequence here.
    server.keepalive = Keepalive::default();
    server.push.retain(|option| !option.starts_with("ping"));
    (client, server)
}

fn ended_well(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event, Event::Ended(Ended::Shutdown)))
}

fn told(events: &[Event], word: &str) -> bool {
    events.iter().any(|event| matches!(event, Event::Report(Report { text, .. }) if text.contains(word)))
}

#[test]
fn a_client_ends_by_what_its_file_or_the_server_says() {
    for (limits, directive, option) in
        [(IDLE, "(inactive)", "inactive 20"), (LENGTH, "(session-timeout)", "session-timeout 20")]
    {
        for pushed in [false, true] {
            let (mut client, mut server) = ends();
            if pushed {
                server.push.push(option.to_owned());
            } else {
                client.limits = limits;
            }
            let mut pair = Pair::new(client, server);
            pair.advance(seconds(19));
            assert!(pair.is_up());
            pair.advance(seconds(2));
            assert!(ended_well(&pair.client_events) && told(&pair.client_events, directive));
            assert!(told(&pair.server_events, "left (exit notice)"), "it leaves politely");
        }
    }
}

#[test]
fn packets_keep_a_connection_but_pings_do_not() {
    let (mut client, server) = ends();
    client.limits = IDLE;
    let mut pair = Pair::new(client.clone(), server.clone());
    pair.advance_busy(seconds(60));
    assert!(pair.is_up());

    let mut pair = Pair::new(client, server);
    pair.advance_pinging(seconds(21));
    assert!(ended_well(&pair.client_events));
}

#[test]
fn what_is_pushed_goes_before_the_file() {
    let (mut client, mut server) = ends();
    client.limits = LENGTH;
    server.push.push("session-timeout 0".to_owned());
    let mut pair = Pair::new(client, server);
    pair.advance(seconds(1000));
    assert!(pair.is_up());
}

#[test]
fn a_server_drops_its_client_and_goes_on() {
    for (limits, directive) in [(IDLE, "(inactive)"), (LENGTH, "(session-timeout)")] {
        let (client, mut server) = ends();
        server.limits = limits;
        let mut pair = Pair::new(client, server);
        assert!(pair.is_up());
        pair.advance(seconds(21));
        assert!(pair.server.peers().is_empty() && told(&pair.server_events, directive));
        pair.client.handle_command(pair.now, Command::Restart);
        pair.exchange();
        pair.advance(seconds(5));
        assert!(pair.is_up(), "the next connection is another");
    }
}

#[test]
fn a_client_has_limits_of_its_own() {
    let (client, mut server) = ends();
    server.limits = IDLE;
    server.per_client = PerClientParams { ask: true, ..PerClientParams::default() };
    let mut pair = Pair::new(client, server);
    let unlimited = PeerLimits { idle: Some(IdleLimit { after: Duration::ZERO, bytes: 0 }), length: None };
    let settings = PeerSettings { limits: unlimited, ..PeerSettings::default() };
    let settings = Ok(Box::new(settings));
    let reply = Reply::PeerSettings { peer: PeerId(0), name: "alice".to_owned(), settings };
    pair.server.handle_reply(pair.now, reply);
    pair.exchange();
    pair.advance(seconds(100));
    assert!(pair.is_up());
}

#[test]
fn a_point_to_point_tunnel_ends_with_its_connection() {
    let (mut client, mut server) = ends();
    client.pull = false;
    server.limits = LENGTH;
    server.point_to_point = Some(PointToPointParams {
        local: LocalSettings { addresses: vec!["10.4.0.1/32".parse().unwrap()], ..LocalSettings::default() },
        exit_notify: true,
        ..PointToPointParams::default()
    });
    let mut pair = Pair::new(client, server);
    assert!(pair.is_up());
    pair.advance(seconds(21));
    assert!(ended_well(&pair.server_events) && told(&pair.server_events, "(session-timeout)"));
    assert!(told(&pair.client_events, "left (exit notice)"));
}

#[test]
fn a_failed_handshake_is_the_end_with_tls_exit() {
    for tls_exit in [false, true] {
        let (mut client, _) = ends();
        let (_, server) = ends();
        client.tls_exit = tls_exit;
        // The server's certificate is of another authority.
        let pair = Pair::new(client, server);
        let ended = pair.client_events.iter().find_map(|event| match event {
            Event::Ended(Ended::Failed(why)) => Some(why.as_str()),
            _ => None,
        });
        assert_eq!(ended.is_some_and(|why| why.ends_with("(tls-exit)")), tls_exit, "{ended:?}");
    }
}

#[test]
fn tun_mtu_max_says_what_may_be_pushed() {
    for (most, taken) in [(1600, 1500), (9000, 9000)] {
        let (mut client, mut server) = ends();
        client.max_pushed_mtu = most;
        server.data.tun_mtu = 9000;
        let pair = Pair::new(client, server);
        let mtu = pair.client_events.iter().find_map(|event| match event {
            Event::Up(settings) => Some(settings.mtu),
            _ => None,
        });
        assert_eq!(mtu, Some(taken));
    }
}

/// The word reaches the client before its connection is gone.
#[test]
fn a_client_that_is_dismissed_is_told() {
    for (message, halts) in [("RESTART", false), ("HALT,bye", true)] {
        let (client, server) = ends();
        let mut pair = Pair::new(client, server);
        let order = Reply::KillClient { client: 0, message: message.to_owned() };
        pair.server.handle_reply(pair.now, order);
        pair.exchange();
        assert!(pair.server.peers().is_empty(), "{message}");
        assert_eq!(ended_well(&pair.client_events), halts, "{message}");
        pair.advance(seconds(5));
        assert_eq!(pair.server.peers().len(), usize::from(!halts), "{message}");
    }
}
