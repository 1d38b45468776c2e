//! A server and a client of bad manners, which renegotiates as soon as it can.

use std::sync::Arc;
use std::time::Duration;

use adit_core::{HandshakeStage, Instant, Notice, Path, PeerOrder, Protocol, Transport, drive_with};
use adit_pki::{CertificateDemand, PeerRequirements};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

use super::Server;
use crate::access::PasswordScript;
use crate::client_hello::client_hello;
use crate::control_channel::{ControlChannel, ControlOutput};
use crate::credentials::server_tls;
use crate::params::{ClientParams, ControlParams, ServerParams};
use crate::request::{DataEvent, Event, PeerSettings, Reply, Request, ScriptId, ScriptOutcome, UserPassword};
use crate::testing::{Authority, client_params, environment, server_params};
use crate::tls::TlsConfig;
use crate::wrap::WrapConfig;

struct Rogue {
    channel: ControlChannel,
    server: Server,
    path: Path,
    now: Instant,
    events: Vec<Event>,
    /// The control messages that it received.
    heard: Vec<String>,
}

impl Rogue {
    /// It has sent its name, and is being judged.
    fn new(change: impl FnOnce(&mut ServerParams)) -> Self {
        let authority = Authority::new();
        Self::with(&authority, Some("alice"), change)
    }

    /// The control channel's parameters, with the certificate of that name, or none.
    fn control(authority: &Authority, name: Option<&str>) -> ControlParams {
        let mut credentials = authority.issue(name.unwrap_or("nobody"), ClientAuth);
        if name.is_none() {
            credentials.certificate.clear();
            credentials.private_key.clear();
        }
        client_params(&credentials, WrapConfig::Plain, Transport::Udp).control
    }

    fn with(authority: &Authority, name: Option<&str>, change: impl FnOnce(&mut ServerParams)) -> Self {
        let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
        server.access.verify = Some(PasswordScript { argv: vec!["/judge".to_owned()], by_file: false });
        change(&mut server);
        let now = Instant::ORIGIN + Duration::from_secs(1);
        Self::join(authority, name, Server::new(server, now, [2; 32]), path(2))
    }

    /// One more client of a server.
    fn join(authority: &Authority, name: Option<&str>, server: Server, path: Path) -> Self {
        let client = ClientParams::new(Self::control(authority, name), Vec::new());
        let now = Instant::ORIGIN + Duration::from_secs(1);
        let mut hello = client_hello(&client, path);
        hello.username.push_str("ann");
        hello.password.push_str("s3 cret");
        let control = Arc::new(client.control.clone());
        let channel = ControlChannel::client(now, control, hello, ChaCha20Rng::from_seed([1; 32])).unwrap();
        let mut rogue = Rogue { channel, server, path, now, events: Vec::new(), heard: Vec::new() };
        rogue.exchange();
        // It takes for granted the agreement that it did not get.
        rogue.channel.agreed(now, false).unwrap();
        rogue
    }

    fn exchange(&mut self) {
        loop {
            let mut idle = true;
            let mut datagram = Vec::new();
            while let Some(output) = self.channel.poll_output() {
                if let ControlOutput::Message(message) = output {
                    self.heard.push(String::from_utf8_lossy(&message).into_owned());
                }
            }
            while self.channel.poll_transmit(self.now, &mut datagram) {
                idle = false;
                let _ = self.server.handle_datagram(self.now, self.path, &datagram);
                datagram.clear();
            }
            drive_with(
                &mut self.server,
                |_, event| self.events.push(event),
                |_, datagram| {
                    idle = false;
                    let _ = self.channel.handle(self.now, datagram);
                },
            );
            if idle {
                return;
            }
        }
    }

    /// Keeps the server's events.
    fn drain_events(&mut self) {
        self.events.extend(std::iter::from_fn(|| self.server.poll_event()));
    }

    fn advance(&mut self, time: Duration) {
        self.now += time;
        self.server.handle_timeout(self.now);
        self.channel.handle_timeout(self.now);
        self.exchange();
    }

    /// The server let it in, and has pushed its settings.
    fn is_told(&mut self) {
        assert_eq!(self.server.peers().len(), 1, "{:?}", self.events);
        self.channel.agreed(self.now, true).unwrap();
    }

    fn renegotiate(&mut self) {
        self.channel.rekey(self.now);
        self.exchange();
    }

    fn scripts(&self, kind: &str) -> Vec<ScriptId> {
        let is =
            |env: &[(String, String)]| env.iter().any(|(name, value)| name == "script_type" && value == kind);
        let of_kind = |event: &Event| match event {
            Event::Request(Request::RunScript(script)) if is(&script.env) => Some(script.id),
            _ => None,
        };
        self.events.iter().filter_map(of_kind).collect()
    }

    fn ends(&mut self, kind: &str, exit: i32) {
        let id = *self.scripts(kind).last().unwrap();
        let settings = (kind == "client-connect").then(|| Ok(Box::<PeerSettings>::default()));
        let outcome = ScriptOutcome { exit: Ok(exit), files: Vec::new(), settings };
        self.server.handle_reply(self.now, Reply::ScriptDone { id, outcome });
        self.exchange();
    }

    /// The latest `client-connect` succeeds and gives these settings.
    fn writes(&mut self, settings: PeerSettings) {
        let id = *self.scripts("client-connect").last().unwrap();
        let outcome =
            ScriptOutcome { exit: Ok(0), files: Vec::new(), settings: Some(Ok(Box::new(settings))) };
        self.server.handle_reply(self.now, Reply::ScriptDone { id, outcome });
        self.exchange();
    }

    /// The usernames that scripts were asked to judge.
    fn judged_usernames(&self) -> Vec<String> {
        let value = |env: &[(String, String)], wanted: &str| {
            env.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
        };
        let of_verify = |event: &Event| match event {
            Event::Request(Request::RunScript(script))
                if value(&script.env, "script_type").as_deref() == Some(VERIFY) =>
            {
                value(&script.env, "username")
            }
            _ => None,
        };
        self.events.iter().filter_map(of_verify).collect()
    }

    fn log_says(&self, words: &str) -> bool {
        let says = |event: &Event| matches!(event, Event::Report(report) if report.text.contains(words));
        self.events.iter().any(says)
    }

    fn assign_addresses(&self) -> bool {
        let near = |event: &Event| {
            matches!(
                event,
                Event::PeerUp { .. }
                    | Event::Data(DataEvent::Peer(PeerOrder::Add(_)) | DataEvent::Install(_))
            )
        };
        self.events.iter().any(near)
    }
}

/// A path from that address.
fn path(last: u8) -> Path {
    Path::Udp { socket: 0, remote: ([192, 0, 2, last], 40_000).into() }
}

#[test]
fn a_datagram_shows_how_far_its_sender_has_come() {
    let authority = Authority::new();
    let params = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
    let now = Instant::ORIGIN + Duration::from_secs(1);
    let mut server = Server::new(params, now, [2; 32]);
    let client = ClientParams::new(Rogue::control(&authority, Some("alice")), Vec::new());
    let control = Arc::new(client.control.clone());
    let hello = client_hello(&client, path(2));
    let mut channel = ControlChannel::client(now, control, hello, ChaCha20Rng::from_seed([1; 32])).unwrap();
    let mut stages = Vec::new();
    for _ in 0..4 {
        let mut datagram = Vec::new();
        while channel.poll_transmit(now, &mut datagram) {
            stages.push(server.stage_of(path(2), &datagram));
            let elsewhere = server.stage_of(path(3), &datagram);
            assert!(elsewhere != HandshakeStage::Established, "no control channel there");
            let _ = server.handle_datagram(now, path(2), &datagram);
            datagram.clear();
        }
        drive_with(
            &mut server,
            |_, _| {},
            |_, datagram| {
                channel.handle(now, datagram).unwrap();
            },
        );
        while channel.poll_output().is_some() {}
    }
    assert_eq!(stages[..2], [HandshakeStage::First, HandshakeStage::Returning]);
    assert!(stages.len() > 4 && stages[2..].iter().all(|stage| *stage == HandshakeStage::Established));
    let malformed: [&[u8]; 4] = [&[], &[4 << 3], &[0xff; 40], &[31 << 3; 40]];
    assert!(malformed.iter().all(|bytes| server.stage_of(path(2), bytes) == HandshakeStage::First));
}

/// The data plane may send to the new address already, so the server answers in any case.
#[test]
fn a_client_that_moves_to_another_ones_address_is_sent_back() {
    let authority = Authority::new();
    let alice = Rogue::with(&authority, Some("alice"), |server| server.access.verify = None);
    let mut bob = Rogue::join(&authority, Some("bob"), alice.server, path(3));
    let peers = bob.server.peers();
    let peer = peers.iter().find(|(_, info)| info.name == "alice").unwrap().0;
    assert_eq!(peers.len(), 2);
    for (to, at) in [(path(3), path(2)), (path(4), path(4))] {
        bob.events.clear();
        bob.server.handle_notice(bob.now, Notice::Moved { peer, path: to });
        bob.drain_events();
        let moved = bob.events.iter().find_map(|event| match event {
            Event::Data(DataEvent::Peer(PeerOrder::Move { peer, path })) => Some((*peer, *path)),
            _ => None,
        });
        assert_eq!(moved, Some((peer, at)));
        assert_eq!(bob.log_says("another client is there"), to != at);
    }
    // A second word of the same move says nothing new.
    bob.events.clear();
    bob.server.handle_notice(bob.now, Notice::Moved { peer, path: path(4) });
    bob.drain_events();
    assert!(bob.events.is_empty(), "{:?}", bob.events);
}

/// A client may change its address as often as it likes; the log has it once in a minute.
#[test]
fn a_client_that_moves_on_and_on_does_not_fill_the_log() {
    let authority = Authority::new();
    let mut alice = Rogue::with(&authority, Some("alice"), |server| server.access.verify = None);
    let peer = alice.server.peers()[0].0;
    let mut lines = 0;
    for second in 0..120u8 {
        alice.events.clear();
        alice.server.handle_notice(alice.now, Notice::Moved { peer, path: path(4 + second % 2) });
        alice.drain_events();
        let told = |event: &&Event| matches!(event, Event::Report(it) if it.text.contains("moved here"));
        lines += alice.events.iter().filter(told).count();
        alice.now += Duration::from_secs(1);
    }
    assert_eq!(lines, 2);
}

/// Messages of a client that is in on its control channel cost at most so many lines, however many they are.
#[test]
fn a_client_that_is_in_and_sends_garbage_does_not_fill_the_log() {
    let authority = Authority::new();
    let mut alice = Rogue::with(&authority, Some("alice"), |server| server.access.verify = None);
    alice.is_told();
    alice.events.clear();
    for _ in 0..100 {
        alice.channel.send_message(alice.now, "CR_RESPONSE,eHh4");
        alice.channel.send_message(alice.now, &"\u{1}\0".repeat(200));
        alice.exchange();
    }
    let about = |words: &str| {
        let says = |event: &&Event| matches!(event, Event::Report(report) if report.text.contains(words));
        alice.events.iter().filter(says).count()
    };
    assert!(about("a control message was dropped") > 0);
    assert_eq!(about("a control message was dropped") + about("is not judged"), 16);
    assert_eq!(about("are not written for up to 60 s"), 1);
}

/// A script about the end of a client that could not run leaves a line in the log.
#[test]
fn a_script_about_an_end_that_makes_room_is_in_the_log() {
    let authority = Authority::new();
    let argv = Some(vec!["/gone".to_owned()]);
    let mut alice = Rogue::with(&authority, Some("alice"), |server| {
        server.access.verify = None;
        server.access.client_disconnect = argv;
    });
    alice.channel.send_message(alice.now, "EXIT");
    alice.exchange();
    let id = *alice.scripts("client-disconnect").last().unwrap();
    let outcome = ScriptOutcome { exit: Err("no room".to_owned()), files: Vec::new(), settings: None };
    alice.server.handle_reply(alice.now, Reply::ScriptDone { id, outcome });
    alice.exchange();
    assert!(alice.log_says("a script about a client that has left did not run to its end: no room"));
}

const VERIFY: &str = "user-pass-verify";

/// A client that was refused does not put its end off by going on to talk ([`super::peer::Peer::refuse`]).
#[test]
fn cve_2024_28882_a_refused_client_cannot_stay() {
    let mut rogue = Rogue::new(|_| {});
    rogue.ends(VERIFY, 1);
    for _ in 0..2 {
        rogue.advance(Duration::from_secs(2));
        rogue.renegotiate();
        assert_eq!(rogue.server.half_open(), 1);
    }
    rogue.advance(Duration::from_secs(1));
    assert_eq!((rogue.server.half_open(), rogue.assign_addresses()), (0, false));
}

/// Once refused, always refused, and no password is judged any more: the server's answer would tell if it was right.
#[test]
fn a_refused_client_cannot_try_passwords() {
    let heard = [0, 1].map(|exit| {
        let mut rogue = Rogue::new(|_| {});
        rogue.ends(VERIFY, 1);
        rogue.renegotiate();
        rogue.ends(VERIFY, exit);
        rogue.advance(Duration::from_secs(1));
        assert!(!rogue.assign_addresses());
        assert_eq!(rogue.scripts(VERIFY).len(), 1);
        rogue.heard
    });
    assert_eq!(heard[0], heard[1]);
    assert_eq!(heard[0].iter().filter(|text| text.starts_with("AUTH_FAILED")).count(), 1, "{heard:?}");
}

/// Another judge has refused the client when the script answers about its renegotiation.
#[test]
fn an_answer_about_a_refused_client_changes_nothing() {
    let heard = [0, 1].map(|exit| {
        let connect = Some(vec!["/connect".to_owned()]);
        let mut rogue = Rogue::new(|server| server.access.client_connect = connect);
        rogue.ends(VERIFY, 0);
        rogue.renegotiate();
        assert_eq!(rogue.scripts(VERIFY).len(), 2);
        rogue.ends("client-connect", 1);
        rogue.ends(VERIFY, exit);
        rogue.advance(Duration::from_secs(1));
        assert!(!rogue.assign_addresses());
        rogue.heard
    });
    assert_eq!(heard[0], heard[1]);
}

/// `client-connect` has not answered when the client renegotiates, and is refused there.
#[test]
fn a_client_refused_meanwhile_stays_out() {
    for ask in [false, true] {
        let mut rogue = Rogue::new(|server| {
            server.access.client_connect = Some(vec!["/connect".to_owned()]);
            server.per_client.ask = ask;
        });
        rogue.ends(VERIFY, 0);
        rogue.renegotiate();
        rogue.ends(VERIFY, 1);
        assert_eq!(rogue.scripts(VERIFY).len(), 2);
        if ask {
            let wanted = rogue.events.iter().find_map(|event| match event {
                Event::Request(Request::PeerSettings { peer, name }) => Some((*peer, name.clone())),
                _ => None,
            });
            let (peer, name) = wanted.unwrap();
            let reply = Reply::PeerSettings { peer, name, settings: Ok(Box::default()) };
            rogue.server.handle_reply(rogue.now, reply);
            rogue.exchange();
            assert!(rogue.scripts("client-connect").is_empty());
        } else {
            rogue.ends("client-connect", 0);
        }
        assert!(!rogue.assign_addresses());
        rogue.advance(Duration::from_secs(6));
        assert_eq!(rogue.server.half_open(), 0);
    }
}

/// A client says in a renegotiation to be another user: no script is asked, and it goes.
#[test]
fn a_client_that_changes_its_username_goes() {
    let mut rogue = Rogue::new(|_| {});
    rogue.ends(VERIFY, 0);
    rogue.is_told();
    let bob = UserPassword { username: "bob".to_owned(), password: "s3 cret".to_owned().into() };
    rogue.channel.set_credentials(&bob);
    rogue.renegotiate();
    assert_eq!((rogue.scripts(VERIFY).len(), rogue.server.peers().len()), (1, 0));
    assert!(rogue.log_says("it was ann and now says to be bob"), "{:?}", rogue.events);
}

/// `override-username`: the username that the client gave stands for the other from then on; a third one is refused.
#[test]
fn a_client_whose_username_is_replaced_may_give_either() {
    for (name, stays) in [("ann", true), ("bea", true), ("cid", false)] {
        let connect = Some(vec!["/connect".to_owned()]);
        let mut rogue = Rogue::new(|server| server.access.client_connect = connect);
        rogue.ends(VERIFY, 0);
        rogue.writes(PeerSettings { username: Some("bea".to_owned()), ..PeerSettings::default() });
        rogue.is_told();
        let user = UserPassword { username: name.to_owned(), password: "s3 cret".to_owned().into() };
        rogue.channel.set_credentials(&user);
        rogue.renegotiate();
        if stays {
            assert_eq!(rogue.judged_usernames(), ["ann", "bea"], "{name}");
            rogue.ends(VERIFY, 0);
        } else {
            assert_eq!(rogue.judged_usernames(), ["ann"]);
            assert!(rogue.log_says("it was bea and now says to be cid"), "{:?}", rogue.events);
        }
        assert_eq!(rogue.server.peers().len(), usize::from(stays), "{name}: {:?}", rogue.events);
    }
}

/// A client has one name in all exchanges, by its certificate; a client that has shown none shows none later.
#[test]
fn a_client_that_proves_another_name_goes() {
    let names = [Some("alice"), Some("bob"), None];
    for (first, second) in names.iter().flat_map(|first| names.map(|second| (*first, second))) {
        let authority = Authority::new();
        let mut rogue = Rogue::with(&authority, first, |server| {
            let requirements =
                PeerRequirements { demand: CertificateDemand::Optional, ..PeerRequirements::default() };
            let credentials = authority.issue("server", ServerAuth);
            let tls = server_tls(&credentials, requirements, &environment()).unwrap();
            server.control.tls = TlsConfig::Server(tls);
        });
        rogue.ends(VERIFY, 0);
        rogue.is_told();
        rogue.channel.set_control(Rogue::control(&authority, second));
        rogue.renegotiate();
        let stays = first == second;
        assert_eq!(rogue.server.peers().len(), usize::from(stays), "{first:?} then {second:?}");
        assert_eq!(rogue.scripts(VERIFY).len(), if stays { 2 } else { 1 }, "{first:?} then {second:?}");
        assert_eq!(rogue.log_says("the peer proved to be"), !stays, "{first:?} then {second:?}");
    }
}

/// A client that is not in yet begins one key exchange after the other: each is judged anew, within the time of the
/// first (`hand-window`, or the time of a judge that put it off).
#[test]
fn later_exchanges_do_not_put_off_the_first_deadline() {
    let authority = Authority::new();
    let mut rogue = Rogue::with(&authority, Some("alice"), |_| {});
    let mut control = Rogue::control(&authority, Some("alice"));
    // It uses new keys soon, and so may begin the next exchange.
    control.rekey.after = Some(Duration::from_secs(2));
    rogue.channel.set_control(control);
    for _ in 0..5 {
        rogue.advance(Duration::from_secs(10));
        rogue.renegotiate();
    }
    assert_eq!((rogue.scripts(VERIFY).len(), rogue.server.half_open()), (6, 1));
    rogue.advance(Duration::from_secs(10));
    assert!(rogue.heard.iter().any(|text| text.starts_with("AUTH_FAILED")), "{:?}", rogue.heard);
    rogue.advance(Duration::from_secs(5));
    assert_eq!((rogue.server.half_open(), rogue.assign_addresses()), (0, false));
}

/// Of the exchanges of one client, only the last one's scripts are of interest.
#[test]
fn scripts_of_an_earlier_exchange_are_dropped() {
    let mut rogue = Rogue::new(|_| {});
    rogue.renegotiate();
    let scripts = rogue.scripts(VERIFY);
    let dropped = |id: &ScriptId| {
        rogue
            .events
            .iter()
            .any(|event| matches!(event, Event::Request(Request::CancelScript(it)) if it == id))
    };
    assert_eq!(scripts.iter().map(dropped).collect::<Vec<bool>>(), [true, false]);
}

#[test]
fn scripts_about_a_client_that_leaves_are_dropped() {
    let mut rogue = Rogue::new(|_| {});
    let scripts = rogue.scripts(VERIFY);
    rogue.channel.send_message(rogue.now, "EXIT");
    rogue.exchange();
    assert_eq!(rogue.server.half_open(), 0);
    let dropped =
        |event: &Event| matches!(event, Event::Request(Request::CancelScript(id)) if scripts == [*id]);
    assert!(rogue.events.iter().any(dropped), "{:?}", rogue.events);
}
