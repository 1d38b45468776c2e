//! An OpenVPN server in memory: a client connects, is given an address, and both ends have the same data keys.
//!
//! ```text
//! cargo run -p adit-openvpn --example server
//! ```
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example shows errors by a panic")]

mod support;

use adit_core::{DataEvent, Event, Instant, IpNet, Protocol as _, UnixTime};
use adit_openvpn::credentials::server_tls;
use adit_openvpn::params::{ControlParams, ServerParams};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{PeerRequirements, Server, TlsConfig};
use support::{CLIENT, Keys, SERVER, carry};

fn main() {
    let (routes, keys, _) = serve();
    println!("a peer with the inner addresses {routes:?}, cipher {}", keys.cipher);
}

/// The inner addresses of the first peer, the keys of its session, and the client's keys.
fn serve() -> (Vec<IpNet>, Keys, Keys) {
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

    let (mut routes, mut keys, mut other) = (None, None, None);
    while routes.is_none() || keys.is_none() || other.is_none() {
        other = other.or(support::serve_client(now, &mut client));
        carry(now, &mut client, &mut server, CLIENT);
        while let Some(event) = server.poll_event() {
            match event {
                // A data plane learns where the peer is and which inner addresses are its own …
                Event::Data(DataEvent::AddPeer(peer)) => routes = Some(peer.routes),
                // … and gets the keys of its session.
                Event::Data(DataEvent::Install(session)) => {
                    keys =
                        Some(Keys { cipher: session.cipher, seal: session.seal.key, open: session.open.key });
                }
                _ => {}
            }
        }
        carry(now, &mut server, &mut client, SERVER);
    }
    (routes.unwrap(), keys.unwrap(), other.unwrap())
}

#[test]
fn both_ends_have_the_same_keys() {
    let (routes, keys, other) = serve();
    assert_eq!(routes, ["10.8.0.2/32".parse().unwrap()]);
    assert_eq!(keys.seal, other.open);
    assert_eq!(keys.open, other.seal);
}
