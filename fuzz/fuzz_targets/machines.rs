//! A client and a server over a network that the input commands: it delivers, loses, doubles, corrupts and
//! forges datagrams, lets time pass, gives orders, pushes any options and answers for scripts. Whatever
//! happens, the machines do not panic, do not spin, and their orders to the data plane make sense.
#![no_main]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use adit_core::{
    Activity, Command, ConnectionId, Instant, IpNet, Notice, OpenFailure, Path, PeerActivity, PeerId,
    PeerOrder, Protocol, SessionId, Transport, drive_with, is_unprintable,
};
use adit_openvpn::access::PasswordScript;
use adit_openvpn::codec::{Codec, session_id};
use adit_openvpn::credentials::Credentials;
use adit_openvpn::params::{
    AuthRetry, ClientParams, ScriptParams, ServerParams, StaticChallenge, TlsCryptV2, UserAuth,
};
use adit_openvpn::request::{
    ChallengeResponse, ClientDecision, ClientStep, DataEvent, Event, NoSettings, PeerDetail, PeerSettings,
    PushChange, Reply, Request, Script, ScriptId, ScriptOutcome, UserPassword,
};
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::v2::{Metadata, ServerKey};
use adit_openvpn::wrap::{HmacDigest, KeyDirection, WrapConfig};
use adit_openvpn::{Client, Server, TlsRole, testing};
use libfuzzer_sys::fuzz_target;
use rcgen::ExtendedKeyUsagePurpose;

static CREDENTIALS: LazyLock<[Credentials; 2]> = LazyLock::new(|| {
    let authority = testing::Authority::new();
    [
        authority.issue("alice", ExtendedKeyUsagePurpose::ClientAuth),
        authority.issue("server", ExtendedKeyUsagePurpose::ServerAuth),
    ]
});

/// Parameters of both ends, by wrapping and transport. TLS is set up once.
static PARAMS: LazyLock<Vec<(ClientParams, ServerParams)>> = LazyLock::new(|| {
    let key = StaticKey::from_bytes(&[7; 256]);
    let auth = |direction| WrapConfig::tls_auth(&key, HmacDigest::Sha256, direction);
    let server_key = Arc::new(ServerKey::from_bytes(&[9; 128]));
    let client_key = server_key.wrap(&key, &Metadata::User(b"alice".to_vec())).unwrap();
    let v2 = TlsCryptV2 { key: server_key, force_cookie: false, max_age: None };
    let wraps = [
        (WrapConfig::Plain, WrapConfig::Plain, None),
        (WrapConfig::tls_crypt(&key, TlsRole::Client), WrapConfig::tls_crypt(&key, TlsRole::Server), None),
        (auth(KeyDirection::Inverse), auth(KeyDirection::Normal), None),
        (WrapConfig::tls_crypt_v2(&client_key), WrapConfig::Plain, Some(v2)),
    ];
    let [client, server] = &*CREDENTIALS;
    let pairs = wraps.into_iter().flat_map(|(ours, theirs, v2)| {
        [Transport::Udp, Transport::Tcp].map(|transport| {
            let client = testing::client_params(client, ours.clone(), transport);
            let mut server = testing::server_params(server, theirs.clone());
            server.admission.v2 = v2.clone();
            (client, server)
        })
    });
    pairs.collect()
});

/// The orders of an end so far.
#[derive(Default)]
struct Model {
    peers: BTreeSet<PeerId>,
    sessions: BTreeMap<PeerId, BTreeSet<SessionId>>,
    up: BTreeSet<PeerId>,
    /// Peers that the data plane knew at some time: it may still speak of them.
    ever: BTreeSet<PeerId>,
    opens: usize,
    /// The requests that wait for an answer: a peer's own settings, a username and password, scripts.
    questions: Vec<Question>,
    /// Scripts that put their answer off.
    deferred: BTreeSet<ScriptId>,
    /// Scripts that ran once: none does twice.
    ran: BTreeSet<ScriptId>,
    /// Numbers of clients that have left.
    left: BTreeSet<u64>,
    ended: bool,
}

enum Question {
    Settings(PeerId, String),
    Credentials,
    Challenge(u32),
    Script(Box<Script>),
    /// A client by its number, and that of its keys.
    Client(u64, u32),
}

impl Model {
    fn note(&mut self, event: Event) {
        assert!(!self.ended || !matches!(event, Event::Open { .. }), "opens a path after its end");
        match event {
            Event::Data(order) => self.note_order(order),
            Event::Open { .. } => self.opens += 1,
            Event::PeerUp { peer, .. } => assert!(self.up.insert(peer), "up twice"),
            Event::PeerDown { peer, .. } => drop(self.up.remove(&peer)),
            Event::Ended(_) => self.ended = true,
            Event::Report(report) => assert!(!report.text.contains('\0')),
            Event::Request(Request::PeerSettings { peer, name }) => {
                assert!(!name.contains(is_unprintable), "{name:?}");
                self.questions.push(Question::Settings(peer, name));
            }
            Event::Request(Request::Credentials { .. }) => self.questions.push(Question::Credentials),
            Event::Request(Request::Challenge(challenge)) => {
                self.questions.push(Question::Challenge(challenge.id))
            }
            Event::Request(Request::RunScript(script)) => {
                assert!(self.ran.insert(script.id), "one run of a script twice");
                assert!(is_clean(&script.env));
                self.questions.push(Question::Script(script));
            }
            Event::Request(Request::PeerFacts(facts)) => assert!(is_clean(&facts.env)),
            Event::Request(Request::TunnelFacts(facts)) => {
                assert!(is_clean(&facts.env) && is_clean(&facts.routes));
            }
            Event::Request(Request::CancelScript(id)) => drop(self.deferred.remove(&id)),
            Event::Request(Request::Client(event)) => {
                let clean = |value: &str| !value.contains(is_unprintable);
                assert!(event.env.iter().all(|(name, value)| !name.contains('=') && clean(value)));
                match event.step {
                    ClientStep::AuthRequest { key, .. } => {
                        assert!(!self.left.contains(&event.client), "it has left");
                        self.questions.push(Question::Client(event.client, key));
                    }
                    ClientStep::Disconnected => assert!(self.left.insert(event.client), "left twice"),
                    ClientStep::Established { .. }
                    | ClientStep::Addressed { .. }
                    | ClientStep::ChallengeResponse { .. } => {}
                }
            }
            Event::Close { .. }
            | Event::Up(_)
            | Event::Down
            | Event::LeasesMoved
            | Event::Request(
                Request::Leased(_)
                | Request::Signal(_)
                | Request::Progress(_)
                | Request::MayGoOn { .. }
                | Request::Remote(_)
                | Request::ServerInfo(_)
                | Request::AuthFailed(_)
                | Request::ConnectionFailed(_)
                | Request::ClientFailed(_)
                | Request::ExitNotice { .. }
                | Request::ServerNotice(_)
                | Request::Echo(_)
                // No end here has a proxy, or a key that is held elsewhere.
                | Request::ProxyCredentials { .. }
                | Request::ProxyCredentialsNotNeeded
                | Request::TlsStep(_),
            ) => {}
        }
    }

    fn note_order(&mut self, order: DataEvent) {
        let known = |peer: &PeerId| self.peers.contains(peer);
        match order {
            DataEvent::Peer(PeerOrder::Add(config)) => {
                self.peers.insert(config.peer);
                self.ever.insert(config.peer);
            }
            DataEvent::Peer(PeerOrder::Remove(peer)) => {
                assert!(self.peers.remove(&peer), "removes a peer that is not there");
                self.sessions.remove(&peer);
            }
            DataEvent::Peer(PeerOrder::AddRoute { peer, .. })
            | DataEvent::Peer(PeerOrder::RemoveRoute { peer, .. }) => {
                assert!(known(&peer), "changes the routes of a peer that is not there");
            }
            DataEvent::Peer(PeerOrder::Move { peer, .. }) => {
                assert!(known(&peer), "moves a peer that is not there")
            }
            DataEvent::Peer(PeerOrder::SetMaxMss { peer, .. }) => {
                assert!(known(&peer), "sets the MSS of a peer that is not there");
            }
            DataEvent::Install(install) => {
                assert!(known(&install.peer), "installs a session of no peer");
                assert_eq!(install.codec.seal.key.len(), install.codec.cipher.key_len());
                assert_ne!(*install.codec.seal.key, *install.codec.open.key);
                self.sessions.entry(install.peer).or_default().insert(install.session);
            }
            DataEvent::Expect(_) => {}
            DataEvent::Activate { peer, session } => {
                let installed = self.sessions.get(&peer).is_some_and(|known| known.contains(&session));
                assert!(installed, "activates a session that is not installed");
            }
            DataEvent::Deactivate(peer) => assert!(known(&peer), "deactivates a peer that is not there"),
            DataEvent::Retire { peer, session } => {
                self.sessions.entry(peer).or_default().remove(&session);
            }
            DataEvent::Inject { peer, .. } | DataEvent::InjectInto { peer, .. } => {
                assert!(known(&peer), "sends to a peer that is not there");
            }
        }
    }
}

/// Names that an environment can hold, and values that forge no line.
fn is_clean(env: &[(String, String)]) -> bool {
    let named = env.iter().all(|(name, _)| !name.is_empty() && !name.contains(['=', '\0']));
    named && env.iter().all(|(_, value)| !value.contains(is_unprintable))
}

struct End<P> {
    machine: P,
    model: Model,
    /// Datagrams on their way from this end.
    sent: VecDeque<Vec<u8>>,
}

impl<P> End<P>
where
    P: Protocol<Request = Request, Reply = Reply, Detail = PeerDetail, Codec = Codec>,
{
    fn new(machine: P) -> Self {
        End { machine, model: Model::default(), sent: VecDeque::new() }
    }

    fn drain(&mut self) {
        let (model, sent) = (&mut self.model, &mut self.sent);
        let steps = Cell::new(0);
        let step = || {
            steps.set(steps.get() + 1);
            assert!(steps.get() < 10_000, "events and datagrams without end");
        };
        drive_with(
            &mut self.machine,
            |_, event| {
                step();
                model.note(event);
            },
            |_, datagram| {
                step();
                assert!(!datagram.is_empty() && datagram.len() < 65_536);
                sent.push_back(datagram.to_vec());
            },
        );
    }

    fn wake(&mut self, now: Instant) {
        for round in 0.. {
            self.machine.handle_timeout(now);
            self.drain();
            if self.machine.poll_timeout().is_none_or(|at| at > now) {
                return;
            }
            assert!(round < 1000, "due again and again");
        }
    }

    fn take(&mut self, choice: u8) -> Option<Vec<u8>> {
        let last = self.sent.len().checked_sub(1)?;
        // Mostly in order.
        self.sent.remove(if choice < 0xc0 { 0 } else { last })
    }
}

struct World {
    now: Instant,
    transport: Transport,
    connections: u32,
    client: End<Client>,
    server: End<Server>,
}

impl World {
    fn path(&self, host: u8, number: u32) -> Path {
        let remote = ([192, 0, 2, host], 1194).into();
        match self.transport {
            Transport::Udp | Transport::Ip(_) => Path::Udp { socket: number, remote },
            Transport::Tcp => Path::Tcp { connection: ConnectionId(number), remote },
        }
    }

    fn to_server(&mut self, datagram: &[u8]) {
        let _ = self.server.machine.handle_datagram(self.now, self.path(2, self.connections), datagram);
        self.server.drain();
    }

    fn to_client(&mut self, datagram: &[u8]) {
        let _ = self.client.machine.handle_datagram(self.now, self.path(1, self.connections), datagram);
        self.client.drain();
    }

    /// Answers the client's wishes for a path.
    fn open(&mut self, fails: bool) {
        while self.client.model.opens > 0 {
            self.client.model.opens -= 1;
            self.connections += 1;
            let command = if fails {
                Command::OpenFailed { remote: 0, failure: OpenFailure::Unreachable("refused".to_owned()) }
            } else {
                Command::Opened { path: self.path(1, self.connections) }
            };
            self.client.machine.handle_command(self.now, command);
            self.client.drain();
            if self.transport == Transport::Tcp && !fails {
                let path = self.path(2, self.connections);
                self.server.machine.handle_command(self.now, Command::Opened { path });
                self.server.drain();
            }
        }
    }

    /// Answers what the ends ask.
    fn answer(&mut self, value: u8) {
        for question in self.client.model.questions.split_off(0) {
            // A name that would forge a line and hide its end must reach no program.
            let username = if value == 0xfd { "alice\n\u{202e}" } else { "alice" };
            let user = UserPassword { username: username.to_owned(), password: "secret".to_owned().into() };
            let answer = if value == 0xfe { Err("no answer".to_owned()) } else { Ok(user) };
            let reply = match question {
                Question::Credentials => Reply::Credentials(answer),
                Question::Challenge(id) => {
                    let answer = answer.map(|user| user.password);
                    Reply::ChallengeResponse(ChallengeResponse { id, answer })
                }
                Question::Script(script) => {
                    let exit = Ok(i32::from(value == 0xfe));
                    let outcome = ScriptOutcome { exit, files: Vec::new(), settings: None };
                    Reply::ScriptDone { id: script.id, outcome }
                }
                Question::Settings(..) | Question::Client(..) => continue,
            };
            self.client.machine.handle_reply(self.now, reply);
            self.client.drain();
        }
        for question in self.server.model.questions.split_off(0) {
            let (peer, name) = match question {
                Question::Settings(peer, name) => (peer, name),
                Question::Script(script) => {
                    self.end_script(&script, value);
                    continue;
                }
                Question::Client(client, key) => {
                    self.decide(client, key, value);
                    continue;
                }
                Question::Credentials | Question::Challenge(_) => continue,
            };
            let mut settings = PeerSettings { disabled: value == 0xfd, ..PeerSettings::default() };
            if value & 1 == 1 {
                settings.ipv4 = Some(([10, 8, 0, value].into(), [255, 255, 255, 0].into()));
                settings.routes.extend("10.66.0.0/16".parse::<IpNet>());
                settings.push =
                    vec![PushChange::Remove("route".to_owned()), PushChange::Add("ping 5".to_owned())];
            }
            let settings = if value == 0xfe {
                Err(NoSettings::Fault("no file".to_owned()))
            } else {
                Ok(Box::new(settings))
            };
            self.server.machine.handle_reply(self.now, Reply::PeerSettings { peer, name, settings });
            self.server.drain();
        }
    }

    /// The program that judges clients says yes, mostly; or no, or later, or speaks of other keys.
    fn decide(&mut self, client: u64, key: u32, value: u8) {
        let settings = || PeerSettings { disabled: value == 0xfa, ..PeerSettings::default() };
        let decision = match value {
            0xfc => {
                let timeout = Duration::from_secs(u64::from(value));
                ClientDecision::Pending { text: "CR_TEXT:R,E:which?".to_owned(), timeout }
            }
            0xfe => ClientDecision::Deny { reason: "no".to_owned(), told: "TEMP:later".to_owned() },
            _ => ClientDecision::Accept((value >= 0x80).then(|| Box::new(settings()))),
        };
        let key = if value == 0xfb { key.wrapping_sub(1) } else { key };
        self.server.machine.handle_reply(self.now, Reply::ClientDecision { client, key, decision });
        self.server.drain();
    }

    /// A script says yes, mostly; or no, or later; or cannot be run, or writes nonsense.
    fn end_script(&mut self, script: &Script, value: u8) {
        if value == 0xfc && script.defers {
            self.server.model.deferred.insert(script.id);
        }
        let exit = match value {
            0xfc => Ok(2),
            0xfd => Err("no such program".to_owned()),
            0xfe => Ok(1),
            _ => Ok(0),
        };
        let files = script.files.iter().map(|_| vec![value; usize::from(value >> 5)]).collect();
        let settings = script.settings.filter(|_| exit == Ok(0)).map(|_| match value {
            0xfb => Err("line 1: nonsense".to_owned()),
            _ => Ok(Box::new(PeerSettings { disabled: value == 0xfa, ..PeerSettings::default() })),
        });
        self.script_done(script.id, ScriptOutcome { exit, files, settings });
    }

    /// Scripts that put their answer off give it.
    fn end_deferred(&mut self, value: u8) {
        for id in std::mem::take(&mut self.server.model.deferred) {
            let answer = [b"1", b"0", b"2", b"x"][usize::from(value >> 6)];
            self.script_done(id, ScriptOutcome { exit: Ok(2), files: vec![answer.to_vec()], settings: None });
        }
    }

    fn script_done(&mut self, id: ScriptId, outcome: ScriptOutcome) {
        self.server.machine.handle_reply(self.now, Reply::ScriptDone { id, outcome });
        self.server.drain();
    }

    fn deliver_all(&mut self) {
        for _ in 0..200 {
            self.open(false);
            self.answer(0);
            let (forth, back) = (self.client.sent.pop_front(), self.server.sent.pop_front());
            if forth.is_none() && back.is_none() {
                return;
            }
            forth.into_iter().for_each(|datagram| self.to_server(&datagram));
            back.into_iter().for_each(|datagram| self.to_client(&datagram));
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.client.wake(self.now);
        self.server.wake(self.now);
    }

    fn order(&mut self, value: u8) {
        let peer = PeerId(u32::from(value >> 6));
        let path = self.path(1 + (value >> 7), self.connections);
        let command = match value % 6 {
            0 => Command::Rekey { peer },
            1 => Command::Disconnect { peer },
            2 => Command::Restart,
            3 => Command::Shutdown,
            _ => Command::Closed { path, reason: "reset by peer".to_owned() },
        };
        if value & 0x20 == 0 {
            self.client.machine.handle_command(self.now, command);
            self.client.drain();
        } else {
            self.server.machine.handle_command(self.now, command);
            self.server.drain();
        }
    }

    /// The server changes settings of its clients. Changes that it refuses to send are sent as a message in the place
    /// of the last message to one client.
    fn update(&mut self, changes: &[u8]) {
        let changes = String::from_utf8_lossy(changes);
        if self.server.machine.push_update(self.now, None, &changes).is_err()
            && let Some((_, info)) = self.server.machine.peers().first()
        {
            let message = format!("PUSH_UPDATE,{changes}");
            let reply = Reply::KillClient { client: info.detail.number, message };
            self.server.machine.handle_reply(self.now, reply);
        }
        self.server.drain();
    }

    fn notice(&mut self, value: u8, payload: &[u8]) {
        let peer = PeerId(u32::from(value >> 7));
        let session = session_id(peer, (value >> 3) & 7);
        let path = self.path(9, self.connections);
        let notice = match value % 5 {
            0 => Notice::Traffic {
                peer,
                received: u64::from(value),
                sent: u64::from(value),
                received_bytes: u64::from(value),
                sent_bytes: u64::from(value),
                message_bytes: u64::from(value >> 4),
                activity: PeerActivity {
                    received: Activity { last_data: Some(self.now), ..Activity::default() },
                    sent: Activity::default(),
                },
            },
            1 => Notice::FirstOpened { peer, session },
            2 => Notice::Moved { peer, path },
            3 => Notice::Message { peer, session, payload: payload.to_vec() },
            _ => Notice::LimitNear { peer, session },
        };
        if value & 0x40 == 0 {
            if self.client.model.ever.contains(&peer) {
                self.client.machine.handle_notice(self.now, notice);
                self.client.drain();
            }
        } else if self.server.model.ever.contains(&peer) {
            self.server.machine.handle_notice(self.now, notice);
            self.server.drain();
        }
    }

    /// One step of the script: what to do, and how. `rest` gives bytes for forgeries.
    fn step(&mut self, action: u8, value: u8, rest: &[u8]) {
        let forged = &rest[..rest.len().min(usize::from(value))];
        match action % 16 {
            0 | 1 => self.client.take(value).into_iter().for_each(|datagram| self.to_server(&datagram)),
            2 | 3 => self.server.take(value).into_iter().for_each(|datagram| self.to_client(&datagram)),
            4 => drop(self.client.take(value)),
            5 => drop(self.server.take(value)),
            6 => {
                if let Some(mut datagram) = self.client.take(0) {
                    let at = usize::from(value) % datagram.len();
                    let copy = datagram.clone();
                    datagram[at] ^= 1 << (value & 7);
                    self.to_server(&datagram);
                    self.to_server(&copy);
                    self.to_server(&copy);
                }
            }
            7 => {
                if let Some(mut datagram) = self.server.take(0) {
                    let at = usize::from(value) % datagram.len();
                    let copy = datagram.clone();
                    datagram[at] ^= 1 << (value & 7);
                    self.to_client(&datagram);
                    self.to_client(&copy);
                    self.to_client(&copy);
                }
            }
            8 => self.to_server(forged),
            9 => self.to_client(forged),
            10 => {
                let path = self.path(value, self.connections);
                let _ = self.server.machine.handle_datagram(self.now, path, rest);
                self.server.drain();
            }
            11 => self.pass(Duration::from_millis(u64::from(value) * 100)),
            12 => self.pass(Duration::from_secs(u64::from(value) * 20)),
            13 if value % 6 == 5 => self.update(rest),
            13 => self.order(value),
            14 => self.notice(value, rest),
            _ => self.deliver_all(),
        }
        self.open(value == 0xff);
        // Sometimes an answer is late.
        if value & 3 != 3 {
            self.answer(value);
        } else if value & 4 != 0 {
            self.end_deferred(value);
        }
    }
}

/// Username and password, tokens and every script.
fn judge(client: &mut ClientParams, server: &mut ServerParams, by_file: bool) {
    let script = || Some(vec!["/judge".to_owned()]);
    client.auth = Some(testing::judged::user("s3 cret"));
    let access = &mut server.access;
    access.verify = Some(PasswordScript { argv: vec!["/judge".to_owned()], by_file });
    access.username_as_name = by_file;
    access.tokens = Some(testing::judged::tokens());
    (access.tls_verify, access.client_connect, access.client_disconnect) = (script(), script(), script());
    access.client_crresponse = script();
    access.management = by_file;
}

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, push_len], rest)) = data.split_first_chunk() else { return };
    let (push, script) = rest.split_at(rest.len().min(usize::from(push_len)));
    let (mut client, mut server) = PARAMS[usize::from(choice & 7) % PARAMS.len()].clone();
    if choice & 8 != 0 {
        judge(&mut client, &mut server, choice & 0x10 != 0);
    }
    server.per_client.ask = choice & 0x10 != 0;
    server.duplicate_cn = choice & 0x20 != 0;
    if choice & 0x20 != 0 {
        let tls_verify = Some(vec!["/verify".to_owned()]);
        client.local.scripts = Some(Arc::new(ScriptParams { tls_verify, ..ScriptParams::default() }));
        client.control.holds_hello = true;
    }
    if choice & 0x40 != 0 {
        let question = StaticChallenge { text: "which?".to_owned(), echo: true, concat: false };
        let challenge = (choice & 0x10 != 0).then_some(question);
        client.auth = Some(UserAuth {
            credentials: None,
            retry: AuthRetry::Interact,
            nocache: true,
            by_program: false,
            challenge,
        });
    }
    server.push = String::from_utf8_lossy(push).lines().map(str::to_owned).collect();
    let transport = client.remotes[0].transport;
    let now = Instant::ORIGIN + Duration::from_secs(1);
    let mut world = World {
        now,
        transport,
        connections: 0,
        client: End::new(Client::new(client, now, [1; 32])),
        server: End::new(Server::new(server, now, [2; 32])),
    };
    world.client.drain();
    world.server.drain();
    world.open(false);
    if choice & 0x80 != 0 {
        world.deliver_all();
    }
    for (index, pair) in script.chunks_exact(2).enumerate().take(64) {
        world.step(pair[0], pair[1], script.get(2 * index + 2..).unwrap_or_default());
    }
});
