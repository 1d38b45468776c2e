//! Events without a question: states, clients, the end.

use std::time::Duration;

use adit_core::{Cipher, Ended, Path, PeerId, Report, Route, RouteVia, Severity, Transport, TunnelSettings};
use adit_openvpn::request::{ClientEvent, ClientStep, Event, PeerDetail, PeerInfo, Progress, Request};
use zeroize::Zeroizing;

use super::super::journal::Kind;
use super::super::testing::context;
use super::watcher;

fn info(remote: &str) -> Box<PeerInfo> {
    Box::new(PeerInfo {
        name: "server".to_owned(),
        path: Path::Udp { socket: 0, remote: remote.parse().expect("an address") },
        addresses: Vec::new(),
        cipher: Cipher::Aes256Gcm,
        rekeys: 0,
        last_handshake: adit_core::Instant::ORIGIN,
        since: adit_core::Instant::ORIGIN,
        heard: adit_core::Instant::ORIGIN,
        routes: Vec::new(),
        detail: PeerDetail::default(),
    })
}

fn up(addresses: &[&str], routes: &[&str]) -> Event {
    let network = |text: &&str| text.parse().expect("a network");
    let route = |text| Route { destination: network(text), via: RouteVia::Tunnel, metric: None };
    let addresses = addresses.iter().map(network).collect();
    let routes = routes.iter().map(route).collect();
    Event::Up(TunnelSettings { addresses, routes, ..TunnelSettings::default() })
}

fn states(server: bool, events: &[Event]) -> Vec<String> {
    let context = context();
    let mut watcher = watcher(&context, server);
    for event in events {
        watcher.event(event);
        if let Event::Request(request) = event {
            watcher.request(request, "tun0");
        }
    }
    let entries = context.journal.last(Kind::State, None);
    entries.iter().filter_map(|entry| Some(entry.split_once(',')?.1.to_owned())).collect()
}

/// The lines are OpenVPN 2.6.14's, of a server and of a client.
#[test]
fn states_are_noted() {
    assert_eq!(
        states(
            true,
            &[up(&["10.88.0.1/24", "fd00:88::1/64"], &["10.88.1.0/24"]), Event::Ended(Ended::Shutdown)]
        ),
        [
            "CONNECTING,,,,,,",
            "ASSIGN_IP,,10.88.0.1,,,,,fd00:88::1",
            "ADD_ROUTES,,,,,,",
            "CONNECTED,SUCCESS,10.88.0.1,,,,,fd00:88::1",
            "EXITING,SIGTERM,,,,,"
        ]
    );
    let peer_up = || Event::PeerUp { peer: PeerId::SERVER, info: info("[::ffff:127.0.0.1]:11994") };
    let path = info("127.0.0.1:1194").path;
    let step_of = |request| Event::Request(request);
    let step = |progress| step_of(Request::Progress(progress));
    let failure = || {
        let text = "the server is silent; next attempt in 1 s".to_owned();
        Event::Report(Report { severity: Severity::Error, path: None, text })
    };
    assert_eq!(
        states(
            false,
            &[
                Event::Open { remote: 0 },
                step(Progress::Opening { named: true, transport: Transport::Tcp }),
                step(Progress::Waiting),
                Event::Open { remote: 1 },
                step(Progress::Opening { named: false, transport: Transport::Udp }),
                step(Progress::Waiting),
                step(Progress::Authenticating),
                step(Progress::AskingForSettings),
                step(Progress::Pending(Some(60))),
                up(&["10.88.0.6/24"], &[]),
                peer_up(),
                failure(),
                Event::Close { path },
            ]
        ),
        [
            "CONNECTING,,,,,,",
            "RESOLVE,,,,,,",
            "TCP_CONNECT,,,,,,",
            "WAIT,,,,,,",
            "RECONNECTING,connection-failed,,,,,",
            "WAIT,,,,,,",
            "AUTH,,,,,,",
            "GET_CONFIG,,,,,,",
            "AUTH_PENDING,timeout 60,,,,,",
            "ASSIGN_IP,,10.88.0.6,,,,",
            "CONNECTED,SUCCESS,10.88.0.6,127.0.0.1,11994,,",
            "RECONNECTING,connection-lost,,,,,"
        ]
    );
    // One that is held back has lost its server before.
    let held = step_of(Request::MayGoOn { wait: Duration::from_secs(1) });
    let states_of = states(false, &[Event::Open { remote: 0 }, peer_up(), held.clone()]);
    assert_eq!(states_of[2..], ["RECONNECTING,connection-lost,,,,,"]);
    let refused = step_of(Request::AuthFailed(String::new()));
    let states_of = states(false, &[Event::Open { remote: 0 }, refused, held]);
    assert_eq!(states_of[1..], ["RECONNECTING,auth-failure,,,,,"]);
    let ended = || Event::Ended(Ended::Failed("no luck".to_owned()));
    let end = [Event::Open { remote: 0 }, peer_up(), Event::Close { path }, Event::Down, ended()];
    assert_eq!(states(false, &end)[2..], ["EXITING,error,,,,,"], "no word of coming back");
    // The listening end of a point-to-point tunnel; the connection of an unauthenticated peer is closed there.
    let down = Event::PeerDown { peer: PeerId::SERVER, reason: "silent".to_owned() };
    assert_eq!(
        states(false, &[peer_up(), Event::Close { path }, down, failure()])[1..],
        ["CONNECTED,SUCCESS,,127.0.0.1,11994,,", "RECONNECTING,connection-lost,,,,,"]
    );
}

#[test]
fn the_end_has_words_of_its_own() {
    let context = context();
    let mut watcher = watcher(&context, false);
    let program = context.journal.enter();
    assert_eq!(watcher.request(&Request::AuthFailed(String::new()), "tun0"), None);
    watcher.request(&Request::AuthFailed("locked".to_owned()), "tun0");
    watcher.event(&Event::Ended(Ended::Failed("no luck".to_owned())));
    let said: Vec<String> = context.journal.take(program).into();
    assert_eq!(
        said,
        [
            ">PASSWORD:Verification Failed: 'Auth'",
            ">PASSWORD:Verification Failed: 'Auth' ['locked']",
            ">FATAL:no luck"
        ]
    );
}

/// The program hears of a server's clients, with how many there are.
#[test]
fn clients_are_told_of() {
    let context = context();
    let mut watcher = watcher(&context, true);
    let program = context.journal.enter();
    let event = |step| Request::Client(Box::new(ClientEvent { client: 9, step, env: Vec::new() }));
    let (peer, reason) = (PeerId(4), "gone".to_owned());
    watcher.request(
        &event(ClientStep::AuthRequest { key: 1, again: false, password: Zeroizing::default() }),
        "tun0",
    );
    assert!(context.pending_auths.waits(9, 1));
    watcher.event(&Event::PeerUp { peer, info: info("192.0.2.1:4000") });
    watcher.request(&event(ClientStep::Established { networks: Vec::new() }), "tun0");
    let mut told: Vec<_> = std::iter::from_fn(|| context.journal.next_client_event(program)).collect();
    watcher.request(&event(ClientStep::Disconnected), "tun0");
    watcher.event(&Event::PeerDown { peer, reason });
    assert!(!context.pending_auths.is_there(9, 1));
    watcher.request(&event(ClientStep::Established { networks: Vec::new() }), "tun1");
    told.extend(std::iter::from_fn(|| context.journal.next_client_event(program)));
    assert_eq!(told.iter().map(|told| told.clients).collect::<Vec<_>>(), [0, 1, 1, 0]);
    assert_eq!((told[0].device.as_str(), told[3].device.as_str()), ("tun0", "tun1"));
}
