//! Authentication by certificates: good ones of each kind, and bad ones of each kind.

use adit_pki::signature::Sha1;
use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

use super::authority::{Authority, Validity, certified, key, key_of};
use super::world::*;
use crate::machine::{CertificatePolicy, Connection, LocalProof, PeerIdentity, RemoteProof};
use crate::wire::{AuthMethod, IdType, Identification, Message, Payload};

/// Both ends, with certificates of one authority.
fn both(root: &Authority) -> [Connection; 2] {
    [(A, "a.example"), (B, "b.example")]
        .map(|(end, name)| certified(end, root.issue(name, &key(), Validity::Now), root.accepts(None)))
}

fn run(a: Connection, b: Connection) -> World {
    let mut world = World::new(a, b);
    world.run(seconds(3));
    world
}

#[test]
fn certificates_of_each_kind_of_key_authenticate_both_ends() {
    let root = Authority::root("Root");
    for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
        let [a, b] = [(A, "a.example"), (B, "b.example")].map(|(end, name)| {
            certified(end, root.issue(name, &key_of(algorithm), Validity::Now), root.accepts(None))
        });
        let world = run(a, b);
        world.assert_settled(&format!("{algorithm:?}"));
    }
}

/// RSA keys sign by PSS and by PKCS #1 v1.5.
#[test]
fn an_rsa_certificate_authenticates() {
    let root = Authority::root("Root");
    let pem = include_str!("../../../../../pki/tests/data/private_key/rsa2048.key");
    let rsa = rcgen::KeyPair::from_pem(pem).expect("a key");
    let [mut a, b] = both(&root);
    a.local_auth.proof = LocalProof::Certificate(root.issue("a.example", &rsa, Validity::Now));
    run(a, b).assert_settled("with RSA");
}

#[test]
fn one_end_may_prove_by_a_certificate_and_the_other_by_a_key() {
    let root = Authority::root("Root");
    let [mut a, mut b] = [connection(A), connection(B)];
    let [certified_a, certified_b] = both(&root);
    b.local_auth = certified_b.local_auth;
    a.remote_auth = certified_a.remote_auth;
    run(a, b).assert_settled("with a certificate at one end");
}

/// RFC 4754: a responder that does not know RFC 7427 gets, and a peer without it sends, methods 9 to 11.
#[test]
fn without_rfc_7427_the_method_is_that_of_the_curve() {
    let root = Authority::root("Root");
    for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384] {
        let [mut a, mut b] = both(&root);
        a.local_auth.proof =
            LocalProof::Certificate(root.issue("a.example", &key_of(algorithm), Validity::Now));
        b.local_auth.proof =
            LocalProof::Certificate(root.issue("b.example", &key_of(algorithm), Validity::Now));
        let mut world = World::new(a, b);
        // The responder has answered the first request, and IKE_AUTH is on its way.
        world.run(std::time::Duration::from_millis(45));
        for sa in world.ends[B].sas.values_mut() {
            sa.peer_support.hashes = None;
        }
        world.run(seconds(3));
        world.assert_settled("by a method of RFC 4754");
    }
}

/// The connections of end A with a bad certificate, and the reason in the log of end B.
fn bad(root: &Authority) -> Vec<(&'static str, Connection)> {
    let own = |issuer: &Authority, name, validity| issuer.issue(name, &key(), validity);
    let with = |own| certified(A, own, root.accepts(None));
    let other = Authority::root("Other");
    let namesake = Authority::root("Root");
    let mut unsent = own(root, "a.example", Validity::Now);
    unsent.policy = CertificatePolicy::Never;
    let mut by_key = with(own(root, "a.example", Validity::Now));
    let expected = by_key.remote_auth.clone();
    set_key(&mut by_key, b"secret");
    by_key.remote_auth = expected;
    vec![
        ("not signed by a CA that is trusted", with(own(&other, "a.example", Validity::Now))),
        ("signature", with(own(&namesake, "a.example", Validity::Now))),
        ("expired", with(own(root, "a.example", Validity::Over))),
        ("not valid before", with(own(root, "a.example", Validity::Later))),
        ("does not have that name", with(own(root, "b.example", Validity::Now))),
        ("sends no certificate", with(unsent)),
        ("a certificate is expected", by_key),
    ]
}

#[test]
fn a_bad_certificate_is_refused_and_the_log_says_why() {
    let root = Authority::root("Root");
    for (reason, a) in bad(&root) {
        let [_, b] = both(&root);
        let world = run(a, b);
        assert_eq!((world.planes[A].ups, world.planes[B].ups), (0, 0), "{reason}");
        let [a, b] = [A, B].map(|end| world.planes[end].reports.join("\n"));
        assert!(a.contains("AUTHENTICATION_FAILED"), "{reason}: {a}");
        assert!(b.contains("did not prove its identity") && b.contains(reason), "{reason}: {b}");
    }
}

/// CVE-2015-4171: an initiator judges the responder before anything passes, and deletes the IKE SA if the certificate is bad.
#[test]
fn an_initiator_refuses_the_responders_bad_certificate() {
    let root = Authority::root("Root");
    let other = Authority::root("Other");
    let [a, mut b] = both(&root);
    b.local_auth.proof = LocalProof::Certificate(other.issue("b.example", &key(), Validity::Now));
    let world = run(a, b);
    assert_eq!(world.planes[A].ups, 0);
    let text = world.planes[A].reports.join("\n");
    assert!(text.contains("its proof or its identity (ID_FQDN b.example) is wrong"), "{text}");
    assert!(world.planes[A].sessions.is_empty() && world.planes[B].sessions.is_empty(), "{}", world.state());
}

#[test]
fn a_revoked_certificate_is_refused() {
    let root = Authority::root("Root");
    let [a, mut b] = both(&root);
    b.remote_auth.proof = RemoteProof::Certificate(root.accepts(Some(root.revokes_all())));
    let world = run(a, b);
    let text = world.planes[B].reports.join("\n");
    assert!(world.planes[B].ups == 0 && text.contains("was revoked"), "{text}");
}

/// CVE-2020-16088 of OpenIKED, CVE-2022-4967: the certificate of one peer, with the proof of another peer's key.
#[test]
fn a_certificate_without_its_key_proves_nothing() {
    let root = Authority::root("Root");
    let [a, b] = both(&root);
    let LocalProof::Certificate(own) = &a.local_auth.proof else { panic!("a certificate") };
    let stolen = own.key.certificate().to_vec();
    let mut thief = a.clone();
    thief.local_auth.proof = LocalProof::Certificate(root.issue("a.example", &key(), Validity::Now));
    let mut world = World::new(thief, b);
    world.run(std::time::Duration::from_millis(45));
    // End B judges the stolen certificate with the proof that the thief made.
    let auth = world.log.last().unwrap().clone();
    let payloads = opened(&world, &auth);
    let forged = payloads.into_iter().map(|payload| match payload {
        Payload::Certificate(certificate) => {
            Payload::Certificate(crate::wire::Certificate { data: stolen.clone(), ..certificate })
        }
        other => other,
    });
    let forged: Vec<_> = forged.collect();
    resend(&mut world, &forged);
    world.run(seconds(3));
    let text = world.planes[B].reports.join("\n");
    assert!(world.planes[B].ups == 0 && text.contains("did not prove its identity"), "{text}");
}

/// The payloads of the pending message of end A.
pub(super) fn opened(world: &World, datagram: &Datagram) -> Vec<Payload> {
    let sa = world.ends[B].sas.values().next().unwrap();
    let message = Message::decode(&datagram.bytes).unwrap();
    let sealed = message.sealed.unwrap();
    let plain = sa.channel.as_ref().unwrap().open.open(&datagram.bytes, &sealed).unwrap();
    crate::wire::decode_chain(sealed.first, &plain).unwrap()
}

/// End A sends these payloads in place of its pending request.
pub(super) fn resend(world: &mut World, payloads: &[Payload]) {
    world.forget_datagrams();
    let spi = *world.ends[A].sas.keys().next().unwrap();
    world.ends[A].with_sa(spi, |sa, cx| {
        let request = sa.pending.take().map(|pending| pending.request).expect("a request");
        sa.request(cx, crate::wire::ExchangeType::IKE_AUTH, payloads, request);
    });
    world.notify(A, adit_core::Notice::Wanted { peer: PEER, flow: ANY_FLOW });
}

#[test]
fn a_chain_is_sent_with_the_certificate() {
    let root = Authority::root("Root");
    let middle = root.below("Middle");
    for is_sent in [true, false] {
        let [mut a, b] = both(&root);
        let mut own = middle.issue("a.example", &key(), Validity::Now);
        own.chain = if is_sent { vec![middle.certificate.clone()] } else { Vec::new() };
        a.local_auth.proof = LocalProof::Certificate(own);
        assert_eq!(run(a, b).is_settled(), is_sent);
    }
}

#[test]
fn a_certificate_that_the_peer_has_need_not_be_sent() {
    let root = Authority::root("Root");
    let [mut a, mut b] = both(&root);
    let mut own = root.issue("a.example", &key(), Validity::Now);
    own.policy = CertificatePolicy::Never;
    let mut accepted = root.accepts(None);
    accepted.known = vec![own.key.certificate().clone()];
    a.local_auth.proof = LocalProof::Certificate(own);
    b.remote_auth.proof = RemoteProof::Certificate(accepted);
    run(a, b).assert_settled("with a certificate that end B has");
}

#[test]
fn certificates_are_sent_when_they_are_asked_for() {
    let root = Authority::root("Root");
    for asks in [true, false] {
        let mut ends = both(&root);
        for connection in &mut ends {
            let LocalProof::Certificate(own) = &mut connection.local_auth.proof else {
                panic!("a certificate")
            };
            own.policy = CertificatePolicy::IfAsked;
            let RemoteProof::Certificate(accepted) = &mut connection.remote_auth.proof else { panic!() };
            if !asks {
                accepted.requested.clear();
            }
        }
        let [a, b] = ends;
        assert_eq!(run(a, b).is_settled(), asks);
    }
}

#[test]
fn the_identity_is_bound_to_the_certificate() {
    let root = Authority::root("Root");
    let accepts = |expected: PeerIdentity, claimed: Identification| {
        let [mut a, mut b] = both(&root);
        a.local_auth.identity = claimed;
        b.remote_auth.identity = expected;
        run(a, b).is_settled()
    };
    let ending =
        |suffix: &str| PeerIdentity::EndingWith { kind: IdType::FQDN, suffix: suffix.as_bytes().to_vec() };
    assert!(accepts(PeerIdentity::Any, identity("A.example")), "the case of letters makes no difference");
    assert!(accepts(ending(".example"), identity("a.example")));
    assert!(!accepts(ending(".example.org"), identity("a.example")));
    assert!(!accepts(PeerIdentity::Any, identity("c.example")), "a name that is not in the certificate");
    assert!(!accepts(
        PeerIdentity::Any,
        Identification { kind: IdType::KEY_ID, data: b"a.example".to_vec() }
    ));
}

#[test]
fn a_certificate_does_not_authenticate_by_the_method_of_another_kind() {
    let root = Authority::root("Root");
    let [a, mut b] = both(&root);
    let RemoteProof::Certificate(accepted) = &mut b.remote_auth.proof else { panic!("certificates") };
    accepted.sha1 = Sha1::Accepted;
    let mut world = World::new(a, b);
    world.run(std::time::Duration::from_millis(45));
    let auth = world.log.last().unwrap().clone();
    let payloads: Vec<Payload> = opened(&world, &auth)
        .into_iter()
        .map(|payload| match payload {
            Payload::Authentication(mut proof) => {
                proof.method = AuthMethod::RSA_SIGNATURE;
                Payload::Authentication(proof)
            }
            other => other,
        })
        .collect();
    resend(&mut world, &payloads);
    world.run(seconds(2));
    assert_eq!(world.planes[B].ups, 0);
    assert!(world.planes[B].reports.join("\n").contains("did not prove its identity"));
}

/// Certificates of another peer of the same authority do not open the connection of a peer that has a pre-shared key.
#[test]
fn each_peer_proves_by_the_method_of_its_connection() {
    let root = Authority::root("Root");
    let [a, _] = both(&root);
    let world = run(a, connection(B));
    let text = world.planes[B].reports.join("\n");
    assert!(world.planes[B].ups == 0 && text.contains("a pre-shared key is expected"), "{text}");
    let [_, b] = both(&root);
    let world = run(connection(A), b);
    let text = world.planes[B].reports.join("\n");
    let reason = "it proves by a pre-shared key, and a certificate is expected";
    assert!(world.planes[B].ups == 0 && text.contains(reason), "{text}");
}

/// An end that cannot sign by what the peer verifies logs the reason, and sends AUTHENTICATION_FAILED.
#[test]
fn a_key_whose_signatures_the_peer_does_not_verify_is_named_in_the_log() {
    let root = Authority::root("Root");
    let [a, mut b] = both(&root);
    b.local_auth.proof =
        LocalProof::Certificate(root.issue("b.example", &key_of(&PKCS_ED25519), Validity::Now));
    let mut world = World::new(a, b);
    world.run(std::time::Duration::from_millis(45));
    for sa in world.ends[B].sas.values_mut() {
        sa.peer_support.hashes = None;
    }
    world.run(seconds(3));
    let [a, b] = [A, B].map(|end| world.planes[end].reports.join("\n"));
    assert!(
        b.contains("this end cannot prove its identity") && a.contains("AUTHENTICATION_FAILED"),
        "{a}\n{b}"
    );
}
