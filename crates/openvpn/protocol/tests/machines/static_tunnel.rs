//! A tunnel with a static key: how the ends find each other, and when one is lost.

mod reconfigure;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use adit_core::{
    Activity, Cipher, Command, ConnectionId, Digest, Ended, IdleLimit, Instant, Notice, OnFirstOpened,
    OpenFailure, Path, PeerActivity, PeerConfig, PeerId, PeerLimits, PeerOrder, Protocol, SessionId,
    Severity, Transport, UnixTime,
};
use adit_openvpn::StaticTunnel;
use adit_openvpn::codec::{Framing, StaticFraming, session_id};
use adit_openvpn::data_message::{self, DataMessage};
use adit_openvpn::params::{Keepalive, LocalSettings, RemoteParams, ScriptParams, StaticParams};
use adit_openvpn::request::{DataEvent, Event, Install, Request};
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::KeyDirection;

const WALL: u64 = 1_790_000_000;
const SESSION: SessionId = session_id(PeerId::SERVER, 0);

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN + Duration::from_secs(seconds)
}

fn udp(last: u8) -> Path {
    Path::Udp { socket: 0, remote: ([192, 0, 2, last], 1194).into() }
}

fn tcp(number: u32) -> Path {
    Path::Tcp { connection: ConnectionId(number), remote: ([192, 0, 2, 1], 4000).into() }
}

/// One that waits for the other.
fn waiting() -> StaticParams {
    let key = StaticKey::from_bytes(&[7; 256]);
    StaticParams {
        digest: Digest::Sha256,
        keepalive: Keepalive {
            ping: Some(Duration::from_secs(10)),
            timeout: Some(Duration::from_secs(60)),
            exit: false,
        },
        local: LocalSettings {
            addresses: vec!["10.4.0.1/32".parse().unwrap()],
            peer_address: Some("10.4.0.2".parse().unwrap()),
            ..LocalSettings::default()
        },
        exit_notify: true,
        ..StaticParams::new(key, KeyDirection::Normal, Cipher::Aes256Cbc, UnixTime(WALL))
    }
}

/// One that looks for the other at two places.
fn connecting(transport: Transport) -> StaticParams {
    let remote =
        |name: &str| RemoteParams { exit_notify: true, ..RemoteParams::new(name.to_owned(), transport) };
    StaticParams {
        direction: KeyDirection::Inverse,
        remotes: vec![remote("east"), remote("far east")],
        ..waiting()
    }
}

/// A tunnel's machine with what it said so far.
struct End {
    machine: StaticTunnel,
    events: Vec<Event>,
}

impl End {
    fn new(params: StaticParams, now: Instant) -> Self {
        let mut end = End { machine: StaticTunnel::new(params, now, [3; 32]), events: Vec::new() };
        end.drain();
        end
    }

    fn drain(&mut self) {
        self.events.extend(std::iter::from_fn(|| self.machine.poll_event()));
    }

    /// The events of an action.
    fn after(&mut self, act: impl FnOnce(&mut StaticTunnel)) -> Vec<Event> {
        self.events.clear();
        act(&mut self.machine);
        self.drain();
        self.events.clone()
    }

    fn command(&mut self, now: Instant, command: Command) -> Vec<Event> {
        self.after(|machine| machine.handle_command(now, command))
    }

    fn notice(&mut self, now: Instant, notice: Notice) -> Vec<Event> {
        self.after(|machine| machine.handle_notice(now, notice))
    }

    fn traffic(&mut self, now: Instant, received: u64, sent: u64) -> Vec<Event> {
        let (received_bytes, sent_bytes) = (100 * received, 100 * sent);
        let peer = PeerId::SERVER;
        let last = |count: u64| Activity { last_data: (count > 0).then_some(now), ..Activity::default() };
        let activity = PeerActivity { received: last(received), sent: last(sent) };
        let message_bytes = 0;
        let notice =
            Notice::Traffic { peer, received, sent, received_bytes, sent_bytes, message_bytes, activity };
        self.notice(now, notice)
    }

    fn timeout(&mut self, now: Instant) -> Vec<Event> {
        self.after(|machine| machine.handle_timeout(now))
    }

    fn opened(&mut self, now: Instant, path: Path) -> Vec<Event> {
        self.command(now, Command::Opened { path })
    }

    fn roamed(&mut self, now: Instant, path: Path) -> Vec<Event> {
        self.notice(now, Notice::Moved { peer: PeerId::SERVER, path })
    }

    fn first_opened(&mut self, now: Instant) -> Vec<Event> {
        self.notice(now, Notice::FirstOpened { peer: PeerId::SERVER, session: SESSION })
    }

    fn is_up(&self) -> bool {
        !self.machine.peers().is_empty()
    }
}

/// Where the data plane shall send.
fn reached(events: &[Event]) -> Vec<Path> {
    let path = |event: &Event| match event {
        Event::Data(DataEvent::Peer(PeerOrder::Add(PeerConfig { path, .. }))) => *path,
        _ => None,
    };
    events.iter().filter_map(path).collect()
}

/// Whether the data plane may follow the peer by itself, wherever it sends to.
fn roams(events: &[Event]) -> Vec<bool> {
    let roams = |event: &Event| match event {
        Event::Data(DataEvent::Peer(PeerOrder::Add(config))) => Some(config.roams),
        _ => None,
    };
    events.iter().filter_map(roams).collect()
}

fn installs(events: &[Event]) -> Vec<&Install> {
    let install = |event| match event {
        &Event::Data(DataEvent::Install(ref install)) => Some(&**install),
        _ => None,
    };
    events.iter().filter_map(install).collect()
}

fn began(install: &Install) -> u64 {
    match install.codec.framing {
        Framing::StaticKey(StaticFraming { began, .. }) => began.into(),
        other => panic!("{other:?}"),
    }
}

fn activates(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event, Event::Data(DataEvent::Activate { .. })))
}

fn closed(events: &[Event]) -> Vec<Path> {
    let path = |event: &Event| match event {
        Event::Close { path } => Some(*path),
        _ => None,
    };
    events.iter().filter_map(path).collect()
}

fn injected(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::Data(DataEvent::Inject { .. }))).count()
}

fn ended(events: &[Event]) -> Option<Ended> {
    events.iter().find_map(|event| match event {
        Event::Ended(ended) => Some(ended.clone()),
        _ => None,
    })
}

fn loudest(events: &[Event]) -> Option<Severity> {
    let severity = |event: &Event| match event {
        Event::Report(report) => Some(report.severity),
        _ => None,
    };
    events.iter().filter_map(severity).max()
}

/// The lines of the log.
fn told(events: &[Event]) -> String {
    let text = |event: &Event| match event {
        Event::Report(report) => Some(report.text.clone()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

#[test]
fn who_waits_sends_nothing_before_the_other_was_heard() {
    let mut end = End::new(waiting(), at(5));
    assert!(end.events.iter().any(|event| matches!(event, Event::Up(_))), "as OpenVPN, at once");
    assert_eq!(installs(&end.events).len(), 1);
    assert_eq!(began(installs(&end.events)[0]), WALL + 5);
    assert!(!activates(&end.events) && !end.is_up());
    assert_eq!(end.machine.poll_timeout(), None);

    assert!(!activates(&end.first_opened(at(6))));
    let events = end.roamed(at(6), udp(1));
    assert_eq!(reached(&events), [udp(1)]);
    assert!(activates(&events) && installs(&events).is_empty());
    assert_eq!(end.machine.peers()[0].1.path, udp(1));
    assert_eq!(end.machine.peers()[0].1.addresses, ["10.4.0.2".parse::<std::net::IpAddr>().unwrap()]);
    // Pings, and in the end nothing more is sent.
    assert_eq!(end.machine.poll_timeout(), Some(at(16)));
    assert_eq!(injected(&end.timeout(at(16))), 1);
    let events = end.timeout(at(66));
    assert_eq!(loudest(&events), Some(Severity::Warning));
    assert!(!end.is_up() && installs(&events).is_empty(), "no session begins: that would run ahead of time");
    assert_eq!(end.machine.poll_timeout(), None);
    // It comes back, from elsewhere.
    let events = end.roamed(at(70), udp(2));
    assert_eq!(reached(&events), [udp(2)]);
    assert!(end.is_up());
    // It moves.
    assert_eq!(reached(&end.roamed(at(80), udp(3))), [udp(3)]);
    assert_eq!(end.machine.peers()[0].1.path, udp(3));
}

/// The answer to the first packet of an end that may be anywhere does not wait for the notice of that packet.
#[test]
fn who_waits_answers_the_first_packet_by_the_data_plane_alone() {
    let end = End::new(waiting(), at(0));
    assert_eq!(roams(&end.events), [true]);
    assert_eq!(installs(&end.events)[0].on_first_opened, OnFirstOpened::Activate);
    // Which addresses may be the other end's, only the protocol knows.
    let only_from = Some(vec!["192.0.2.1".parse().unwrap()]);
    let end = End::new(StaticParams { only_from, ..waiting() }, at(0));
    assert_eq!(roams(&end.events), [false]);
    assert_eq!(installs(&end.events)[0].on_first_opened, OnFirstOpened::Nothing);
}

#[test]
fn remote_says_where_the_other_end_may_be() {
    let only_from = Some(vec!["192.0.2.1".parse().unwrap()]);
    let mut end = End::new(StaticParams { only_from, ..waiting() }, at(0));
    end.first_opened(at(1));
    let events = end.roamed(at(1), udp(2));
    assert!(reached(&events).is_empty() && !end.is_up());
    assert_eq!(loudest(&events), Some(Severity::Warning));
    assert!(told(&events).contains("it gets no answer") && told(&events).contains("`float`"), "{events:?}");
    assert_eq!(loudest(&end.roamed(at(1), udp(3))), None, "once");
    assert_eq!(roams(&end.roamed(at(2), udp(1))), [false]);
    assert!(end.is_up());
    let mut end = End::new(waiting(), at(0));
    assert_eq!(roams(&end.roamed(at(1), udp(2))), [true]);
    assert_eq!(roams(&end.command(at(2), Command::Restart)), [true], "its first packet says where it is");

    for float in [false, true] {
        let mut end = End::new(StaticParams { float, ..connecting(Transport::Udp) }, at(0));
        assert_eq!(roams(&end.opened(at(0), udp(1))), [float]);
        end.first_opened(at(1));
        let events = end.roamed(at(1), udp(2));
        assert_eq!(told(&events).contains("answers still go to 192.0.2.1:1194 alone"), !float, "{events:?}");
        assert_eq!(end.machine.peers()[0].1.path, if float { udp(2) } else { udp(1) });
    }
}

#[test]
fn who_connects_seals_at_once_and_tries_again() {
    let mut end = End::new(connecting(Transport::Udp), at(0));
    assert!(end.events.iter().any(|event| matches!(event, Event::Open { remote: 0 })));
    let events = end.opened(at(1), udp(1));
    assert_eq!(reached(&events), [udp(1)]);
    assert!(activates(&events));
    assert!(
        events.iter().any(|event| matches!(event, Event::Up(up) if up.server == Some(udp(1).remote().ip())))
    );
    assert!(!end.is_up());
    end.first_opened(at(2));
    assert!(end.is_up());
    // Silence.
    let events = end.timeout(at(61));
    assert_eq!(closed(&events), [udp(1)]);
    assert!(!end.is_up());
    let again = end.machine.poll_timeout().unwrap();
    assert!(
        end.timeout(again).iter().any(|event| matches!(event, Event::Open { remote: 0 })),
        "where it was"
    );
    let events = end.opened(again, udp(4));
    assert!(installs(&events).is_empty(), "the same session");
    end.traffic(at(63), 0, 3);
    assert!(!end.is_up());
    // Never heard there: the next remote.
    let events = end.timeout(again + Duration::from_secs(60));
    assert_eq!(closed(&events), [udp(4)]);
    let again = end.machine.poll_timeout().unwrap();
    assert!(end.timeout(again).iter().any(|event| matches!(event, Event::Open { remote: 1 })));
    // The exit notice ends it.
    end.opened(again, udp(5));
    end.traffic(again, 1, 4);
    assert!(end.is_up());
    let exit_notice =
        [0x28, 0x7f, 0x34, 0x6b, 0xd4, 0xef, 0x7a, 0x81, 0x2d, 0x56, 0xb8, 0xd3, 0xaf, 0xc5, 0x45, 0x9c, 6];
    let payload = exit_notice.to_vec();
    end.notice(again, Notice::Message { peer: PeerId::SERVER, session: SESSION, payload });
    assert!(!end.is_up());
}

/// A driver that has to open a remote again takes its next address.
#[test]
fn the_next_address_is_tried_at_once_where_one_refuses_datagrams() {
    let refuses = |end: &mut End, path| {
        end.command(at(1), Command::Closed { path, reason: "Connection refused".to_owned() })
    };
    let opens = |events: &[Event]| events.iter().any(|event| matches!(event, Event::Open { remote: 0 }));
    let mut end = End::new(connecting(Transport::Udp), at(0));
    end.opened(at(1), udp(1));
    for number in 1..=8 {
        assert!(refuses(&mut end, udp(99)).is_empty(), "another path is meant");
        let events = refuses(&mut end, udp(number));
        assert!(closed(&events) == [udp(number)] && opens(&events));
        assert!(told(&events).contains("refuses datagrams: Connection refused"), "{events:?}");
        assert_eq!(reached(&end.opened(at(1), udp(number + 1))), [udp(number + 1)]);
    }
    // All refuse while the other end is not started: it is heard where it was tried last.
    assert!(refuses(&mut end, udp(9)).is_empty());
    end.first_opened(at(2));
    assert!(end.is_up());
    // The next attempt may try as many again.
    end.timeout(at(70));
    let again = end.machine.poll_timeout().unwrap();
    end.timeout(again);
    end.opened(again, udp(1));
    assert!(opens(&refuses(&mut end, udp(1))));
}

/// A refusal that is reported late, or of another datagram, ends nothing; nor does one at an end that waits.
#[test]
fn an_end_that_was_heard_does_not_refuse() {
    let refused = || Command::Closed { path: udp(1), reason: "Connection refused".to_owned() };
    let mut end = End::new(connecting(Transport::Udp), at(0));
    end.opened(at(1), udp(1));
    end.first_opened(at(1));
    assert!(end.command(at(2), refused()).is_empty() && end.is_up());
    let mut end = End::new(waiting(), at(0));
    end.first_opened(at(1));
    end.roamed(at(1), udp(1));
    assert!(end.command(at(2), refused()).is_empty() && end.is_up());
}

#[test]
fn attempts_end_where_the_file_says() {
    let unknown = || OpenFailure::UnknownName("there is no east".to_owned());
    let mut end = End::new(connecting(Transport::Tcp), at(0));
    assert_eq!(ended(&end.command(at(0), Command::OpenFailed { remote: 0, failure: unknown() })), None);
    end.timeout(at(1));
    let events = end.command(at(1), Command::OpenFailed { remote: 1, failure: unknown() });
    assert!(matches!(ended(&events), Some(Ended::Failed(why)) if why.contains("resolv-retry infinite")));

    let mut end = End::new(StaticParams { retry_max: Some(1), ..connecting(Transport::Tcp) }, at(0));
    let refused = || OpenFailure::Unreachable("refused".to_owned());
    end.command(at(0), Command::OpenFailed { remote: 0, failure: refused() });
    end.timeout(at(1));
    let events = end.command(at(1), Command::OpenFailed { remote: 1, failure: refused() });
    assert!(matches!(ended(&events), Some(Ended::Failed(why)) if why.contains("connect-retry-max")));
}

#[test]
fn a_broken_connection_is_made_anew() {
    let mut end = End::new(connecting(Transport::Tcp), at(0));
    end.opened(at(0), tcp(0));
    end.traffic(at(1), 1, 1);
    assert!(end.is_up());
    end.command(at(2), Command::Closed { path: tcp(0), reason: "reset".to_owned() });
    assert!(!end.is_up());
    assert_eq!(end.machine.poll_timeout(), Some(at(3)));
    end.timeout(at(3));
    assert_eq!(reached(&end.opened(at(3), tcp(1))), [tcp(1)]);
}

#[test]
fn unauthenticated_connections_do_not_take_the_peers_place() {
    let mut end = End::new(waiting(), at(0));
    // The first may be the peer's: it may wait for us to speak.
    assert!(activates(&end.opened(at(1), tcp(0))));
    assert!(!end.is_up());
    // The peer comes by another one, and is heard there.
    assert_eq!(reached(&end.opened(at(2), tcp(1))), [tcp(1)]);
    end.first_opened(at(3));
    assert!(end.is_up());
    for number in 2..100 {
        let events = end.opened(at(4), tcp(number));
        assert!(reached(&events).is_empty() && installs(&events).is_empty());
        // Those that came first go first.
        let oldest = (number >= 9).then(|| tcp(if number == 9 { 0 } else { number - 8 }));
        assert_eq!(closed(&events), Vec::from_iter(oldest), "{number}");
    }
    assert_eq!(end.machine.peers()[0].1.path, tcp(1));
    // The end of an unauthenticated peer's connection changes nothing, and is not logged.
    let gone = Command::Closed { path: tcp(95), reason: "gone".to_owned() };
    assert_eq!(end.command(at(5), gone).len(), 0);
    // The peer begins anew: what it seals comes by the last one.
    let events = end.roamed(at(6), tcp(99));
    assert_eq!((closed(&events), reached(&events)), (vec![tcp(1)], vec![tcp(99)]));
    assert!(end.is_up());
    assert!(reached(&end.roamed(at(6), tcp(95))).is_empty(), "that connection is gone");
    // It goes; the peer may be on the connection that came last.
    let events = end.command(at(7), Command::Closed { path: tcp(99), reason: "gone".to_owned() });
    assert_eq!(reached(&events).last(), Some(&tcp(98)));
    assert!(!end.is_up());
    // As long as no peer was heard, nothing is logged above debug.
    let events = end.command(at(8), Command::Closed { path: tcp(98), reason: "gone".to_owned() });
    assert_eq!(loudest(&events), Some(Severity::Debug));
}

/// Any host can open a connection and close it: scripts run anew for that of a peer that was heard.
#[test]
fn an_end_that_waits_starts_over_for_its_peer_alone() {
    let mut params = waiting();
    params.local.scripts = Some(Arc::new(ScriptParams::default()));
    let mut end = End::new(params, at(0));
    let starts_over = |events: &[Event]| {
        events.iter().any(|event| matches!(event, Event::Request(Request::TunnelFacts(_))))
    };
    let gone = |number| Command::Closed { path: tcp(number), reason: "gone".to_owned() };
    assert!(starts_over(&end.events), "at the start");
    end.opened(at(1), tcp(0));
    assert!(!starts_over(&end.command(at(2), gone(0))));
    end.opened(at(3), tcp(1));
    end.first_opened(at(4));
    assert!(end.is_up());
    assert!(starts_over(&end.command(at(5), gone(1))));
}

#[test]
fn it_ends_politely() {
    let mut end = End::new(connecting(Transport::Udp), at(0));
    end.opened(at(0), udp(1));
    end.first_opened(at(1));
    let events = end.command(at(2), Command::Shutdown);
    assert_eq!((injected(&events), closed(&events)), (1, vec![udp(1)]));
    assert_eq!(ended(&events), Some(Ended::Shutdown));
    assert!(!end.is_up());
    assert!(end.command(at(3), Command::Shutdown).is_empty(), "once");
    assert!(end.roamed(at(3), udp(2)).is_empty());

    // Over TCP the connection says it.
    let mut end = End::new(connecting(Transport::Tcp), at(0));
    end.opened(at(0), tcp(1));
    assert_eq!(injected(&end.command(at(2), Command::Shutdown)), 0);
}

#[test]
fn limits_end_it() {
    let idle = IdleLimit { after: Duration::from_secs(30), bytes: 0 };
    let limits = PeerLimits { idle: Some(idle), length: None };
    let mut end = End::new(StaticParams { limits, ..connecting(Transport::Udp) }, at(0));
    end.opened(at(0), udp(1));
    end.traffic(at(10), 1, 1);
    assert_eq!(ended(&end.timeout(at(39))), None);
    assert_eq!(ended(&end.timeout(at(40))), Some(Ended::Shutdown));

    let keepalive = Keepalive { ping: None, timeout: Some(Duration::from_secs(5)), exit: true };
    let mut end = End::new(StaticParams { keepalive, ..connecting(Transport::Udp) }, at(0));
    end.opened(at(0), udp(1));
    assert!(ended(&end.timeout(at(5))).is_some(), "ping-exit");
    let mut end = End::new(StaticParams { keepalive, ..waiting() }, at(0));
    end.opened(at(0), tcp(0));
    assert_eq!(ended(&end.timeout(at(5))), None, "an unauthenticated peer's silence");
    end.opened(at(6), tcp(1));
    end.first_opened(at(7));
    assert!(ended(&end.timeout(at(12))).is_some());
}

/// The other end asks what our file says, as OpenVPN does with a static key, and gets its own answer each time.
#[test]
fn the_options_are_told_to_who_asks() {
    let request = || {
        let payload = [data_message::OCC_MAGIC.as_slice(), &[data_message::OCC_REQUEST]].concat();
        Notice::Message { peer: PeerId::SERVER, session: SESSION, payload }
    };
    let answers = |events: &[Event]| -> Vec<String> {
        let answer = |event: &Event| match event {
            Event::Data(DataEvent::Inject { payload, .. }) => match data_message::classify(payload) {
                DataMessage::OccReply(options) => Some(options.into_owned()),
                _ => None,
            },
            _ => None,
        };
        events.iter().filter_map(answer).collect()
    };
    let mut end = End::new(waiting(), at(1));
    assert!(answers(&end.notice(at(1), request())).is_empty(), "there is no way to the other end yet");
    end.roamed(at(2), udp(7));
    let told = "V4,dev-type tun,link-mtu 1572,tun-mtu 1500,proto UDPv4,ifconfig 10.4.0.2 10.4.0.1,keydir 0,\
                cipher AES-256-CBC,auth SHA256,keysize 256,secret";
    for _ in 0..2 {
        assert_eq!(answers(&end.notice(at(3), request())), [told]);
    }
}
