//! An OpenVPN client in memory: it connects to a server, gets an address and data keys, and leaves.
//!
//! ```text
//! cargo run -p adit-openvpn --example client
//! ```
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example shows errors by a panic")]

mod support;

use std::time::Duration;

use adit_core::{Cipher, Command, Instant, Protocol as _, Transport, TunnelSettings, UnixTime, drive_with};
use adit_openvpn::credentials::client_tls;
use adit_openvpn::params::{ClientParams, ControlParams, RemoteParams};
use adit_openvpn::request::{DataEvent, Event};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{Client, PeerRequirements, TlsConfig};
use support::{CLIENT, SERVER, deliver};

fn main() {
    let (settings, cipher) = connect();
    println!("addresses {:?}, MTU {}, cipher {cipher}", settings.addresses, settings.mtu);
}

/// The settings that the server gave the client: those of the tunnel, and the cipher of the first session.
fn connect() -> (TunnelSettings, Cipher) {
    let (server_credentials, credentials) = support::credentials();
    let mut server = support::server(&server_credentials);

    // A client needs a control channel and at least one remote. It reads no clock and draws no randomness: both enter
    // here and with each call.
    let mut now = Instant::ORIGIN;
    let requirements = PeerRequirements { require_usage: true, ..PeerRequirements::default() };
    let tls = client_tls(&credentials, requirements, &support::environment()).unwrap();
    let control = ControlParams::new(WrapConfig::Plain, TlsConfig::Client(tls), UnixTime(support::WALL));
    let remote = RemoteParams::new("vpn.example.net".to_owned(), Transport::Udp);
    let mut client = Client::new(ClientParams::new(control, vec![remote]), now, [1; 32]);

    let (mut settings, mut cipher) = (None, None);
    while settings.is_none() || cipher.is_none() {
        let mut sent = Vec::new();
        // Events come before datagrams, so that keys are in place before the datagrams that announce them.
        let on_event = |client: &mut Client, event: Event| match event {
            // A driver resolves the remote and opens a socket.
            Event::Open { .. } => client.handle_command(now, Command::Opened { path: SERVER }),
            // A data plane installs the keys.
            Event::Data(DataEvent::Install(session)) => cipher = Some(session.codec.cipher),
            // A driver sets addresses and routes.
            Event::Up(up) => settings = Some(up),
            _ => {}
        };
        drive_with(&mut client, on_event, |_, datagram| sent.push(datagram.to_vec()));
        deliver(now, &sent, &mut server, CLIENT);
        let answers = support::run_server(&mut server);
        deliver(now, &answers, &mut client, SERVER);
        if sent.is_empty() && answers.is_empty() {
            now = client.poll_timeout().unwrap_or(now + Duration::from_secs(1));
            client.handle_timeout(now);
            server.handle_timeout(now);
        }
    }
    // The exit notice of the client ends its control channel at the server, too.
    client.handle_command(now, Command::Shutdown);
    drive_with(&mut client, |_, _| {}, |_, datagram| server.handle_datagram(now, CLIENT, datagram).unwrap());
    (settings.unwrap(), cipher.unwrap())
}

#[test]
fn the_client_gets_an_address_and_keys() {
    let (settings, cipher) = connect();
    assert_eq!(settings.addresses, ["10.8.0.2/24".parse().unwrap()]);
    assert_eq!(cipher, Cipher::Aes256Gcm);
}
