//! EAP-TLS as the only authentication of both ends (RFC 5998).

use super::authority::{Authority, Validity, certified, key};
use super::eap::{accepts, by_password};
use super::eap_tls::{accepts_certificates, by_certificate, tls};
use super::world::*;
use crate::machine::{BadParams, Connection, Endpoint, LocalProof, PeerIdentity};

/// Both ends with EAP-TLS alone. End B has a certificate with that name, of that authority.
fn both(root: &Authority, of_b: &Authority, name_of_b: &str) -> [Connection; 2] {
    [(A, "a.example", root), (B, name_of_b, of_b)].map(|(end, name, authority)| {
        let own = authority.issue(name, &key(), Validity::Now);
        let mut connection = certified(end, own.clone(), root.accepts(None));
        let credentials = tls(&own, &root.accepts(None));
        connection.remote_auth.proof = accepts_certificates(None, credentials.clone());
        connection.local_auth.proof = by_certificate(name, credentials);
        connection
    })
}

/// Both ends with good certificates.
pub(super) fn good() -> [Connection; 2] {
    let root = Authority::root("Root");
    both(&root, &root, "b.example")
}

fn run([a, b]: [Connection; 2]) -> World {
    let mut world = World::new(a, b);
    world.run(seconds(3));
    world
}

#[test]
fn eap_tls_alone_authenticates_both_ends() {
    let root = Authority::root("Root");
    let world = run(both(&root, &root, "b.example"));
    world.assert_settled("EAP-TLS alone");
    let peer = |end: usize| world.ends[end].sas.values().next().unwrap().peer_identity.clone();
    assert_eq!([peer(A), peer(B)], [Some(identity("b.example")), Some(identity("a.example"))]);
}

#[test]
fn the_responder_must_prove_by_eap_the_identity_that_it_says() {
    let root = Authority::root("Root");
    for (authority, name) in [(&root, "c.example"), (&Authority::root("Other"), "b.example")] {
        let world = run(both(&root, authority, name));
        assert_eq!((world.planes[A].ups, world.planes[B].ups), (0, 0), "{name}");
    }
    // A good certificate of an identity that is not expected.
    let [mut a, b] = both(&root, &root, "b.example");
    expect_peer(&mut a, "c.example");
    let mut other = b.clone();
    other.local_auth.identity = identity("c.example");
    for b in [b, other] {
        let world = run([a.clone(), b]);
        assert_eq!((world.planes[A].ups, world.planes[B].ups), (0, 0));
    }
    let [mut a, b] = both(&root, &root, "b.example");
    a.remote_auth.identity = PeerIdentity::Any;
    run([a, b]).assert_settled("any identity that a certificate has");
}

#[test]
fn an_initiator_that_wants_another_proof_is_refused_with_the_reason() {
    let root = Authority::root("Root");
    let [mut a, b] = both(&root, &root, "b.example");
    a.remote_auth.proof =
        certified(A, root.issue("x", &key(), Validity::Now), root.accepts(None)).remote_auth.proof;
    let world = run([a.clone(), b.clone()]);
    assert_eq!((world.planes[A].ups, world.planes[B].ups), (0, 0));
    let text = world.planes[B].reports.join("\n");
    assert!(text.contains("the initiator does not take EAP as the only proof of this end"), "{text}");
    // A connection with a certificate comes before one with EAP alone.
    let mut other = b.clone();
    other.name = "by certificate".to_owned();
    other.local_auth.proof = LocalProof::Certificate(root.issue("b.example", &key(), Validity::Now));
    other.remote_auth.identity =
        PeerIdentity::EndingWith { kind: identity("").kind, suffix: b".example".to_vec() };
    let mut eap_only = b;
    eap_only.remote_auth.identity = other.remote_auth.identity.clone();
    eap_only.local_auth.identity = other.local_auth.identity.clone();
    eap_only.remotes = vec![std::net::SocketAddr::new(address(A), 500)];
    let mut params_b = params(eap_only);
    params_b.connections.push(other);
    let mut world = World::with_params(params(a), params_b);
    world.run(seconds(3));
    assert_eq!(world.connection_of(B), Some(1), "{}", world.state());
}

/// A responder that proves itself by a certificate, too, is one that an initiator with EAP alone takes.
#[test]
fn an_initiator_with_eap_alone_takes_a_responder_with_a_certificate() {
    let root = Authority::root("Root");
    let [a, mut b] = both(&root, &root, "b.example");
    b.local_auth.proof = LocalProof::Certificate(root.issue("b.example", &key(), Validity::Now));
    run([a, b]).assert_settled("a certificate and EAP-TLS");
}

#[test]
fn passwords_are_no_proof_of_both_ends() {
    let root = Authority::root("Root");
    let [a, _] = both(&root, &root, "b.example");
    let mut by_name = a.clone();
    by_name.local_auth.proof = by_password("a.example", "secret");
    let mut users = a.clone();
    users.remote_auth.proof = accepts(Some(PeerIdentity::Any));
    let mut other = a;
    if let LocalProof::Eap(own) = &mut other.local_auth.proof {
        own.authenticator = Some(identity("aaa.example"));
    }
    for connection in [by_name, users, other] {
        let refused = Endpoint::new(params(connection), adit_core::Instant::ORIGIN, [0; 32]).err();
        assert!(matches!(refused, Some(BadParams::NotSupported { part, .. }) if part.contains("RFC 5998")));
    }
}
