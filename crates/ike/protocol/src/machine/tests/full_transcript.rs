//! Proofs of both messages of `IKE_SA_INIT` (draft-ietf-ipsecme-ikev2-downgrade-prevention-08).

use std::time::Duration;

use super::authority::{Authority, Validity, certified, key};
use super::certificates::{opened, resend};
use super::world::*;
use super::{eap, eap_only};
use crate::crypto::SignedOctets;
use crate::machine::sa::Phase;
use crate::machine::{Connection, FullTranscript, Ppk, SharedKey};
use crate::suite::ike_proposals;
use crate::wire::{Message, NotifyType, Payload};

const PLAIN: &str = "aes256gcm16-prfsha384-x25519";
const ADDITIONAL: &str = "aes256gcm16-prfsha384-x25519-ke1_mlkem768";

/// After the answer to the first request, before the proof of end A has come.
const BEFORE_PROOFS: Duration = Duration::from_millis(25);

fn pre_shared(ike: &str) -> [Connection; 2] {
    [A, B].map(|end| Connection { ike: ike_proposals(ike).unwrap(), ..connection(end) })
}

fn with_ppk() -> [Connection; 2] {
    let ppk = || Ppk { identity: b"ppk".to_vec(), key: SharedKey(vec![7; 32].into()), is_required: false };
    pre_shared(PLAIN).map(|connection| Connection { ppk: Some(ppk()), ..connection })
}

/// Both ends with certificates, without a request for certificates in the first exchange.
fn certificates(ike: &str) -> [Connection; 2] {
    let root = Authority::root("Root");
    [(A, "a.example"), (B, "b.example")].map(|(end, name)| {
        let mut accepted = root.accepts(None);
        accepted.requested.clear();
        let connection = certified(end, root.issue(name, &key(), Validity::Now), accepted);
        Connection { ike: ike_proposals(ike).unwrap(), ..connection }
    })
}

fn with(full: [FullTranscript; 2], ends: [Connection; 2]) -> World {
    let [mut a, mut b] = ends;
    [a.full_transcript, b.full_transcript] = full;
    World::new(a, b)
}

/// Whether each end proves both first messages.
fn are_full(world: &World) -> [bool; 2] {
    [A, B].map(|end| world.ends[end].sas.values().next().is_some_and(|sa| sa.transcript.is_full))
}

#[test]
fn both_ends_prove_both_first_messages_whatever_the_kind_of_proof() {
    for (what, ends) in [
        ("pre-shared keys", pre_shared(PLAIN)),
        ("additional key exchanges", pre_shared(ADDITIONAL)),
        ("a PPK", with_ppk()),
        ("certificates", certificates(PLAIN)),
        ("EAP", eap::both("alice", "secret")),
        ("EAP alone", eap_only::good()),
    ] {
        for full in [FullTranscript::Offer, FullTranscript::Require] {
            let mut world = with([full, full], ends.clone());
            world.run(BEFORE_PROOFS);
            assert_eq!(are_full(&world), [true, true], "{what}");
            world.run(seconds(3));
            world.assert_settled(what);
        }
    }
}

#[test]
fn both_first_messages_are_proved_where_both_ends_say_so() {
    use FullTranscript::{Never, Offer, Require};
    for (a, b, is_full, is_connected) in [
        (Offer, Offer, true, true),
        (Require, Offer, true, true),
        (Offer, Require, true, true),
        (Never, Offer, false, true),
        (Offer, Never, false, true),
        (Never, Never, false, true),
        (Require, Never, false, false),
        (Never, Require, false, false),
    ] {
        for ends in [pre_shared(PLAIN), certificates(PLAIN), eap::both("alice", "secret")] {
            let mut world = with([a, b], ends);
            world.run(BEFORE_PROOFS);
            let proves = are_full(&world)[B];
            world.run(seconds(3));
            assert_eq!((proves, world.is_settled()), (is_full, is_connected), "{a:?} {b:?}");
            let reports = world.planes.iter().flat_map(|plane| &plane.reports).cloned().collect::<String>();
            assert!(is_connected || reports.contains("IKE_SA_INIT_FULL_TRANSCRIPT_AUTH"), "{reports}");
        }
    }
}

/// The message with other payloads.
fn altered(datagram: &Datagram, change: impl Fn(&mut Vec<Payload>)) -> Datagram {
    let mut message = Message::decode(&datagram.bytes).unwrap();
    change(&mut message.payloads);
    Datagram { bytes: message.encode(), ..datagram.clone() }
}

fn take_out_notify(payloads: &mut Vec<Payload>) {
    let kind = NotifyType::IKE_SA_INIT_FULL_TRANSCRIPT_AUTH;
    payloads.retain(|payload| !matches!(payload, Payload::Notify(notify) if notify.kind == kind));
}

/// Takes the proposals with additional key exchanges out of a first request.
fn take_out_additional(payloads: &mut [Payload]) {
    for payload in payloads {
        if let Payload::SecurityAssociation(proposals) = payload {
            let plain = ike_proposals(PLAIN).unwrap();
            let count = plain[0].to_wire(1, &[]).transforms.len();
            proposals.retain(|proposal| proposal.transforms.len() == count);
        }
    }
}

/// An attacker that has the key of end A, and can break X25519, takes ML-KEM out of A's first request, and proves to B that A sent the
/// request so. `strips`: it takes the notify of the full transcript out, too.
fn downgraded(full: FullTranscript, strips: bool) -> World {
    let ends = certificates(&format!("{ADDITIONAL},{PLAIN}"));
    let stolen = ends[A].local_auth.clone();
    let mut world = with([full; 2], ends);
    world.run(Duration::from_millis(5));
    let first = altered(&world.log[0].clone(), |payloads| {
        take_out_additional(payloads);
        if strips {
            take_out_notify(payloads);
        }
    });
    world.forget_datagrams();
    world.deliver(&first);
    world.run(Duration::from_millis(15));
    let proof = world.log.last().unwrap().clone();
    let [of_a, of_b] = [A, B].map(|end| world.ends[end].sas.values().next().expect("an IKE SA"));
    let Phase::HalfOpen(half_open) = &of_b.phase else { panic!("a half-open IKE SA") };
    let channel = of_b.channel.as_ref().unwrap();
    assert!(channel.suite.additional.is_empty(), "the attacker has chosen the key exchange");
    let octets = SignedOctets {
        message: &first.bytes,
        received: of_b.transcript.received(&half_open.own_message),
        peer_nonce: &half_open.nonces[1],
        proof_key: &channel.keys.initiator_proof,
        identity: &stolen.identity,
        intermediate: &[],
    };
    let forged = stolen.proof.prove(channel.suite.prf, &octets, &of_a.peer_support).unwrap().proof.unwrap();
    let payloads = opened(&world, &proof).into_iter().map(|payload| match payload {
        Payload::Authentication(_) => Payload::Authentication(forged.clone()),
        other => other,
    });
    let payloads: Vec<_> = payloads.collect();
    resend(&mut world, &payloads);
    world.run(seconds(2));
    world
}

/// Without the full transcript the attack succeeds: each end proves its own message alone.
#[test]
fn who_has_the_initiators_key_cannot_take_a_key_exchange_out_of_its_first_request() {
    downgraded(FullTranscript::Never, false).assert_settled("without the full transcript");
    for full in [FullTranscript::Offer, FullTranscript::Require] {
        for strips in [false, true] {
            let world = downgraded(full, strips);
            let plane = &world.planes[A];
            let text = plane.reports.join("\n");
            assert!(plane.ups == 0 && plane.sessions.is_empty(), "{full:?} {strips}: {text}");
            let is_by_b = full == FullTranscript::Require && strips;
            let reason = if is_by_b { "AUTHENTICATION_FAILED" } else { "its proof or its identity" };
            assert!(text.contains(reason), "{full:?} {strips}: {text}");
        }
    }
}

/// An attacker that has the responder's key takes the notify out of the answer: the initiator proves less than the responder expects.
#[test]
fn who_has_the_responders_key_cannot_take_the_notify_out_of_its_answer() {
    let mut world = with([FullTranscript::Offer; 2], certificates(PLAIN));
    world.run(Duration::from_millis(15));
    let answer = altered(&world.log.last().unwrap().clone(), take_out_notify);
    world.forget_datagrams();
    world.deliver(&answer);
    world.run(seconds(2));
    let text = world.planes[B].reports.join("\n");
    assert!(world.planes[B].ups == 0 && text.contains("did not prove its identity"), "{text}");
    assert_eq!(world.planes[A].ups, 0);
}

/// The attacker cannot have the notify left out by a request that is too short for an answer with it: a cookie is asked for.
#[test]
fn a_short_first_request_gets_a_cookie_and_no_answer_without_the_notify() {
    let mut world = with([FullTranscript::Offer; 2], pre_shared(PLAIN));
    world.run(Duration::from_millis(5));
    let first = altered(&world.log[0].clone(), |payloads| {
        payloads.retain(|payload| !matches!(payload, Payload::Notify(_)));
    });
    let before = world.log.len();
    world.deliver(&first);
    let answer = Message::decode(&world.log[before].bytes).unwrap();
    let [Payload::Notify(notify)] = &answer.payloads[..] else { panic!("{answer:?}") };
    assert_eq!(notify.kind, NotifyType::COOKIE);
}
