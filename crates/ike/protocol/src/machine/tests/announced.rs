//! Announced methods of authentication (RFC 9593).

use std::time::Duration;

use adit_pki::signature::{Digest, Scheme, Sha1};

use super::authority::{Authority, Validity, certified};
use super::certificates::{opened, resend};
use super::world::*;
use crate::crypto::AnnouncedMethods;
use crate::machine::payloads::notify;
use crate::machine::{Childless, Connection, FullTranscript};
use crate::suite::ike_proposals;
use crate::wire::{Message, NotifyType, Payload, decode_chain};

/// The time until end A has a cookie and has sent its first request once more, in milliseconds.
const FIRST: u64 = 25;

/// The time until that many further messages have come.
fn at(messages: u64) -> Duration {
    Duration::from_millis(FIRST + 10 * messages)
}

/// Both ends with certificates; the keys are RSA's. Their messages are not cut into fragments.
fn both(ike: &str) -> [Connection; 2] {
    let root = Authority::root("Root");
    let pem = include_str!("../../../../../pki/tests/data/private_key/rsa2048.key");
    [(A, "a.example"), (B, "b.example")].map(|(end, name)| {
        let rsa = rcgen::KeyPair::from_pem(pem).expect("a key");
        let connection = certified(end, root.issue(name, &rsa, Validity::Now), root.accepts(None));
        Connection { ike: ike_proposals(ike).unwrap(), longest_datagram: None, ..connection }
    })
}

const PLAIN: &str = "aes256gcm16-prfsha384-x25519";
const ADDITIONAL: &str = "aes256gcm16-prfsha384-x25519-ke1_mlkem768";

/// The methods that end A has of end B.
fn known_to_a(world: &World) -> AnnouncedMethods {
    world.ends[A].sas.values().next().expect("an IKE SA").peer_support.announced.clone()
}

#[test]
fn a_responder_announces_its_methods_in_its_first_answer() {
    let [a, b] = both(PLAIN);
    let mut world = World::new(a, b);
    world.run(at(2));
    assert_eq!(known_to_a(&world), AnnouncedMethods::certificates(Sha1::Refused).short());
    assert!(world.log.iter().filter(|datagram| datagram.to == A).all(|datagram| datagram.bytes.len() <= 548));
    world.run(seconds(2));
    world.assert_settled("with announced methods");
}

/// The ciphertext of ML-KEM and the list need not be in the first answer.
#[test]
fn with_additional_key_exchanges_the_list_comes_in_the_last_of_them() {
    let [a, b] = both(ADDITIONAL);
    let mut world = World::new(a, b);
    world.run(at(2));
    assert_eq!(known_to_a(&world), AnnouncedMethods::default());
    let answer = world.log.iter().rfind(|datagram| datagram.to == A).unwrap();
    let answer = Message::decode(&answer.bytes).unwrap();
    assert!(answer.payloads.contains(&notify(NotifyType::SUPPORTED_AUTH_METHODS, Vec::new())));
    world.run(Duration::from_millis(20));
    assert_eq!(known_to_a(&world), AnnouncedMethods::certificates(Sha1::Refused));
    world.run(seconds(2));
    world.assert_settled("with announced methods");
}

/// Without a cookie, an answer with the list would be longer than the request.
#[test]
fn the_list_makes_no_answer_longer_than_its_request() {
    // The request of an initiator that makes no childless IKE SA is shorter.
    for (cookies_from, known) in [(0, AnnouncedMethods::shared_key()), (1000, AnnouncedMethods::default())] {
        let a = Connection { childless: Childless::Never, ..connection(A) };
        let mut world = World::new(a, connection(B));
        world.ends[B].limits.cookies_from = cookies_from;
        world.run(if cookies_from == 0 { at(2) } else { at(0) });
        assert_eq!(known_to_a(&world), known);
        world.run(seconds(2));
        world.assert_settled("with pre-shared keys");
    }
}

/// The first request of strongSwan has neither of the notifies. Without hashes for signatures there is room for both.
#[test]
fn an_answer_to_a_request_without_them_has_the_notifies_of_childless_and_of_full_transcripts() {
    let own = [NotifyType::CHILDLESS_IKEV2_SUPPORTED, NotifyType::IKE_SA_INIT_FULL_TRANSCRIPT_AUTH];
    let is_own = |payload: &Payload| matches!(payload, Payload::Notify(it) if own.contains(&it.kind));
    let mut world = World::new(connection(A), connection(B));
    world.ends[B].limits.cookies_from = 1000;
    world.run(Duration::from_millis(1));
    let mut request = world.log.first().unwrap().clone();
    let mut message = Message::decode(&request.bytes).unwrap();
    message.payloads.retain(|payload| !is_own(payload));
    message.payloads.push(notify(NotifyType::REDIRECT_SUPPORTED, Vec::new()));
    request.bytes = message.encode();
    world.forget_datagrams();
    world.deliver(&request);
    let answer = Message::decode(&world.log.last().unwrap().bytes).unwrap();
    assert_eq!(answer.payloads.iter().filter(|payload| is_own(payload)).count(), 2, "{answer:?}");
}

/// An announcement of PKCS #1 v1.5 with SHA-256 alone.
fn pkcs1() -> Payload {
    let algorithm = Scheme::RsaPkcs1(Digest::Sha256).algorithm_identifier();
    let data = [&[3 + algorithm.len() as u8, 14, 0], algorithm.as_slice()].concat();
    notify(NotifyType::SUPPORTED_AUTH_METHODS, data)
}

fn is_list(payload: &Payload) -> bool {
    matches!(payload, Payload::Notify(notify) if notify.kind == NotifyType::SUPPORTED_AUTH_METHODS)
}

/// The scheme of the digital signature among payloads.
fn scheme_of(payloads: &[Payload]) -> Scheme {
    let proof = payloads.iter().find_map(|payload| match payload {
        Payload::Authentication(proof) => Some(proof.data.as_slice()),
        _ => None,
    });
    let (length, rest) = proof.and_then(<[u8]>::split_first).expect("a proof");
    Scheme::from_algorithm_identifier(&rest[..usize::from(*length)]).expect("a scheme")
}

/// End B played: its first answer announces PKCS #1 alone.
#[test]
fn an_initiator_proves_by_a_method_that_the_responder_announced() {
    let [a, b] = both(PLAIN).map(|it| Connection { full_transcript: FullTranscript::Never, ..it });
    let mut world = World::new(a, b);
    world.run(at(1));
    let mut answer = world.log.last().unwrap().clone();
    let mut message = Message::decode(&answer.bytes).unwrap();
    message.payloads.retain(|payload| !is_list(payload));
    message.payloads.push(pkcs1());
    answer.bytes = message.encode();
    world.forget_datagrams();
    world.deliver(&answer);
    let proof = world.log.last().unwrap().clone();
    let payloads = opened(&world, &proof);
    assert_eq!(scheme_of(&payloads), Scheme::RsaPkcs1(Digest::Sha256));
    assert!(payloads.iter().any(is_list), "the initiator announces its own in IKE_AUTH");
}

/// End A played: its list in `IKE_AUTH` has PKCS #1 alone.
#[test]
fn a_responder_proves_by_a_method_that_the_initiator_announced() {
    let [a, b] = both(PLAIN);
    let mut world = World::new(a, b);
    world.run(at(2));
    let proof = world.log.last().unwrap().clone();
    let mut payloads = opened(&world, &proof);
    payloads.retain(|payload| !is_list(payload));
    payloads.push(pkcs1());
    resend(&mut world, &payloads);
    world.run(Duration::from_millis(15));
    let answer = world.log.iter().rfind(|datagram| datagram.to == A).unwrap().clone();
    let message = Message::decode(&answer.bytes).unwrap();
    let sealed = message.sealed.expect("an encrypted payload");
    let sa = world.ends[A].sas.values().next().unwrap();
    let plain = sa.channel.as_ref().unwrap().open.open(&answer.bytes, &sealed).unwrap();
    assert_eq!(scheme_of(&decode_chain(sealed.first, &plain).unwrap()), Scheme::RsaPkcs1(Digest::Sha256));
    world.run(seconds(2));
    world.assert_settled("by PKCS #1");
}
