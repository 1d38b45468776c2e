//! The parts that both examples need: certificates, and the end that the example is not about.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each example uses its part, and shows errors by a panic"
)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use adit_core::{Command, Instant, Path, Protocol, Transport, UnixTime, drive_with};
use adit_openvpn::codec::Codec;
use adit_openvpn::credentials::{Credentials, TlsEnvironment, client_tls, server_tls};
use adit_openvpn::params::{ClientParams, ControlParams, RemoteParams, ServerParams};
use adit_openvpn::request::{DataEvent, Event};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{Client, PeerRequirements, Server, TlsConfig};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::time_provider::DefaultTimeProvider;

/// The clock by which certificates are valid or not.
pub fn environment() -> TlsEnvironment {
    TlsEnvironment::new(Arc::new(DefaultTimeProvider))
}

/// Credentials of a server and of a client, signed by a new authority.
pub fn credentials() -> (Credentials, Credentials) {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name.push(DnType::CommonName, "authority");
    let ca_key = KeyPair::generate().unwrap();
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let issue = |name: &str, usage| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &Issuer::from_params(&ca, &ca_key)).unwrap();
        Credentials {
            ca: ca_pem.clone().into_bytes(),
            certificate: certificate.pem().into_bytes(),
            private_key: key.serialize_pem().into_bytes().into(),
        }
    };
    (
        issue("server", ExtendedKeyUsagePurpose::ServerAuth),
        issue("laptop", ExtendedKeyUsagePurpose::ClientAuth),
    )
}

/// Wall clock at the origin, which stamps wrapped control packets: 2026-01-01.
pub const WALL: u64 = 1_767_225_600;
/// Where the server sees the client.
pub const CLIENT: Path = path([192, 0, 2, 2], 40_000);
/// Where the client sees the server.
pub const SERVER: Path = path([192, 0, 2, 1], 1194);

const fn path(remote: [u8; 4], port: u16) -> Path {
    let [a, b, c, d] = remote;
    Path::Udp { socket: 0, remote: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port) }
}

/// A server with two addresses to give.
pub fn server(credentials: &Credentials) -> Server {
    let tls = server_tls(credentials, PeerRequirements::default(), &environment()).unwrap();
    let control = ControlParams::new(WrapConfig::Plain, TlsConfig::Server(tls), UnixTime(WALL));
    let params = ServerParams {
        address4: Some("10.8.0.1/24".parse().unwrap()),
        pool4: Some(("10.8.0.2".parse().unwrap(), "10.8.0.3".parse().unwrap())),
        push: vec!["topology subnet".to_owned()],
        ..ServerParams::new(control)
    };
    Server::new(params, Instant::ORIGIN, [2; 32])
}

/// A client of one server.
pub fn client(credentials: &Credentials) -> Client {
    let tls = client_tls(credentials, PeerRequirements::default(), &environment()).unwrap();
    let control = ControlParams::new(WrapConfig::Plain, TlsConfig::Client(tls), UnixTime(WALL));
    let remote = RemoteParams::new("vpn.example.net".to_owned(), Transport::Udp);
    Client::new(ClientParams::new(control, vec![remote]), Instant::ORIGIN, [1; 32])
}

/// Carries out what a client asks for: opens its remote, and keeps the parameters of the session that it installs. Gives
/// the datagrams that it sends.
pub fn run_client(now: Instant, client: &mut Client, codec: &mut Option<Codec>) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    let on_event = |client: &mut Client, event: Event| match event {
        Event::Open { .. } => client.handle_command(now, Command::Opened { path: SERVER }),
        Event::Data(DataEvent::Install(session)) => *codec = Some(session.codec),
        _ => {}
    };
    drive_with(client, on_event, |_, datagram| datagrams.push(datagram.to_vec()));
    datagrams
}

/// Takes a server's events, of which the example needs none, and gives the datagrams that it sends.
pub fn run_server(server: &mut Server) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    drive_with(server, |_, _| {}, |_, datagram| datagrams.push(datagram.to_vec()));
    datagrams
}

/// Gives an end the datagrams of the other, which it sees come from `source`.
pub fn deliver(now: Instant, datagrams: &[Vec<u8>], to: &mut impl Protocol, source: Path) {
    for datagram in datagrams {
        to.handle_datagram(now, source, datagram).unwrap();
    }
}
