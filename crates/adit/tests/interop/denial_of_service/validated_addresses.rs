//! Clients get in while attackers are at work that return the server's cookie, or connect over TCP.
//!
//! The attackers are those of `adit-load-openvpn`; `adit-lab attackers` measures more of them, and for longer.

use std::net::SocketAddr;
use std::time::Duration;

use adit_load::Load;
use adit_load_openvpn::attack::{self, Attack, Behaviour, Pace, Plan, Sources, Talk};
use adit_openvpn::credentials::Credentials;
use adit_openvpn::wrap::WrapConfig;
use adit_testbed::{Namespace, Scratch, can_run, connect, wait_until, wait_until_reachable};

use crate::authentication::passwords::{GOOD, script};
use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER, Transport};

/// The server as the attackers see it.
const TARGET: &str = "10.66.0.1:1194";
/// How long an attack may take to come to its full size, on a busy machine.
const WAIT: Duration = Duration::from_secs(180);
/// How long a client may take to get in: far longer than it does, and far shorter than the attacks can last.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A server with these lines, one client, and a place for attackers.
struct Place {
    bed: Bed,
    attackers: Namespace,
    authority: String,
}

fn place(options: &Options, lines: [&str; 2]) -> Place {
    let authority = std::cell::RefCell::new(String::new());
    let mut bed = Bed::build_with(options, Program::Adit, &[Program::Adit], |ca, [server, client]| {
        authority.borrow_mut().clone_from(&ca.certificate);
        // A hand-window of 60 s, so that no attack is over by itself.
        *server = server.replace("remote-cert-tls client\n", "").replace("hand-window 5\n", "");
        server.push_str(lines[0]);
        client.push_str(lines[1]);
    })
    .unwrap();
    let attackers = Namespace::create("attackers").unwrap();
    connect(&bed.server.namespace, &["10.66.0.1/24"], &attackers, &["10.66.0.2/24"], "attack").unwrap();
    bed.server.start().unwrap();
    Place { bed, attackers, authority: authority.into_inner() }
}

impl Place {
    /// Control channels without a certificate that follow the protocol so far.
    fn channels(&self, behaviour: Behaviour, pace: Pace) -> Attack {
        let credentials = Credentials {
            ca: self.authority.clone().into_bytes(),
            certificate: Vec::new(),
            private_key: Default::default(),
        };
        let tls = attack::tls(&credentials).unwrap();
        let mut plan = Plan::new(behaviour, WrapConfig::Plain, tls).unwrap();
        plan.username = "mallory".to_owned();
        Attack::ControlChannels { plan, sources: Sources::One, pace }
    }

    /// Begins the attack, waits until it is `ready`, and lets the client connect.
    fn withstands(&mut self, attack: Attack, ready: impl Fn(&Load) -> bool) {
        let target: SocketAddr = TARGET.parse().unwrap();
        let attackers = self.attackers.enter(|| attack.start(target)).unwrap();
        if let Err(error) = wait_until("the attack", WAIT, || ready(&attackers)) {
            panic!("{error}: {} of {}\n{}", attackers.done(), attackers.begun(), self.bed.logs());
        }
        let bed = &mut self.bed;
        bed.clients[0].start().unwrap();
        let inner = SERVER_INNER[0].parse().unwrap();
        wait_until_reachable(&bed.clients[0].namespace, inner, TIMEOUT)
            .unwrap_or_else(|error| panic!("{error}\n{}", bed.logs()));
        attackers.stop().unwrap();
    }
}

#[test]
fn silent_tcp_connections_do_not_keep_clients_out() {
    if !can_run("silent_tcp_connections_do_not_keep_clients_out", &PROGRAMS) {
        return;
    }
    let mut place = place(&Options { transport: Transport::Tcp4, ..Options::BASE }, ["", ""]);
    // Each connection is a socket of this process, and adit remembered 1024 at most.
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let limits = rustix::process::Rlimit { current: limits.maximum, ..limits };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limits).unwrap();
    let attack = Attack::Connections { talk: Talk::Silence, sources: Sources::One, count: 1100 };
    place.withstands(attack, |attackers| attackers.begun() >= 1100);
}

#[test]
fn abandoned_logins_do_not_keep_clients_out() {
    if !can_run("abandoned_logins_do_not_keep_clients_out", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("verify").unwrap();
    let verifier = script(&scratch, "verify", "sleep 1\ngrep -q '^ann$' \"$1\"\n");
    let lines = format!(
        "script-security 2\nauth-user-pass-verify {} via-file\nverify-client-cert optional\n",
        verifier.display()
    );
    let mut place = place(&Options::BASE, [&lines, GOOD]);
    let attack = place.channels(Behaviour::Exit, Pace { at_once: 16, per_second: 100 });
    // Eight scripts run at once: those of 300 logins take 37 s.
    place.withstands(attack, |attackers| attackers.done() >= 300);
}

#[test]
fn clients_put_off_do_not_keep_others_out() {
    if !can_run("clients_put_off_do_not_keep_others_out", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("verify").unwrap();
    let body = "grep -q '^ann$' \"$1\" && exit 0\n\
                printf '600\\nwebauth\\nWEB_AUTH::https://sso.example.net/\\n' > \"$auth_pending_file\"\nexit 2\n";
    let verifier = script(&scratch, "verify", body);
    let lines = format!(
        "script-security 2\nauth-user-pass-verify {} via-file\nverify-client-cert optional\nmax-clients 8\n",
        verifier.display()
    );
    let mut place = place(&Options::BASE, [&lines, GOOD]);
    let attack = place.channels(Behaviour::PutOff, Pace { at_once: 16, per_second: 100 });
    place.withstands(attack, |attackers| attackers.begun() >= 100 && attackers.done() > 0);
}
