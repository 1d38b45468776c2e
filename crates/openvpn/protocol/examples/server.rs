//! An OpenVPN server in memory: a client connects, is given an address, and both ends have the same data keys.
//!
//! ```text
//! cargo run -p adit-openvpn --example server
//! ```
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example shows errors by a panic")]

mod support;

use adit_core::{Instant, IpNet, PeerOrder, UnixTime, drive_with};
use adit_openvpn::codec::Codec;
use adit_openvpn::credentials::server_tls;
use adit_openvpn::params::{ControlParams, ServerParams};
use adit_openvpn::request::{DataEvent, Event};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{PeerRequirements, Server, TlsConfig};
use support::{CLIENT, SERVER, deliver};

fn main() {
    let (routes, codec, _) = serve();
    println!("a peer with the inner addresses {routes:?}, cipher {}", codec.cipher);
}

/// The inner addresses of the first peer, and the parameters of its session here and at the client.
fn serve() -> (Vec<IpNet>, Codec, Codec) {
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

    let (mut routes, mut codec, mut other) = (None, None, None);
    while routes.is_none() || codec.is_none() || other.is_none() {
        let sent = support::run_client(now, &mut client, &mut other);
        deliver(now, &sent, &mut server, CLIENT);
        let mut answers = Vec::new();
        let on_event = |_: &mut Server, event: Event| match event {
            // A data plane learns where the peer is and which inner addresses are its own …
            Event::Data(DataEvent::Peer(PeerOrder::Add(peer))) => routes = Some(peer.routes),
            // … and gets the keys of its session, with the cipher and the format.
            Event::Data(DataEvent::Install(session)) => codec = Some(session.codec),
            _ => {}
        };
        drive_with(&mut server, on_event, |_, datagram| answers.push(datagram.to_vec()));
        deliver(now, &answers, &mut client, SERVER);
    }
    (routes.unwrap(), codec.unwrap(), other.unwrap())
}

#[test]
fn both_ends_have_the_same_keys() {
    let (routes, codec, other) = serve();
    assert_eq!(routes, ["10.8.0.2/32".parse().unwrap()]);
    assert_eq!(codec.seal.key, other.open.key);
    assert_eq!(codec.open.key, other.seal.key);
}
