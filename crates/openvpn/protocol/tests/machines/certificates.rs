//! The certificates that a peer must have, and the offer in the first message of TLS.
use adit_core::{Protocol as _, Transport};
use adit_openvpn::credentials::{self, Credentials, TlsEnvironment, restrict_to_suite_b};
use adit_openvpn::request::Event;
use adit_openvpn::testing::{Authority, Pair, client_params, environment, server_params};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{PeerRequirements, TlsConfig};
use adit_pki::{NameCheck, NameField, NameFields};
use rcgen::ExtendedKeyUsagePurpose::{self, ClientAuth, ServerAuth};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose, SanType};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha1::Sha1;
use sha2::{Digest, Sha256};

const UID: &str = "0.9.2342.19200300.100.1.1";

/// A server that asks this of its client, whose certificate is `client`.
fn meet(authority: &Authority, client: &Credentials, wanted: PeerRequirements) -> Pair {
    meet_with(authority, client, wanted, |_| {})
}

fn meet_with(
    authority: &Authority,
    client: &Credentials,
    wanted: PeerRequirements,
    change: impl Fn(&mut Credentials),
) -> Pair {
    let mut identity = authority.issue("server", ServerAuth);
    let mut params = server_params(&identity, WrapConfig::Plain);
    params.control.name_fields = wanted.name_fields.clone();
    change(&mut identity);
    let tls = credentials::server_tls(&identity, wanted, &environment()).unwrap();
    params.control.tls = TlsConfig::Server(tls);
    let client = Credentials { ca: identity_authority(authority), ..client.clone() };
    Pair::new(client_params(&client, WrapConfig::Plain, Transport::Udp), params)
}

fn identity_authority(authority: &Authority) -> Vec<u8> {
    authority.issue("any", ClientAuth).ca
}

fn der(pem: &[u8]) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem).unwrap()
}

fn told(events: &[Event], words: &str) -> bool {
    events.iter().any(|event| matches!(event, Event::Report(report) if report.text.contains(words)))
}

/// As a person would make it for a setup without authorities: signed by itself, and an authority by its looks.
fn self_signed(name: &str) -> Credentials {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    Credentials {
        ca: Vec::new(),
        certificate: params.self_signed(&key).unwrap().pem().into_bytes(),
        private_key: key.serialize_pem().into_bytes().into(),
    }
}

fn sha256(credentials: &Credentials) -> Vec<u8> {
    Sha256::digest(der(&credentials.certificate)).to_vec()
}

#[test]
fn a_fingerprint_does_without_an_authority() {
    let authority = Authority::new();
    let client = self_signed("client");
    let wanted = |hash| PeerRequirements { fingerprints: vec![vec![7; 32], hash], ..Default::default() };
    let no_ca = |identity: &mut Credentials| identity.ca.clear();
    assert!(meet_with(&authority, &client, wanted(sha256(&client)), no_ca).is_up());
    // Another certificate with the same name and of the same authority.
    let pair = meet_with(&authority, &self_signed("client"), wanted(sha256(&client)), no_ca);
    assert!(!pair.is_up() && told(&pair.server_events, "none of those in peer-fingerprint"));
    // With an authority, both must be right.
    let pair = meet(&authority, &client, wanted(sha256(&client)));
    assert!(!pair.is_up());
    let known = authority.issue("client", ClientAuth);
    assert!(meet(&authority, &known, wanted(sha256(&known))).is_up());
    assert!(!meet(&authority, &known, wanted(vec![8; 32])).is_up());
}

#[test]
fn without_authority_and_fingerprint_nobody_is_trusted() {
    let nobody = self_signed("client");
    assert!(credentials::server_tls(&nobody, PeerRequirements::default(), &environment()).is_err());
}

#[test]
fn the_issuers_fingerprint() {
    let authority = Authority::new();
    let client = authority.issue("client", ClientAuth);
    let issuer = der(&client.ca);
    let wanted = |hash| PeerRequirements { issuer_fingerprints: vec![hash], ..Default::default() };
    assert!(meet(&authority, &client, wanted(Sha256::digest(&issuer).to_vec())).is_up());
    assert!(meet(&authority, &client, wanted(Sha1::digest(&issuer).to_vec())).is_up());
    let pair = meet(&authority, &client, wanted(sha256(&client)));
    assert!(!pair.is_up() && told(&pair.server_events, "verify-hash"));
}

fn client_with(authority: &Authority, change: impl Fn(&mut CertificateParams)) -> Credentials {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "client");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ClientAuth, ExtendedKeyUsagePurpose::Other(vec![1, 2, 3, 4])];
    change(&mut params);
    authority.sign(params)
}

#[test]
fn key_usages() {
    let authority = Authority::new();
    let client = client_with(&authority, |_| {});
    let wanted = |bits: &[u16]| PeerRequirements { key_usages: Some(bits.to_vec()), ..Default::default() };
    for (bits, good) in [(&[][..], true), (&[0xa0], true), (&[0x08, 0x80], true), (&[0x08], false)] {
        assert_eq!(meet(&authority, &client, wanted(bits)).is_up(), good, "{bits:x?}");
    }
    let bare = client_with(&authority, |params| params.key_usages.clear());
    let pair = meet(&authority, &bare, wanted(&[]));
    assert!(!pair.is_up() && told(&pair.server_events, "remote-cert-ku"));
    let wanted = |oid: &str| PeerRequirements { extended_usage: Some(oid.to_owned()), ..Default::default() };
    assert!(meet(&authority, &client, wanted("1.2.3.4")).is_up());
    let pair = meet(&authority, &client, wanted("1.3.6.1.5.5.7.3.3"));
    assert!(!pair.is_up() && told(&pair.server_events, "1.3.6.1.5.5.7.3.2, 1.2.3.4"));
}

#[test]
fn a_nul_in_a_name_is_no_way_in() {
    let authority = Authority::new();
    let client = client_with(&authority, |params| {
        params.distinguished_name.push(DnType::OrganizationName, "Example\0.evil");
    });
    let pair = meet(&authority, &client, PeerRequirements::default());
    assert!(!pair.is_up() && told(&pair.server_events, "NUL"));
    // Outside the subject it matters where the name is taken from.
    let client = client_with(&authority, |params| {
        params.subject_alt_names = vec![SanType::Rfc822Name("ann@example.org\0.evil".try_into().unwrap())];
    });
    assert_eq!(known_as(&meet(&authority, &client, PeerRequirements::default())).as_deref(), Some("client"));
    let wanted = PeerRequirements {
        name_fields: NameFields::new(vec![NameField::SubjectEmail]),
        ..Default::default()
    };
    assert!(!meet(&authority, &client, wanted).is_up());
}

/// The name by which the server knows its client.
fn known_as(pair: &Pair) -> Option<String> {
    pair.server.peers().first().map(|(_, peer)| peer.name.clone())
}

#[test]
fn names_from_other_fields() {
    let authority = Authority::new();
    let client = client_with(&authority, |params| {
        params.distinguished_name.push(DnType::CustomDnType(vec![0, 9, 2342, 19_200_300, 100, 1, 1]), "ann");
        params.distinguished_name.push(DnType::OrganizationalUnitName, "sales");
        params.subject_alt_names = vec![SanType::Rfc822Name("ann@example.org".try_into().unwrap())];
        params.serial_number = Some(rcgen::SerialNumber::from_slice(&[0x0a, 0xbc]));
    });
    let subject = |oid: &str| NameField::Subject(oid.to_owned());
    let cases = [
        (vec![], Some("client")),
        (vec![subject(UID)], Some("ann")),
        (vec![NameField::SubjectEmail], Some("ann@example.org")),
        (vec![NameField::Serial], Some("0xABC")),
        (vec![subject(UID), subject("2.5.4.11")], Some("ann_sales")),
        (vec![subject("2.5.4.12")], None),
        (vec![NameField::IssuerEmail], None),
    ];
    for (fields, name) in cases {
        let name_fields = NameFields::new(fields);
        let check = name.map(|name| NameCheck::CommonName(name.to_owned()));
        let wanted = PeerRequirements { name_fields, name: check, ..Default::default() };
        let pair = meet(&authority, &client, wanted.clone());
        assert_eq!(known_as(&pair).as_deref(), name, "{wanted:?}");
    }
    // The name of one field is not taken from another.
    let wanted = PeerRequirements {
        name_fields: NameFields::new(vec![subject(UID)]),
        name: Some(NameCheck::CommonName("client".to_owned())),
        ..Default::default()
    };
    assert!(!meet(&authority, &client, wanted).is_up());
}

#[test]
fn the_subject_as_openvpn_prints_it() {
    let authority = Authority::new();
    let client = client_with(&authority, |params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CountryName, "DE");
        params.distinguished_name.push(DnType::OrganizationName, "Ex\\ämple, \u{1}Inc");
        params.distinguished_name.push(DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]), "a@b.c");
        params.distinguished_name.push(DnType::CommonName, "client");
    });
    let subject = r"C=DE, O=Ex\\ämple, \01Inc, emailAddress=a@b.c, CN=client";
    let wanted = |text: &str| PeerRequirements {
        name: Some(NameCheck::Subject(text.to_owned())),
        ..PeerRequirements::default()
    };
    let pair = meet(&authority, &client, wanted(subject));
    assert!(pair.is_up(), "{:?}", pair.server_events);
    assert!(!meet(&authority, &client, wanted("CN=client")).is_up());
}

/// The body of an extension of a ClientHello that is the first record of `bytes` (RFC 8446 §4.1.2).
fn extension(bytes: &[u8], wanted: u16) -> Vec<u8> {
    let number = |at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    // Record header, handshake header, version, random; then session id, suites and compressions.
    let mut at = 5 + 4 + 2 + 32;
    at += 1 + usize::from(bytes[at]);
    at += 2 + number(at);
    at += 1 + usize::from(bytes[at]);
    let end = at + 2 + number(at);
    at += 2;
    while at < end {
        let (kind, length) = (number(at), number(at + 2));
        if kind == usize::from(wanted) {
            return bytes[at + 4..at + 4 + length].to_vec();
        }
        at += 4 + length;
    }
    panic!("no extension {wanted}");
}

/// The first flight of a client with this environment.
fn client_hello(environment: &TlsEnvironment) -> Vec<u8> {
    let client = Authority::new().issue("client", ClientAuth);
    let config = credentials::client_tls(&client, PeerRequirements::default(), environment).unwrap();
    let name = rustls::pki_types::ServerName::try_from("openvpn.invalid").unwrap();
    let mut connection = rustls::ClientConnection::new(config, name).unwrap();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    bytes
}

fn pairs(list: &[u8]) -> Vec<u16> {
    list.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect()
}

/// draft-ietf-tls-ecdhe-mlkem: X25519MLKEM768 is 0x11ec.
#[test]
fn post_quantum_key_exchange_is_offered_first() {
    let hello = client_hello(&environment());
    let groups = pairs(&extension(&hello, 10)[2..]);
    assert_eq!(groups[..4], [0x11ec, 0x001d, 0x0017, 0x0018]);
    let shares = &extension(&hello, 51)[2..];
    let first = usize::from(u16::from_be_bytes([shares[2], shares[3]]));
    assert_eq!(pairs(&shares[..2]), [0x11ec]);
    assert_eq!(pairs(&shares[4 + first..6 + first]), [0x001d], "the fallback costs no further round trip");
}

#[test]
fn suite_b_offers_nothing_else() {
    let mut environment = environment();
    let mut provider = credentials::provider();
    restrict_to_suite_b(&mut provider);
    environment.provider = provider.into();
    let hello = client_hello(&environment);
    assert_eq!(pairs(&extension(&hello, 10)[2..]), [0x0017, 0x0018]);
    assert_eq!(pairs(&extension(&hello, 13)[2..]), [0x0503, 0x0403]);
}
