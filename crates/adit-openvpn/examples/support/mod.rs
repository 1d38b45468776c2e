//! What both examples need: certificates, and the end that the example is not about.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each example uses its part, and shows errors by a panic"
)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use adit_core::{Cipher, Command, DataEvent, Event, Instant, Path, Protocol, Transport, UnixTime};
use adit_openvpn::credentials::{Credentials, TlsEnvironment, client_tls, server_tls};
use adit_openvpn::params::{ClientParams, ControlParams, RemoteParams, ServerParams};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{Client, PeerRequirements, Server, TlsConfig};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::time_provider::DefaultTimeProvider;
use zeroize::Zeroizing;

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

/// The keys of a session, which an end gives its data plane.
pub struct Keys {
    pub cipher: Cipher,
    pub seal: Zeroizing<Vec<u8>>,
    pub open: Zeroizing<Vec<u8>>,
}

/// Serves a client's events: opens what it asks for, and gives the keys of the session that it installs.
pub fn serve_client(now: Instant, client: &mut Client) -> Option<Keys> {
    let mut keys = None;
    while let Some(event) = client.poll_event() {
        match event {
            Event::Open { .. } => client.handle_command(now, Command::Opened { path: SERVER }),
            Event::Data(DataEvent::Install(session)) => {
                keys = Some(Keys { cipher: session.cipher, seal: session.seal.key, open: session.open.key });
            }
            _ => {}
        }
    }
    keys
}

/// Takes a server's events, of which the example needs none.
pub fn serve_server(server: &mut Server) {
    while server.poll_event().is_some() {}
}

/// Takes all datagrams that an end has to send to the other, which sees them come from `source`.
pub fn carry(now: Instant, from: &mut impl Protocol, to: &mut impl Protocol, source: Path) -> usize {
    let (mut datagram, mut carried) = (Vec::new(), 0);
    while from.poll_transmit(&mut datagram).is_some() {
        to.handle_datagram(now, source, &datagram).unwrap();
        datagram.clear();
        carried += 1;
    }
    carried
}
