//! `management-client-auth`: a program at the server's management socket authenticates clients, as single sign-on does.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Scratch, can_run};

use crate::authentication::passwords::GOOD;
use crate::bed::{Bed, PROGRAMS};
use crate::management::commands::Talk;
use crate::options::{Options, Program};

const WAIT: Duration = MAX_WAIT;
/// Time enough to authenticate a client where many tests share few processors.
const PATIENT: &str = "hand-window 30\nreneg-sec 0\n";

/// The management client's event about a client.
#[derive(Debug)]
struct ClientEvent {
    client: String,
    /// The number of its keys, where there is one.
    key: String,
    env: Vec<(String, String)>,
}

impl ClientEvent {
    fn get(&self, name: &str) -> Option<&str> {
        self.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn names(&self) -> BTreeSet<&str> {
        self.env.iter().map(|(name, _)| name.as_str()).collect()
    }
}

/// The next client event of that kind, with its environment.
fn hears(talk: &mut Talk<UnixStream>, kind: &str) -> ClientEvent {
    let line = talk.until(&format!(">CLIENT:{kind},"));
    let mut words = line.split(',').skip(1).map(str::to_owned);
    let (client, key) = (words.next().unwrap(), words.next().unwrap_or_default());
    let mut env = Vec::new();
    loop {
        // Nothing comes between.
        let line = talk.line();
        let pair = line.strip_prefix(">CLIENT:ENV,").unwrap_or_else(|| panic!("{line}"));
        if pair == "END" {
            return ClientEvent { client, key, env };
        }
        let (name, value) = pair.split_once('=').unwrap();
        env.push((name.to_owned(), value.to_owned()));
    }
}

/// The program says this of those keys.
fn says(talk: &mut Talk<UnixStream>, command: &str, event: &ClientEvent, rest: &str) -> Vec<String> {
    talk.answer(&format!("{command} {} {}{rest}", event.client, event.key))
}

/// A server that asks at that socket, and a client, with these lines.
fn bed(programs: [Program; 2], socket: &Path, server_lines: &str, client_lines: &str) -> Bed {
    let line = format!("management {} unix\nmanagement-client-auth\n", socket.display());
    Bed::build_with(&Options::BASE, programs[0], &[programs[1]], |_, [server, client]| {
        server.push_str(&line);
        server.push_str(server_lines);
        client.push_str(client_lines);
    })
    .unwrap()
}

fn place() -> (Scratch, PathBuf) {
    let scratch = Scratch::create("management").unwrap();
    let socket = scratch.path().join("socket");
    (scratch, socket)
}

/// First the client must wait, then it is accepted with a route of its own, then it leaves. The events of the three.
fn lets_in(server: Program, client: Program) -> [ClientEvent; 3] {
    let (_scratch, socket) = place();
    let mut bed = bed([server, client], &socket, PATIENT, &format!("{GOOD}{PATIENT}setenv IV_SSO webauth\n"));
    bed.server.start().unwrap();
    let mut talk = Talk::at(&socket);
    bed.clients[0].start().unwrap();
    let asks = hears(&mut talk, "CONNECT");
    for (name, value) in [
        ("IV_SSO", "webauth"),
        ("username", "ann"),
        ("password", "s3 cret"),
        ("common_name", "client1"),
        ("untrusted_ip", "10.9.1.2"),
    ] {
        assert_eq!(asks.get(name), Some(value), "{name} in {asks:?}");
    }
    let said = says(&mut talk, "client-pending-auth", &asks, " \"WEB_AUTH::https://login.example/\" 20");
    assert_eq!(said, ["SUCCESS: client-pending-auth command succeeded"]);
    let process = bed.clients[0].process();
    assert!(process.wait_for_line(0, "https://login.example/", WAIT).is_ok(), "{}", bed.logs());
    let process = bed.clients[0].process();
    assert_eq!(process.count_lines(0, client.up_line()), 0, "{}", bed.logs());
    let said = says(&mut talk, "client-auth", &asks, "\npush \"route 10.77.0.0 255.255.0.0\"\nEND");
    assert_eq!(said, ["SUCCESS: client-auth command succeeded"]);
    let address = talk.until(">CLIENT:ADDRESS,");
    assert_eq!(address, format!(">CLIENT:ADDRESS,{},10.8.0.2,1", asks.client));
    assert_eq!(talk.line(), format!(">CLIENT:ADDRESS,{},fd00:8::1000,1", asks.client));
    let enters = hears(&mut talk, "ESTABLISHED");
    assert_eq!((&enters.client, enters.get("n_clients")), (&asks.client, Some("1")));
    let process = bed.clients[0].process();
    assert!(process.wait_for_line(0, client.up_line(), WAIT).is_ok(), "{}", bed.logs());
    let route = bed.clients[0].namespace.ip(&["route", "show", "10.77.0.0/16"]).unwrap();
    assert!(route.contains("tun"), "{route}{}", bed.logs());
    bed.clients[0].stop().unwrap();
    let leaves = hears(&mut talk, "DISCONNECT");
    assert!(leaves.get("bytes_received").is_some() && leaves.client == asks.client, "{leaves:?}");
    let said = says(&mut talk, "client-auth-nt", &asks, "");
    assert_eq!(said, ["ERROR: client-auth command failed"], "it is gone");
    bed.server.stop().unwrap();
    assert!(!bed.server.process().log().contains("s3 cret"), "{}", bed.logs());
    [asks, enters, leaves]
}

#[test]
fn a_client_waits_and_is_accepted() {
    if can_run("client-auth", &PROGRAMS) {
        lets_in(Program::Adit, Program::Adit);
    }
}

/// The variables of OpenVPN about its own settings.
const OF_ITSELF: [&str; 11] = [
    "config",
    "daemon",
    "daemon_log_redirect",
    "dev_type",
    "local_port_1",
    "proto_1",
    "redirect_gateway",
    "remote_port_1",
    "script_context",
    "tun_mtu",
    "verb",
];

/// Both servers tell the same of the same client.
#[test]
fn a_management_client_gets_what_openvpn_sends() {
    if !can_run("client-auth", &PROGRAMS) {
        return;
    }
    let ours = lets_in(Program::Adit, Program::OpenVpn);
    let theirs = lets_in(Program::OpenVpn, Program::OpenVpn);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let more: Vec<&str> = ours.names().difference(&theirs.names()).copied().collect();
        let missing: Vec<&str> = theirs
            .names()
            .difference(&ours.names())
            .filter(|name| !OF_ITSELF.contains(name))
            .copied()
            .collect();
        assert!(more.is_empty() && missing.is_empty(), "{more:?} {missing:?}\n{ours:#?}\n{theirs:#?}");
    }
}

#[test]
fn a_client_is_denied_with_a_reason() {
    if !can_run("client-auth", &PROGRAMS) {
        return;
    }
    for client in [Program::OpenVpn, Program::Adit] {
        let (_scratch, socket) = place();
        let mut bed = bed([Program::Adit, client], &socket, "", GOOD);
        bed.server.start().unwrap();
        let mut talk = Talk::at(&socket);
        bed.clients[0].start().unwrap();
        let asks = hears(&mut talk, "CONNECT");
        let said = says(&mut talk, "client-deny", &asks, " \"no such seat\" \"see the desk\"");
        assert_eq!(said, ["SUCCESS: client-deny command succeeded"]);
        assert!(bed.clients[0].process().wait(WAIT).is_ok(), "{}", bed.logs());
        let log = bed.clients[0].process().log();
        assert!(log.contains("AUTH_FAILED") && log.contains("see the desk"), "{log}");
        assert!(bed.server.process().log().contains("no such seat"), "{}", bed.logs());
        let leaves = hears(&mut talk, "DISCONNECT");
        assert!(leaves.client == asks.client && leaves.env.is_empty(), "{leaves:?}");
    }
}

/// The client has no username at first; then it shows the token and the name that it was given.
#[test]
fn a_client_without_a_username_is_authenticated_again_by_its_token() {
    if !can_run("client-auth", &PROGRAMS) {
        return;
    }
    for client in [Program::OpenVpn, Program::Adit] {
        let (_scratch, socket) = place();
        let lines = "reneg-sec 4\nauth-user-pass-optional\nauth-gen-token 3600 external-auth\n";
        let mut bed = bed([Program::Adit, client], &socket, lines, "");
        bed.server.start().unwrap();
        let mut talk = Talk::at(&socket);
        assert_eq!(talk.answer("env-filter 2"), ["SUCCESS: env_filter_level=2"]);
        bed.clients[0].start().unwrap();
        let asks = hears(&mut talk, "CONNECT");
        assert_eq!(
            (asks.get("username"), asks.get("session_state")),
            (Some(""), Some("Initial")),
            "{asks:?}"
        );
        assert!(asks.get("IV_VER").is_some() && asks.get("untrusted_port").is_none(), "{asks:?}");
        says(&mut talk, "client-auth", &asks, "\npush \"auth-token-user YW5u\"\nEND");
        hears(&mut talk, "ESTABLISHED");
        let again = hears(&mut talk, "REAUTH");
        assert_eq!(again.client, asks.client);
        assert_ne!(again.key, asks.key);
        assert_eq!(again.get("session_state"), Some("AuthenticatedEmptyUser"), "{again:?}");
        assert_eq!(again.get("session_id"), asks.get("session_id"));
        says(&mut talk, "client-auth-nt", &again, "");
        let renewed = bed.server.process().wait_for_line(0, "renegotiated keys (number 1)", WAIT);
        assert!(renewed.is_ok(), "{}", bed.logs());
        assert_eq!(says(&mut talk, "client-auth-nt", &asks, ""), ["ERROR: client-auth command failed"]);
        let said = says(&mut talk, "client-deny", &again, " \"changed its mind\" \"time is up\"");
        assert_eq!(said, ["SUCCESS: client-deny command succeeded"]);
        let reported = bed.clients[0].process().wait_for_line(0, "time is up", WAIT);
        assert!(reported.is_ok(), "{}", bed.logs());
        hears(&mut talk, "DISCONNECT");
    }
}

/// A program that leaves before it has answered: that client is put off when its time is over. The next program is asked about it
/// when it comes again.
#[test]
fn a_management_client_disconnects() {
    if !can_run("client-auth", &PROGRAMS) {
        return;
    }
    let (_scratch, socket) = place();
    let mut bed =
        bed([Program::Adit, Program::OpenVpn], &socket, "hand-window 4\n", &format!("{GOOD}{PATIENT}"));
    bed.server.start().unwrap();
    let mut talk = Talk::at(&socket);
    bed.clients[0].start().unwrap();
    let first = hears(&mut talk, "CONNECT");
    drop(talk);
    let put_off = bed.clients[0].process().wait_for_line(0, "AUTH_FAILED,TEMP", WAIT);
    assert!(put_off.is_ok(), "{}", bed.logs());
    let why = bed.server.process().wait_for_line(0, "did not answer in time", WAIT);
    assert!(why.is_ok(), "{}", bed.logs());
    let mut talk = Talk::at(&socket);
    let second = hears(&mut talk, "CONNECT");
    assert_ne!(second.client, first.client);
    assert_eq!(says(&mut talk, "client-auth-nt", &second, ""), ["SUCCESS: client-auth command succeeded"]);
    let came_up = bed.clients[0].process().wait_for_line(0, Program::OpenVpn.up_line(), WAIT);
    assert!(came_up.is_ok(), "{}", bed.logs());
}
