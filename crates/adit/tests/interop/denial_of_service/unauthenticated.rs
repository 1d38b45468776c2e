//! Peers that complete a part of the steps to connect and never authenticate, from one address, while a client from
//! another one connects; and an unread log.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use adit_core::{Command as Order, Event, Path, Protocol, Transport, UnixTime, drive_with};
use adit_openvpn::credentials::{Credentials, TlsEnvironment, client_tls};
use adit_openvpn::params::{AuthRetry, ClientParams, ControlParams, RemoteParams, UserAuth};
use adit_openvpn::request::UserPassword;
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{Client, PeerRequirements, TlsConfig};
use adit_testbed::{Scratch, can_run, wait_until_reachable};
use rustls::time_provider::DefaultTimeProvider;
use serde_json::Value;

use crate::authentication::passwords::{GOOD, script};
use crate::bed::{Bed, PROGRAMS};
use crate::management::status::status_of;
use crate::options::{Options, Program, SERVER_INNER, Transport as Carrier};

/// How long a client may take to connect beside all that. It has one attempt: the next one would come later.
const WAIT: Duration = Duration::from_secs(20);

fn reaches_the_server(bed: &mut Bed, client: usize) {
    bed.clients[client].start().unwrap();
    let inner = SERVER_INNER[0].parse().unwrap();
    let there = wait_until_reachable(&bed.clients[client].namespace, inner, WAIT);
    assert!(there.is_ok(), "{}", bed.logs());
}

fn table(bed: &mut Bed, name: &str) -> Value {
    let status = status_of(bed.server.process().id());
    let tables = status["tables"].as_array().unwrap();
    tables.iter().find(|table| table["name"] == name).unwrap_or_else(|| panic!("{status:#}")).clone()
}

#[test]
fn idle_tcp_connections_of_one_address_keep_no_client_out() {
    if !can_run("idle TCP connections", &PROGRAMS) {
        return;
    }
    let options = Options { transport: Carrier::Tcp4, ..Options::BASE };
    let mut bed = Bed::build(&options, Program::Adit, &[Program::Adit; 2]).unwrap();
    bed.server.start().unwrap();
    let connect = || (0..1100).map(|_| TcpStream::connect("10.9.1.1:1194").unwrap()).collect();
    let idle: Vec<TcpStream> = bed.clients[0].namespace.enter(connect).unwrap();
    reaches_the_server(&mut bed, 1);
    let silent = table(&mut bed, "TCP connections without a control channel");
    assert!(silent["evicted"].as_u64().unwrap() >= 1000, "{silent:#}");
    assert!(silent["entries"].as_u64().unwrap() <= 64 && silent["share"] == 64, "{silent:#}");
    drop(idle);
}

/// Clients that show no certificate and any password.
fn keyless(authority: &str, number: u8) -> ClientParams {
    let credentials = Credentials {
        ca: authority.as_bytes().to_vec(),
        certificate: Vec::new(),
        private_key: Vec::new().into(),
    };
    let environment = TlsEnvironment::new(Arc::new(DefaultTimeProvider));
    let tls = client_tls(&credentials, PeerRequirements::default(), &environment).unwrap();
    let control = ControlParams::new(WrapConfig::Plain, TlsConfig::Client(tls), UnixTime(1_700_000_000));
    let remote = RemoteParams::new("server".to_owned(), Transport::Udp);
    let credentials =
        Some(UserPassword { username: format!("guess{number}"), password: "guess".to_owned().into() });
    let auth =
        UserAuth { credentials, retry: AuthRetry::None, nocache: false, by_program: false, challenge: None };
    ClientParams { auth: Some(auth), ..ClientParams::new(control, vec![remote]) }
}

/// One handshake as far as the password, of a client that is not heard again.
fn logs_in_and_leaves(params: ClientParams, number: u8) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("10.9.1.1:1194").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let path = Path::Udp { socket: 0, remote: "10.9.1.1:1194".parse().unwrap() };
    let start = Instant::now();
    let now = || adit_core::Instant::ORIGIN + Duration::from_secs(1) + start.elapsed();
    let mut client = Client::new(params, now(), [number; 32]);
    let mut buffer = [0; 2000];
    loop {
        drive_with(
            &mut client,
            |client, event| {
                if let Event::Open { .. } = event {
                    client.handle_command(now(), Order::Opened { path });
                }
            },
            |_, datagram| assert_eq!(socket.send(datagram).unwrap(), datagram.len()),
        );
        match socket.recv(&mut buffer) {
            Ok(length) => drop(client.handle_datagram(now(), path, &buffer[..length])),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn logins_without_a_key_do_not_hold_up_the_scripts_of_others() {
    if !can_run("logins without a key", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("slow").unwrap();
    let verifier = script(&scratch, "verify", "sleep 2\n[ \"$(sed -n 1p \"$1\")\" = ann ]\n");
    let (first, authority) = (RefCell::new(true), RefCell::new(String::new()));
    let mut bed = Bed::build_with(&Options::BASE, Program::Adit, &[Program::Adit; 2], |known, texts| {
        let [server, client] = texts;
        if first.replace(false) {
            authority.borrow_mut().clone_from(&known.certificate);
            server.push_str(&format!(
                "script-security 2\nauth-user-pass-verify {} via-file\nverify-client-cert none\n",
                verifier.display()
            ));
        }
        client.push_str(GOOD);
    })
    .unwrap();
    bed.server.start().unwrap();
    let authority = authority.into_inner();
    let attack = || {
        thread::scope(|scope| {
            for worker in 0..20 {
                let authority = &authority;
                scope.spawn(move || {
                    (0..20).for_each(|_| logs_in_and_leaves(keyless(authority, worker), worker));
                });
            }
        });
    };
    // On a slow machine some leave before they are answered: then there are more.
    for _ in 0..5 {
        bed.clients[0].namespace.enter(attack).unwrap();
        if table(&mut bed, "handshakes")["evicted"].as_u64().unwrap() > 0 {
            break;
        }
    }
    reaches_the_server(&mut bed, 1);
    let handshakes = table(&mut bed, "handshakes");
    assert!(handshakes["entries"].as_u64().unwrap() <= 128, "{handshakes:#}");
    assert!(handshakes["evicted"].as_u64().unwrap() > 0, "{handshakes:#}");
}

/// The standard error is a pipe that is full and is not read.
#[test]
fn an_unread_log_stops_neither_clients_nor_the_end() {
    if !can_run("an unread log", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("pipe").unwrap();
    let pipe = scratch.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // O_NONBLOCK
    let mut end = OpenOptions::new().read(true).write(true).custom_flags(0o4000).open(&pipe).unwrap();
    while end.write(&[b'x'; 4096]).is_ok() {}
    while end.write(b"x").is_ok() {}
    let mut bed = Bed::build(&Options::BASE, Program::Adit, &[Program::Adit]).unwrap();
    bed.server.start_with_errors_to(&pipe).unwrap();
    reaches_the_server(&mut bed, 0);
    let waiting = table(&mut bed, "lines of the log that wait to be written");
    assert!(waiting["entries"].as_u64().unwrap() > 0, "{waiting:#}");
    bed.clients[0].stop().unwrap();
    bed.server.stop().unwrap();
}
