//! A server and a client that have authenticated, and then send control messages of every kind as fast as they can: what they
//! cause stays within the numbers of `docs/use/LIMITS.md`.

use std::collections::BTreeMap;
use std::time::Duration;

use adit_core::{Command, Notice, Path, PeerId, Protocol, Rejected, Transport};
use adit_openvpn::access::PasswordScript;
use adit_openvpn::params::{AuthRetry, ClientParams, ScriptParams, ServerParams, UserAuth};
use adit_openvpn::request::{ConnectionFailure, Event, Request, ScriptId, UserPassword};
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::testing::messages::{kind, kinds, message};
use adit_openvpn::testing::{Authority, Pair, client_params, server_params};
use adit_openvpn::wrap::{HmacDigest, KeyDirection, WrapConfig};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

/// Lines of the log that one peer causes in a minute.
const LINES: usize = 16;
/// Lines that the beginning and the end of one connection have besides.
const LINES_OF_CONNECTION: usize = 4;
/// Changes of the tunnel's settings in a minute: eight at once, and one every ten seconds.
const CHANGES: usize = 8 + 6;
/// Most bytes of memory that may be left, in buffers and in tables that have a limit.
const MEMORY: i64 = 8 << 20;
/// How long each kind of message is sent.
const TIME: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_secs(1);
/// Messages of a kind in one step.
const BATCH: usize = 20;

/// The numbers of events of one end.
#[derive(Debug, Default)]
struct Caused {
    lines: usize,
    /// Beginnings and ends of connections.
    connections: usize,
    changes: usize,
    questions: usize,
    words: usize,
    /// Scripts that run or wait, by their programs.
    scripts: BTreeMap<ScriptId, String>,
    /// The most scripts of one program at any time.
    most_scripts: usize,
}

impl Caused {
    fn take(&mut self, events: &mut Vec<Event>) {
        for event in events.drain(..) {
            match event {
                Event::Report(_) => self.lines += 1,
                Event::Open { .. } | Event::Close { .. } | Event::PeerUp { .. } | Event::PeerDown { .. } => {
                    self.connections += 1;
                }
                Event::Up(_) => self.changes += 1,
                Event::Request(Request::Challenge(_)) => self.questions += 1,
                Event::Request(Request::ServerInfo(_)) => self.words += 1,
                Event::Request(Request::RunScript(script)) => {
                    let program = script.argv.first().cloned().unwrap_or_default();
                    self.scripts.insert(script.id, program.clone());
                    let of_it = self.scripts.values().filter(|other| **other == program).count();
                    self.most_scripts = self.most_scripts.max(of_it);
                }
                Event::Request(Request::CancelScript(id)) => drop(self.scripts.remove(&id)),
                _ => {}
            }
        }
    }

    /// Checks the numbers against the limits of a minute.
    fn check(&self, name: &str) {
        let connections = self.connections * LINES_OF_CONNECTION;
        assert!(self.lines <= LINES + connections, "{name}: {self:?}");
        assert!(self.changes <= CHANGES + self.connections, "{name}: {self:?}");
        assert!(self.questions <= LINES && self.words <= LINES, "{name}: {self:?}");
        assert!(self.most_scripts <= 1, "{name}: {self:?}");
    }
}

/// Both ends, of which the client's scripts or the server's never answer.
fn pair(change: impl Fn(&mut ClientParams, &mut ServerParams)) -> Pair {
    let authority = Authority::new();
    let mut client = client_params(&authority.issue("alice", ClientAuth), WrapConfig::Plain, Transport::Udp);
    let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
    client.float = true;
    change(&mut client, &mut server);
    Pair::new(client, server)
}

/// The end that is malicious.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Client,
    Server,
}

/// Has one end send `batch` messages a second for a minute. Returns the events of the other end.
fn endure(pair: &mut Pair, end: End, batch: usize, say: &mut dyn FnMut(&mut Pair, usize)) -> Caused {
    let mut caused = Caused::default();
    pair.client_events.clear();
    pair.server_events.clear();
    let until = pair.now + TIME;
    let mut number = 0;
    let mut spare = fresh();
    let measured = allocation_counter::measure(|| {
        while pair.now < until {
            for _ in 0..batch {
                say(pair, number);
                number += 1;
            }
            pair.exchange();
            pair.advance(STEP);
            let (sufferer, other) = match end {
                End::Client => (&mut pair.server_events, &mut pair.client_events),
                End::Server => (&mut pair.client_events, &mut pair.server_events),
            };
            caused.take(sufferer);
            other.clear();
        }
        // The datagrams that wait at the malicious end are its own cost.
        match end {
            End::Client => std::mem::swap(&mut pair.client, &mut spare.client),
            End::Server => std::mem::swap(&mut pair.server, &mut spare.server),
        }
        drop(spare);
    });
    assert!(measured.bytes_current <= MEMORY, "{} bytes are left", measured.bytes_current);
    caused
}

fn say_all(end: End, batch: usize, make: impl Fn() -> Pair) {
    for number in kinds() {
        let first = message(number, 0).unwrap();
        assert_eq!(kind(&first), number);
        let mut pair = make();
        let caused = endure(&mut pair, end, batch, &mut |pair, count| {
            let Some(message) = message(number, count) else { return };
            match end {
                End::Client => pair.client.say(pair.now, &message.to_string()),
                End::Server => pair.server.say(pair.now, &message.to_string()),
            }
        });
        caused.check(&format!("{end:?}: {first:?}"));
    }
}

fn fresh() -> Pair {
    pair(|_, _| {})
}

fn connected() -> Pair {
    let pair = fresh();
    assert!(pair.is_up());
    pair
}

/// The client never gets its settings.
fn waiting() -> Pair {
    pair(|client, server| {
        client.local.scripts = Some(ScriptParams::default().into());
        server.per_client.ask = true;
    })
}

#[test]
fn a_server_causes_no_more_at_a_connected_client() {
    say_all(End::Server, BATCH, connected);
}

#[test]
fn a_server_causes_no_more_at_a_client_that_waits() {
    say_all(End::Server, BATCH, waiting);
}

#[test]
fn a_client_causes_no_more_at_a_server() {
    say_all(End::Client, BATCH, connected);
}

mod long {
    use super::*;

    /// Messages in a second: more than a processor carries through TLS in real time.
    const FLOOD: usize = 2000;

    #[test]
    #[ignore = "long: some minutes"]
    fn a_server_at_full_speed_causes_no_more_at_a_client() {
        say_all(End::Server, FLOOD, connected);
        say_all(End::Server, FLOOD, waiting);
    }

    #[test]
    #[ignore = "long: some minutes"]
    fn a_client_at_full_speed_causes_no_more_at_a_server() {
        say_all(End::Client, FLOOD, connected);
        say_all(End::Client, FLOOD, || pair(with_scripts));
    }
}

/// A server whose scripts run for ever.
fn with_scripts(client: &mut ClientParams, server: &mut ServerParams) {
    let script = |name: &str| Some(vec![name.to_owned()]);
    server.access.verify = script("verify").map(|argv| PasswordScript { argv, by_file: false });
    server.access.client_crresponse = script("crresponse");
    server.access.client_connect = script("connect");
    server.access.client_disconnect = script("disconnect");
    let credentials = UserPassword { username: "alice".to_owned(), password: "secret".to_owned().into() };
    client.auth = Some(UserAuth {
        credentials: Some(credentials),
        retry: AuthRetry::NoInteract,
        nocache: false,
        by_program: false,
        challenge: None,
    });
    client.local.scripts =
        Some(ScriptParams { tls_verify: script("tls-verify"), ..ScriptParams::default() }.into());
}

#[test]
fn a_client_that_is_judged_causes_one_run_of_a_script() {
    say_all(End::Client, BATCH, || pair(with_scripts));
}

/// Renegotiations and moves, which are no messages.
#[test]
fn renegotiations_and_moves_cause_no_more() {
    let rekey = Command::Rekey { peer: PeerId(0) };
    for end in [End::Client, End::Server] {
        let mut both = pair(|_, _| {});
        let caused = endure(&mut both, end, BATCH, &mut |pair, _| match end {
            End::Client => pair.client.handle_command(pair.now, rekey.clone()),
            End::Server => pair.server.handle_command(pair.now, rekey.clone()),
        });
        caused.check(&format!("{end:?}: renegotiations"));
        let mut both = pair(|client, _| client.local.scripts = Some(ScriptParams::default().into()));
        let elsewhere = |number: usize| Path::Udp {
            socket: 1,
            remote: ([198, 51, 100, u8::try_from(number % 250).unwrap()], 1194).into(),
        };
        let caused = endure(&mut both, end, BATCH, &mut |pair, number| {
            let path = elsewhere(number);
            match end {
                End::Client => {
                    pair.server.handle_notice(pair.now, Notice::Moved { peer: PeerId(0), path });
                }
                End::Server => {
                    pair.client.handle_notice(pair.now, Notice::Moved { peer: PeerId::SERVER, path });
                }
            }
        });
        caused.check(&format!("{end:?}: moves"));
    }
}

/// The reports that programs such as fail2ban look for have a limit, too, when datagrams come from many sources.
#[test]
fn datagrams_that_do_not_verify_are_told_of_within_limits() {
    let key = |byte: u8| {
        WrapConfig::tls_auth(
            &StaticKey::from_bytes(&[byte; 256]),
            HmacDigest::Sha1,
            KeyDirection::Bidirectional,
        )
    };
    let mut pair = pair(|client, server| {
        client.control.wrap = key(1);
        server.control.wrap = key(2);
    });
    assert!(!pair.is_up());
    let (mut refused, mut reset) = (0, [0; 54]);
    for number in 0..2000u32 {
        // P_CONTROL_HARD_RESET_CLIENT_V2, its session id, and zeros in place of HMAC, ids and body.
        reset[0] = 7 << 3;
        reset[1..5].copy_from_slice(&(number + 1).to_be_bytes());
        let [_, _, high, low] = (number / 4).to_be_bytes();
        let path = Path::Udp { socket: 0, remote: ([198, 18, high, low], 1194).into() };
        let result = pair.server.handle_datagram(pair.now, path, &reset);
        refused += usize::from(matches!(result, Err(Rejected::Unauthentic(_))));
    }
    assert_eq!(refused, 2000);
    pair.exchange();
    let told = |event: &&Event| {
        let Event::Request(Request::ClientFailed(failed)) = event else { return false };
        matches!(failed.failure, ConnectionFailure::Unauthentic(_))
    };
    let count = pair.server_events.iter().filter(told).count();
    assert_eq!(count, 64, "as many as lines about peers that have not authenticated");
}
