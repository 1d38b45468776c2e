//! Which server a client tries, when, for how long, and from where it takes answers.

use std::time::Duration;

use adit_core::{
    Command, Ended, Instant, Notice, OpenFailure, Path, PeerId, PeerOrder, Protocol, Rejected, Transport,
    drive_with,
};
use adit_openvpn::params::{ClientParams, PullAction, PullFilter, RemoteParams, ServerParams};
use adit_openvpn::request::{DataEvent, Event};
use adit_openvpn::testing::{Authority, Pair, client_params, roams, server_params};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{Client, Server};
use rcgen::ExtendedKeyUsagePurpose;

const START: Instant = Instant::from_nanos(1_000_000_000);

/// A client of these many servers, none of which answers.
struct Alone {
    client: Client,
    now: Instant,
    /// Which server was tried when, in whole seconds since the start.
    tried: Vec<(usize, u64)>,
    ended: Option<Ended>,
}

impl Alone {
    fn new(servers: usize, change: impl FnOnce(&mut ClientParams)) -> Self {
        let authority = Authority::new();
        let mut params = client_params(
            &authority.issue("client", ExtendedKeyUsagePurpose::ClientAuth),
            WrapConfig::Plain,
            Transport::Udp,
        );
        params.remotes = (0..servers)
            .map(|number| RemoteParams::new(format!("server {number}"), Transport::Udp))
            .collect();
        change(&mut params);
        Alone { client: Client::new(params, START, [1; 32]), now: START, tried: Vec::new(), ended: None }
    }

    /// Answers each wish to open with what `answer` says of the server, until then.
    fn run(&mut self, seconds: u64, answer: impl Fn(usize) -> Option<OpenFailure>) {
        let end = START + Duration::from_secs(seconds);
        loop {
            let on_event = |client: &mut Client, event| match event {
                Event::Open { remote } => {
                    self.tried.push((remote, (self.now - START).as_secs()));
                    let socket = self.tried.len() as u32;
                    let path = Path::Udp { socket, remote: ([192, 0, 2, 1], 1194).into() };
                    let command = match answer(remote) {
                        None => Command::Opened { path },
                        Some(failure) => Command::OpenFailed { remote, failure },
                    };
                    client.handle_command(self.now, command);
                }
                Event::Ended(ended) => self.ended = Some(ended),
                _ => {}
            };
            drive_with(&mut self.client, on_event, |_, _| {});
            match self.client.poll_timeout() {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => return,
            }
            self.client.handle_timeout(self.now);
        }
    }

    fn why(&self) -> &str {
        match &self.ended {
            Some(Ended::Failed(why)) => why,
            other => panic!("{other:?}"),
        }
    }
}

fn unreachable(_: usize) -> Option<OpenFailure> {
    Some(OpenFailure::Unreachable("no route".to_owned()))
}

fn unknown(_: usize) -> Option<OpenFailure> {
    Some(OpenFailure::UnknownName("no such host".to_owned()))
}

#[test]
fn servers_are_tried_in_turn_with_waits_that_grow() {
    let mut alone = Alone::new(2, |params| params.retry = (Duration::from_secs(1), Duration::from_secs(5)));
    alone.run(60, unreachable);
    let order: Vec<usize> = alone.tried.iter().take(6).map(|(server, _)| *server).collect();
    assert_eq!(order, [0, 1, 0, 1, 0, 1]);
    let waits: Vec<u64> = alone.tried.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    // Five rounds at the first wait, then twice as long each round, at most the longest.
    assert_eq!(waits[..10], [1; 10]);
    assert_eq!(waits[10..16], [2, 2, 4, 4, 5, 5]);
}

/// A driver that opens a remote again takes its next address.
#[test]
fn the_next_address_is_tried_at_once_where_one_refuses_datagrams() {
    let mut alone = Alone::new(2, |_| {});
    let refuses = |alone: &mut Alone, socket: u32| {
        let path = Path::Udp { socket, remote: ([192, 0, 2, 1], 1194).into() };
        let reason = "Connection refused".to_owned();
        alone.client.handle_command(alone.now, Command::Closed { path, reason });
        alone.run(0, |_| None);
    };
    alone.run(0, |_| None);
    refuses(&mut alone, 99);
    assert_eq!(alone.tried, [(0, 0)], "another path was meant");
    for socket in 1..=8 {
        refuses(&mut alone, socket);
    }
    assert_eq!(alone.tried, [(0, 0); 9]);
    // Whatever the name has: there is an end to it.
    refuses(&mut alone, 9);
    assert_eq!(alone.tried.len(), 9);
    alone.run(1, |_| None);
    assert_eq!(alone.tried.last(), Some(&(1, 1)));
}

/// A refusal that is reported late, or of another datagram, does not end a connection.
#[test]
fn a_server_that_was_heard_does_not_refuse() {
    let authority = Authority::new();
    let client = client_params(
        &authority.issue("client", ExtendedKeyUsagePurpose::ClientAuth),
        WrapConfig::Plain,
        Transport::Udp,
    );
    let server =
        server_params(&authority.issue("server", ExtendedKeyUsagePurpose::ServerAuth), WrapConfig::Plain);
    let mut pair = Pair::new(client, server);
    pair.advance(Duration::from_secs(5));
    assert!(pair.is_up());
    let opened =
        |pair: &Pair| pair.client_events.iter().filter(|it| matches!(it, Event::Open { .. })).count();
    let before = opened(&pair);
    let path = pair.client_path();
    pair.client.handle_command(pair.now, Command::Closed { path, reason: "Connection refused".to_owned() });
    pair.advance(Duration::from_secs(5));
    assert!(pair.is_up() && opened(&pair) == before);
}

#[test]
fn connect_retry_max_counts_rounds_over_all_servers() {
    let mut alone = Alone::new(3, |params| params.retry_max = Some(2));
    alone.run(60, unreachable);
    assert_eq!(alone.tried.len(), 6);
    assert!(alone.why().contains("connect-retry-max"), "{}", alone.why());
}

#[test]
fn a_failed_attempt_is_the_end_if_the_file_says_so() {
    let mut alone = Alone::new(3, |params| params.ends_when_lost = true);
    alone.run(60, unreachable);
    assert_eq!((alone.tried.len(), &alone.ended), (1, &Some(Ended::Shutdown)));
}

#[test]
fn each_server_has_its_own_time_to_answer() {
    let mut alone = Alone::new(2, |params| {
        params.remotes[0].poll_timeout = Duration::from_secs(2);
        params.remotes[1].poll_timeout = Duration::from_secs(7);
        params.retry = (Duration::ZERO, Duration::ZERO);
    });
    alone.run(11, |_| None);
    assert_eq!(alone.tried, [(0, 0), (1, 2), (0, 9), (1, 11)]);
}

#[test]
fn resolv_retry_is_how_long_unknown_names_are_tried() {
    let mut at_once = Alone::new(1, |_| {});
    at_once.run(60, unknown);
    assert_eq!(at_once.tried.len(), 1);
    assert!(at_once.why().contains("resolv-retry infinite"), "{}", at_once.why());

    let mut later = Alone::new(1, |params| params.resolve_timeout = Some(Duration::from_secs(5)));
    later.run(60, unknown);
    assert_eq!(later.tried.last(), Some(&(0, 5)));
    assert!(later.ended.is_some());

    let mut never = Alone::new(1, |params| params.resolve_timeout = None);
    never.run(600, unknown);
    assert!(never.ended.is_none() && never.tried.len() > 5);
}

#[test]
fn an_unknown_name_is_not_the_end_while_another_server_may_come() {
    let mut alone = Alone::new(2, |_| {});
    alone.run(30, |server| if server == 1 { unknown(server) } else { unreachable(server) });
    assert!(alone.ended.is_none() && alone.tried.len() > 4, "{:?}", alone.tried);
    let mut alone = Alone::new(2, |_| {});
    alone.run(30, unknown);
    assert_eq!(alone.tried.len(), 2, "both are unknown");
    assert!(alone.ended.is_some());
}

/// A client whose server answers, and both their parameters changed.
fn pair(change: impl FnOnce(&mut ClientParams), push: &[&str]) -> Pair {
    let authority = Authority::new();
    let mut client = client_params(
        &authority.issue("client", ExtendedKeyUsagePurpose::ClientAuth),
        WrapConfig::Plain,
        Transport::Udp,
    );
    let mut server =
        server_params(&authority.issue("server", ExtendedKeyUsagePurpose::ServerAuth), WrapConfig::Plain);
    server.push.extend(push.iter().map(|option| (*option).to_owned()));
    change(&mut client);
    Pair::new(client, server)
}

fn elsewhere(pair: &Pair) -> Path {
    let Some((_, info)) = pair.client.peers().pop() else { panic!("not up") };
    match info.path {
        Path::Udp { socket, .. } => Path::Udp { socket, remote: ([192, 0, 2, 99], 1194).into() },
        path => panic!("{path}"),
    }
}

#[test]
fn with_float_a_client_follows_its_servers_data() {
    for float in [false, true] {
        let mut pair = pair(|client| client.float = float, &[]);
        let path = elsewhere(&pair);
        assert_eq!((roams(&pair.client_events), roams(&pair.server_events)), (Some(float), Some(true)));
        pair.client_events.clear();
        pair.client.handle_notice(pair.now, Notice::Moved { peer: PeerId::SERVER, path });
        pair.exchange();
        let moves = pair.client_events.iter().filter(
            |event| matches!(event, Event::Data(DataEvent::Peer(PeerOrder::Move { path: to, .. })) if *to == path),
        );
        assert_eq!(moves.count(), usize::from(float));
        let at = pair.client.peers()[0].1.path;
        assert_eq!(at == path, float);
        // Control packets come from where its data comes from, and from nowhere else.
        let other = if float { at.remote() } else { path.remote() };
        let outcome =
            pair.client.handle_datagram(pair.now, Path::Udp { socket: 77, remote: other }, &[0x28; 40]);
        assert_eq!(outcome, Err(Rejected::Unexpected("not from our server's address")));
    }
}

#[test]
fn pull_filters_and_route_nopull_decide_what_is_taken() {
    let told = |pair: &Pair| {
        let up = pair.client_events.iter().rev().find_map(|event| match event {
            Event::Up(settings) => Some(settings.clone()),
            _ => None,
        });
        up.unwrap()
    };
    let push = ["dhcp-option DNS 10.8.0.1", "redirect-gateway def1", "route 10.30.0.0 255.255.0.0"];
    let all = told(&pair(|_| {}, &push));
    assert_eq!((all.routes.len(), all.dns.servers.len()), (2, 1));
    assert!(all.redirect.is_some());

    let none = told(&pair(|client| client.route_nopull = true, &push));
    assert_eq!((none.routes.len(), none.dns.servers.len()), (0, 0));
    assert!(none.redirect.is_none() && !none.addresses.is_empty());

    let filter = |action, prefix: &str| PullFilter { action, prefix: prefix.to_owned() };
    let some = told(&pair(
        |client| {
            client.pull_filters = vec![
                filter(PullAction::Accept, "route 10.30."),
                filter(PullAction::Ignore, "route "),
                filter(PullAction::Ignore, "redirect-gateway"),
            ];
        },
        &push,
    ));
    assert_eq!(some.routes.len(), 1);
    assert!(some.redirect.is_none() && some.dns.servers.len() == 1);

    let refused = pair(|client| client.pull_filters = vec![filter(PullAction::Reject, "dhcp-option")], &push);
    assert!(!refused.is_up());
}

#[test]
fn unknown_pushed_options_are_warnings() {
    let pair = pair(|_| {}, &["frobnicate 1 2 3", "dhcp-option FROB x", "route 1.2.3"]);
    assert!(pair.is_up());
    let told = |words: &str| {
        pair.client_events.iter().any(
            |event| matches!(event, Event::Report(report) if report.text.contains(words) && report.severity == adit_core::Severity::Warning),
        )
    };
    assert!(
        told("\"frobnicate 1 2 3\" is ignored") && told("\"dhcp-option FROB x\"") && told("\"route 1.2.3\"")
    );
}

fn server_of(authority: &Authority) -> ServerParams {
    server_params(&authority.issue("server", ExtendedKeyUsagePurpose::ServerAuth), WrapConfig::Plain)
}

/// A client of these many remotes, at each of which is a server of another authority.
fn refusing(authority: &Authority, remotes: usize, change: impl FnOnce(&mut ClientParams)) -> Pair {
    let identity = authority.issue("client", ExtendedKeyUsagePurpose::ClientAuth);
    let mut client = client_params(&identity, WrapConfig::Plain, Transport::Udp);
    client.remotes = (0..remotes)
        .map(|number| RemoteParams {
            poll_timeout: Duration::from_secs(2),
            ..RemoteParams::new(format!("server {number}"), Transport::Udp)
        })
        .collect();
    change(&mut client);
    Pair::new(client, server_of(&Authority::new()))
}

/// The remotes that were tried, and why the client ended, if it did.
fn outcome(pair: &Pair) -> (Vec<usize>, Option<&str>) {
    let (mut tried, mut why) = (Vec::new(), None);
    for event in &pair.client_events {
        match event {
            Event::Open { remote } => tried.push(*remote),
            Event::Ended(Ended::Failed(text)) => why = Some(text.as_str()),
            Event::Ended(other) => panic!("{other:?}"),
            _ => {}
        }
    }
    (tried, why)
}

#[test]
fn a_refused_certificate_leads_to_the_next_remote() {
    let authority = Authority::new();
    let mut pair = refusing(&authority, 2, |_| {});
    assert_eq!(outcome(&pair), (vec![0], None));
    pair.server = Server::new(server_of(&authority), pair.now, [3; 32]);
    pair.advance(Duration::from_secs(2));
    assert_eq!(outcome(&pair), (vec![0, 1], None));
    assert!(pair.is_up());
}

#[test]
fn a_refused_certificate_at_each_remote_ends_the_client() {
    for (remotes, tried) in [(1, vec![0]), (3, vec![0, 1, 2])] {
        let mut pair = refusing(&Authority::new(), remotes, |_| {});
        pair.advance(Duration::from_secs(60));
        let (found, why) = outcome(&pair);
        assert_eq!(found, tried);
        assert!(why.is_some_and(|why| why.contains("certificate")), "{why:?}");
    }
}

/// A remote that does not answer may be the right one: the count begins anew.
#[test]
fn a_refused_certificate_is_not_the_end_while_another_remote_is_silent() {
    let mut pair = refusing(&Authority::new(), 2, |_| {});
    pair.cut = true;
    pair.advance(Duration::from_millis(3500));
    pair.cut = false;
    pair.advance(Duration::from_secs(1));
    assert_eq!(outcome(&pair), (vec![0, 1, 0], None));
    pair.advance(Duration::from_secs(10));
    let (tried, why) = outcome(&pair);
    assert_eq!(tried, [0, 1, 0, 1]);
    assert!(why.is_some_and(|why| why.contains("certificate")), "{why:?}");
}

#[test]
fn a_refused_certificate_is_an_attempt_of_connect_retry_max() {
    let mut pair = refusing(&Authority::new(), 2, |client| client.retry_max = Some(1));
    pair.cut = true;
    pair.advance(Duration::from_secs(10));
    let (tried, why) = outcome(&pair);
    assert_eq!(tried, [0, 1]);
    assert!(why.is_some_and(|why| why.contains("connect-retry-max")), "{why:?}");
}

/// A client that was up tries on.
#[test]
fn a_refused_certificate_does_not_end_a_client_that_was_up() {
    let authority = Authority::new();
    let mut pair = refusing(&authority, 2, |_| {});
    pair.server = Server::new(server_of(&authority), pair.now, [3; 32]);
    pair.advance(Duration::from_secs(2));
    assert!(pair.is_up());
    pair.server = Server::new(server_of(&Authority::new()), pair.now, [4; 32]);
    pair.client.handle_command(pair.now, Command::Restart);
    pair.advance(Duration::from_secs(20));
    let (tried, why) = outcome(&pair);
    assert!(tried.len() > 5 && why.is_none(), "{tried:?} {why:?}");
}
