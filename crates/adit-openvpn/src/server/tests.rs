//! A server and a client of bad manners, which renegotiates as soon as it can.

use std::sync::Arc;
use std::time::Duration;

use adit_core::{
    Command, DataEvent, Event, Instant, Path, PeerSettings, Protocol, ScriptId, ScriptOutcome, Transport,
};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

use super::Server;
use crate::access::PasswordScript;
use crate::client_hello::client_hello;
use crate::params::ServerParams;
use crate::session::Session;
use crate::support::{Authority, client_params, server_params};
use crate::wrap::WrapConfig;

struct Rogue {
    session: Session,
    server: Server,
    path: Path,
    now: Instant,
    events: Vec<Event>,
}

impl Rogue {
    /// It has said who it is, and is being judged.
    fn new(change: impl FnOnce(&mut ServerParams)) -> Self {
        let authority = Authority::new();
        let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
        server.access.verify = Some(PasswordScript { argv: vec!["/judge".to_owned()], by_file: false });
        change(&mut server);
        let client = client_params(&authority.issue("alice", ClientAuth), WrapConfig::Plain, Transport::Udp);
        let path = Path::Udp { socket: 0, remote: ([192, 0, 2, 2], 40_000).into() };
        let now = Instant::ORIGIN + Duration::from_secs(1);
        let mut hello = client_hello(&client, path);
        hello.username.push_str("ann");
        hello.password.push_str("s3 cret");
        let control = Arc::new(client.control.clone());
        let session = Session::client(now, control, hello, ChaCha20Rng::from_seed([1; 32])).unwrap();
        let server = Server::new(server, now, [2; 32]);
        let mut rogue = Rogue { session, server, path, now, events: Vec::new() };
        rogue.exchange();
        // It takes for granted what it was not told.
        rogue.session.agreed(now, false).unwrap();
        rogue
    }

    fn exchange(&mut self) {
        loop {
            let mut idle = true;
            let mut datagram = Vec::new();
            while self.session.poll_output().is_some() {}
            while self.session.poll_transmit(self.now, &mut datagram) {
                idle = false;
                let _ = self.server.handle_datagram(self.now, self.path, &datagram);
                datagram.clear();
            }
            self.drain_events();
            while self.server.poll_transmit(&mut datagram).is_some() {
                idle = false;
                let _ = self.session.handle(self.now, &datagram);
                datagram.clear();
            }
            if idle {
                return;
            }
        }
    }

    fn drain_events(&mut self) {
        while let Some(event) = self.server.poll_event() {
            self.events.push(event);
        }
    }

    fn advance(&mut self, time: Duration) {
        self.now += time;
        self.server.handle_timeout(self.now);
        self.session.handle_timeout(self.now);
        self.exchange();
    }

    fn renegotiate(&mut self) {
        self.session.rekey(self.now);
        self.exchange();
    }

    fn scripts(&self, kind: &str) -> Vec<ScriptId> {
        let is =
            |env: &[(String, String)]| env.iter().any(|(name, value)| name == "script_type" && value == kind);
        let of_kind = |event: &Event| match event {
            Event::RunScript(script) if is(&script.env) => Some(script.id),
            _ => None,
        };
        self.events.iter().filter_map(of_kind).collect()
    }

    fn ends(&mut self, kind: &str, exit: i32) {
        let id = *self.scripts(kind).last().unwrap();
        let settings = (kind == "client-connect").then(|| Ok(Box::<PeerSettings>::default()));
        let outcome = ScriptOutcome { exit: Ok(exit), files: Vec::new(), settings };
        self.server.handle_command(self.now, Command::ScriptDone { id, outcome });
        self.exchange();
    }

    fn let_in(&self) -> bool {
        let near = |event: &Event| {
            matches!(event, Event::PeerUp { .. } | Event::Data(DataEvent::AddPeer(_) | DataEvent::Install(_)))
        };
        self.events.iter().any(near)
    }
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
        rogue.ends(VERIFY, 1);
        assert_eq!(rogue.server.half_open(), 1);
    }
    assert!(rogue.scripts(VERIFY).len() > 1, "it renegotiated");
    rogue.advance(Duration::from_secs(1));
    assert_eq!((rogue.server.half_open(), rogue.let_in()), (0, false));
}

/// Once refused, always refused: a later judgement does not count.
#[test]
fn a_refused_client_is_not_let_in_later() {
    let mut rogue = Rogue::new(|_| {});
    rogue.ends(VERIFY, 1);
    rogue.renegotiate();
    rogue.ends(VERIFY, 0);
    assert_eq!(rogue.scripts(VERIFY).len(), 2);
    rogue.advance(Duration::from_secs(1));
    assert!(!rogue.let_in());
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
                Event::WantPeerSettings { peer, name } => Some((*peer, name.clone())),
                _ => None,
            });
            let (peer, name) = wanted.unwrap();
            let command = Command::PeerSettings { peer, name, settings: Ok(Box::default()) };
            rogue.server.handle_command(rogue.now, command);
            rogue.exchange();
            assert!(rogue.scripts("client-connect").is_empty());
        } else {
            rogue.ends("client-connect", 0);
        }
        assert!(!rogue.let_in());
        rogue.advance(Duration::from_secs(6));
        assert_eq!(rogue.server.half_open(), 0);
    }
}
