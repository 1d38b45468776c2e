//! Authentication of the initiator by EAP, after that of the responder by a certificate.

use std::sync::Arc;
use std::time::Duration;

use adit_core::{Protocol as _, Rejected};

use super::authority::{Authority, Validity, certified, key};
use super::world::*;
use crate::eap::{Credentials, NtHash, Users};
use crate::machine::sa::{Phase, Request};
use crate::machine::{
    BadParams, Connection, EapUsers, Endpoint, LocalProof, PeerIdentity, Ppk, RemoteProof, SharedKey,
};
use crate::wire::{
    AuthMethod, Authentication, Delete, Eap, EapCode, ExchangeType, IdType, Identification, Payload,
    ProtocolId,
};

/// Both ends: end A with a name and a password, end B with a certificate.
pub(super) fn both(name: &str, password: &str) -> [Connection; 2] {
    let root = Authority::root("Root");
    let [mut a, mut b] = [(A, "a.example"), (B, "b.example")]
        .map(|(end, name)| certified(end, root.issue(name, &key(), Validity::Now), root.accepts(None)));
    a.local_auth.proof = by_password(name, password);
    b.remote_auth.identity = PeerIdentity::Any;
    b.remote_auth.proof = accepts(Some(PeerIdentity::Any));
    [a, b]
}

/// A name and a password.
pub(super) fn by_password(name: &str, password: &str) -> LocalProof {
    let password = Some(NtHash::of_password(password));
    LocalProof::Eap(Credentials { name: name.into(), password, tls: None, authenticator: None })
}

/// The users of end B, with the EAP identities that it accepts.
pub(super) fn accepts(names: Option<PeerIdentity>) -> RemoteProof {
    let mut users = Users::default();
    for (name, password) in [("alice", "secret"), ("bob@example.org", "other"), ("a.example", "third")] {
        users.add(name, NtHash::of_password(password));
    }
    RemoteProof::Eap(EapUsers { names, users: Some(Arc::new(users)), tls: None })
}

fn run([a, b]: [Connection; 2]) -> World {
    let mut world = World::new(a, b);
    world.run(seconds(3));
    world
}

fn mail(name: &str) -> Identification {
    Identification { kind: IdType::RFC822_ADDR, data: name.as_bytes().to_vec() }
}

#[test]
fn a_password_authenticates_the_initiator_and_the_tunnel_knows_the_eap_identity() {
    for (name, password, known) in [
        ("alice", "secret", identity("alice")),
        (r"DOMAIN\Alice", "secret", identity("alice")),
        ("bob@example.org", "other", mail("bob@example.org")),
    ] {
        let world = run(both(name, password));
        world.assert_settled(name);
        let peer = |end: usize| world.ends[end].sas.values().next().unwrap().peer_identity.clone();
        assert_eq!((peer(B), peer(A)), (Some(known), Some(identity("b.example"))));
        let of_ike = |end: usize| world.ends[end].peers()[0].1.detail.ike_identity.clone();
        assert_eq!((of_ike(B), of_ike(A)), (Some(identity("a.example")), None));
    }
}

#[test]
fn a_password_with_additional_key_exchanges_and_lost_messages_authenticates() {
    let mut ends = both("alice", "secret");
    for connection in &mut ends {
        connection.ike = crate::suite::ike_proposals("aes256gcm16-prfsha256-x25519-ke1_mlkem768").unwrap();
    }
    let [a, b] = ends;
    let mut world = World::new(a, b);
    let mut sent = 0;
    world.network = Box::new(move |_, _| {
        sent += 1;
        if sent % 3 == 2 { vec![] } else { vec![Duration::from_millis(5)] }
    });
    world.run(seconds(60));
    world.assert_settled("with losses");
}

#[test]
fn a_wrong_password_an_unknown_name_and_an_empty_password_are_refused() {
    for (name, password) in [("alice", "Secret"), ("alice", ""), ("carol", "secret"), ("carol", "")] {
        let world = run(both(name, password));
        assert_eq!((world.planes[A].ups, world.planes[B].ups), (0, 0), "{name}");
        let [a, b] = [A, B].map(|end| world.planes[end].reports.join("\n"));
        assert!(a.contains("error 691"), "{name}: {a}");
        let line = format!(
            "ID_FQDN a.example did not prove its name by EAP: {name}: the name or the password is wrong"
        );
        assert_eq!(b.matches(&line).count(), 1, "{name}: {b}");
        assert_eq!(b.matches("did not prove").count(), 1, "{name}: {b}");
        assert!(!b.contains(&format!("{password}\"")) && world.planes[B].sessions.is_empty());
    }
}

/// strongSwan sends no answer to the refusal of its password.
#[test]
fn a_wrong_password_is_in_the_log_even_if_the_peer_goes_away() {
    let [a, b] = both("alice", "guess");
    let mut world = World::new(a, b);
    // The first two messages, the name and the response of the method.
    let mut of_a = 0;
    world.network = Box::new(move |_, datagram| {
        of_a += usize::from(datagram.to == B);
        if datagram.to == B && of_a > 4 { vec![] } else { vec![Duration::from_millis(1)] }
    });
    world.run(seconds(1));
    let text = world.planes[B].reports.join("\n");
    assert!(text.contains("alice: the name or the password is wrong"), "{text}");
}

#[test]
fn without_eap_id_the_identity_of_ike_is_the_name() {
    let with = |name: &str, password: &str| {
        let [a, mut b] = both(name, password);
        b.remote_auth.proof = accepts(None);
        run([a, b])
    };
    let world = with("a.example", "third");
    world.assert_settled("the identity of IKE");
    assert_eq!(world.ends[B].peers()[0].1.detail.ike_identity, None, "it has no other one");
    // CVE-2022-4967: a good password of another name than the identity.
    assert_eq!(with("alice", "secret").planes[B].ups, 0);
}

#[test]
fn the_eap_identity_chooses_the_connection() {
    let root = Authority::root("Root");
    let own = root.issue("b.example", &key(), Validity::Now);
    let with = |name: &str, names| {
        let mut connection = both("", "")[B].clone();
        connection.name = name.to_owned();
        connection.local_auth.proof = LocalProof::Certificate(own.clone());
        connection.remote_auth.proof = accepts(Some(names));
        connection
    };
    let ending = PeerIdentity::EndingWith { kind: IdType::RFC822_ADDR, suffix: b"@example.org".to_vec() };
    for (name, password, number) in
        [("alice", "secret", Some(1)), ("bob@example.org", "other", Some(0)), ("a.example", "third", None)]
    {
        let [mut a, _] = both(name, password);
        a.remote_auth.proof = RemoteProof::Certificate(root.accepts(None));
        let mut params_b = params(with("domain", ending.clone()));
        params_b.connections.push(with("alice", PeerIdentity::Exactly(identity("Alice"))));
        let mut world = World::with_params(params(a), params_b);
        world.run(seconds(2));
        assert_eq!(world.connection_of(B), number, "{name}: {}", world.state());
        let text = world.planes[B].reports.join("\n");
        assert_eq!(
            text.contains("no connection accepts the EAP identity a.example"),
            number.is_none(),
            "{text}"
        );
    }
}

/// The first connection's method decides only where there is none for EAP.
#[test]
fn an_initiator_without_a_proof_gets_a_connection_with_eap() {
    let [a, b] = both("alice", "secret");
    let mut other = b.clone();
    other.name = "by certificate".to_owned();
    other.remote_auth.proof = both("", "")[A].remote_auth.proof.clone();
    let mut params_b = params(other);
    params_b.connections.push(b);
    let mut world = World::with_params(params(a), params_b);
    world.run(seconds(2));
    assert_eq!(world.connection_of(B), Some(1), "{}", world.state());
}

/// A world in which end B has asked end A for its name, and end A has not answered.
fn asked() -> World {
    let [a, b] = both("alice", "secret");
    let mut world = World::new(a, b);
    // Two messages each, and nothing further of end A.
    let mut of_a = 0;
    world.network = Box::new(move |_, datagram| {
        of_a += usize::from(datagram.to == B);
        if datagram.to == B && of_a > 2 { vec![] } else { vec![Duration::from_millis(1)] }
    });
    world.run(Duration::from_millis(100));
    let has_begun = |sa: &super::super::sa::IkeSa| matches!(&sa.phase, Phase::HalfOpen(half_open) if half_open.eap.is_some());
    assert!(world.ends[B].sas.values().any(|sa| has_begun(sa)), "{}", world.state());
    world
}

/// End A sends these payloads in place of its response.
fn send(world: &mut World, exchange: ExchangeType, payloads: &[Payload]) -> Datagram {
    let spi = *world.ends[A].sas.keys().next().unwrap();
    world.network = Box::new(|_, _| vec![]);
    let before = world.log.len();
    world.ends[A].with_sa(spi, |sa, cx| {
        sa.pending = None;
        sa.request(cx, exchange, payloads, Request::Liveness);
    });
    world.notify(A, adit_core::Notice::Wanted { peer: PEER, flow: ANY_FLOW });
    world.log[before].clone()
}

#[test]
fn nothing_but_ike_auth_is_taken_during_eap() {
    for exchange in
        [ExchangeType::CREATE_CHILD_SA, ExchangeType::INFORMATIONAL, ExchangeType::IKE_INTERMEDIATE]
    {
        let mut world = asked();
        let delete = Payload::Delete(Delete { protocol: ProtocolId::IKE, spis: Vec::new() });
        let request = send(&mut world, exchange, &[delete]);
        world.deliver(&request);
        assert_eq!(world.rejected.last(), Some(&Rejected::Unexpected("a request before authentication")));
        assert!(world.ends[B].sas.values().all(|sa| matches!(sa.phase, Phase::HalfOpen(_))));
    }
}

#[test]
fn a_proof_before_the_end_of_eap_is_refused() {
    let proof = Authentication { method: AuthMethod::SHARED_KEY, data: vec![0; 32] };
    let success = Eap { code: EapCode::SUCCESS, identifier: 1, data: Vec::new() };
    for payloads in [
        vec![Payload::Authentication(proof.clone())],
        vec![Payload::Eap(success)],
        vec![],
        vec![Payload::Authentication(Authentication { data: Vec::new(), ..proof })],
    ] {
        let mut world = asked();
        let request = send(&mut world, ExchangeType::IKE_AUTH, &payloads);
        world.deliver(&request);
        assert!(world.ends[B].sas.values().all(|sa| matches!(sa.phase, Phase::Failed)), "{}", world.state());
        assert!(world.planes[B].sessions.is_empty());
    }
}

/// The proof by the key of EAP is judged: both ends have verified the password, and the initiator's proof is wrong.
#[test]
fn a_wrong_proof_by_the_key_of_eap_is_refused() {
    let [a, b] = both("alice", "secret");
    let mut world = World::new(a, b);
    for _ in 0..200 {
        world.run(Duration::from_millis(1));
        for sa in world.ends[B].sas.values_mut() {
            if let Phase::HalfOpen(half_open) = &mut sa.phase
                && let Some(run) = &mut half_open.eap
            {
                run.change_key();
            }
        }
    }
    assert_eq!(world.planes[B].ups, 0);
    let text = world.planes[B].reports.join("\n");
    assert!(text.contains("its proof by the key of EAP is wrong"), "{text}");
}

/// Without RFC 5998, the responder proves its identity before the initiator says a name.
#[test]
fn the_responder_proves_its_identity_before_the_name_is_sent() {
    let [a, mut b] = both("alice", "secret");
    let other = Authority::root("Other");
    b.local_auth.proof = LocalProof::Certificate(other.issue("b.example", &key(), Validity::Now));
    let world = run([a, b]);
    let text = world.planes[A].reports.join("\n");
    assert!(text.contains("its proof or its identity (ID_FQDN b.example) is wrong"), "{text}");
    let has_name = |sa: &super::super::sa::IkeSa| !matches!(&sa.phase, Phase::HalfOpen(half_open) if half_open.eap.as_ref().is_some_and(|run| run.user().is_none()));
    assert!(world.planes[B].ups == 0 && !world.ends[B].sas.values().any(|sa| has_name(sa)));
}

#[test]
fn wrong_passwords_of_a_name_are_bounded() {
    let [right, b] = both("alice", "secret");
    let mut wrong = right.clone();
    wrong.local_auth.proof = by_password("alice", "guess");
    let mut world = World::new(wrong.clone(), b);
    world.run(Duration::from_millis(200));
    for seed in 10..20 {
        world.restart(A, params(wrong.clone()), seed);
        world.run(Duration::from_millis(200));
    }
    world.restart(A, params(right.clone()), 30);
    world.run(Duration::from_millis(200));
    assert_eq!(world.planes[B].ups, 0, "the right password, after too many wrong ones");
    world.run(seconds(70));
    assert_eq!(world.planes[B].ups, 1, "{}", world.state());
}

#[test]
fn a_ppk_beside_eap_is_refused() {
    for end in [A, B] {
        let mut connection = both("alice", "secret")[end].clone();
        let key = SharedKey(b"key".to_vec().into());
        connection.ppk = Some(Ppk { identity: b"key".to_vec(), key, is_required: true });
        let refused = Endpoint::new(params(connection), adit_core::Instant::ORIGIN, [0; 32]).err();
        assert!(matches!(refused, Some(BadParams::NotSupported { part, .. }) if part.contains("PPK")));
    }
}
