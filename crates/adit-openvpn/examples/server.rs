//! An OpenVPN server in memory: a client connects, is given an address, and both ends have the same data keys.
//!
//! ```text
//! cargo run -p adit-openvpn --example server
//! ```
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example shows errors by a panic")]

mod support;

use adit_core::{DataEvent, Event, Install, Instant, PeerConfig, Protocol as _, UnixTime};
use adit_openvpn::credentials::server_tls;
use adit_openvpn::params::{ControlParams, ServerParams};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{PeerRequirements, Server, TlsConfig};
use support::{CLIENT, SERVER, carry};

fn main() {
    let (peer, session, _) = serve();
    println!("peer {:?}: routes {:?}, cipher {}", peer.peer, peer.routes, session.cipher);
}

/// The first peer, its session, and the same session at the client.
fn serve() -> (PeerConfig, Install, Install) {
    let (credentials, client_credentials) = support::credentials();
    let mut client = support::client(&client_credentials);

    let now = Instant::ORIGIN;
    let requirements = PeerRequirements { require_usage: true, ..PeerRequirements::default() };
    let tls = server_tls(&credentials, requirements, &support::environment()).unwrap();
    let control = ControlParams::new(WrapConfig::Plain, TlsConfig::Server(tls), UnixTime(support::WALL));
    let params = ServerParams {
        address4: Some("10.8.0.1/24".parse().unwrap()),
        pool4: Some(("10.8.0.2".parse().unwrap(), "10.8.0.254".parse().unwrap())),
        push: vec!["topology subnet".to_owned(), "route-gateway 10.8.0.1".to_owned()],
        ..ServerParams::new(control)
    };
    let mut server = Server::new(params, now, [2; 32]);

    let (mut peer, mut session, mut other) = (None, None, None);
    while peer.is_none() || session.is_none() || other.is_none() {
        other = other.or(support::events(now, &mut client));
        carry(now, &mut client, &mut server, CLIENT);
        while let Some(event) = server.poll_event() {
            match event {
                // A data plane learns where the peer is and which inner addresses are its own …
                Event::Data(DataEvent::AddPeer(config)) => peer = Some(config),
                // … and gets the keys of its session.
                Event::Data(DataEvent::Install(install)) => session = Some(*install),
                Event::PeerUp { info, .. } => println!("{} is up", info.name),
                _ => {}
            }
        }
        carry(now, &mut server, &mut client, SERVER);
    }
    (peer.unwrap(), session.unwrap(), other.unwrap())
}

#[test]
fn both_ends_have_the_same_keys() {
    let (peer, session, other) = serve();
    assert_eq!(peer.routes, ["10.8.0.2/32".parse().unwrap()]);
    assert_eq!(session.seal.key, other.open.key);
    assert_eq!(session.open.key, other.seal.key);
}
