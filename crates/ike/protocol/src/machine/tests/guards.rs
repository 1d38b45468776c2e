//! Messages that one guard refuses and no other one.

use std::time::Duration;

use adit_core::Rejected;

use super::authenticated::{errors_of_last_answer, sealed};
use super::classes::send;
use super::world::*;
use crate::crypto::Contents;
use crate::machine::PeerIdentity;
use crate::wire::{
    Delete, ExchangeType, Header, IdType, Notify, NotifyType, Payload, PayloadType, ProtocolId, encode_chain,
};

fn connected() -> World {
    let mut world = World::new(connection(A), connection(B));
    world.run(seconds(5));
    world.assert_settled("at the start");
    world
}

/// A request of end A with a REKEY_SA, and with all other payloads that a rekey of its child SA needs. `spi` is the one that the proposal
/// has.
fn rekey(protocol: ProtocolId, named: Vec<u8>, spi: &[u8]) -> Vec<Payload> {
    let child = &connection(A).children[0];
    let selector = |traffic: &crate::machine::Traffic| vec![traffic.selector(None).unwrap()];
    let esp = child.esp[0].without_key_exchange().to_wire(1, spi);
    vec![
        Payload::Notify(Notify { protocol, spi: named, kind: NotifyType::REKEY_SA, data: Vec::new() }),
        Payload::SecurityAssociation(vec![esp]),
        Payload::Nonce(vec![1; 32]),
        Payload::SelectorsInitiator(selector(&child.local[0])),
        Payload::SelectorsResponder(selector(&child.remote[0])),
    ]
}

/// The SPI of end A's child SA.
fn spi_of_a(world: &World) -> Vec<u8> {
    world.planes[A].sessions.keys().next().unwrap().0.to_be_bytes()[4..].to_vec()
}

/// libreswan's CVE-2023-38710 and CVE-2023-38711: REKEY_SA with another protocol, or with an SPI that begins with that of a child SA.
#[test]
fn a_rekey_names_a_child_sa_by_its_protocol_and_by_its_whole_spi() {
    let longer = |spi: Vec<u8>| [spi, vec![0; 4]].concat();
    for (protocol, is_longer, error) in [
        (ProtocolId::ESP, false, None),
        (ProtocolId::AH, false, Some(NotifyType::CHILD_SA_NOT_FOUND)),
        (ProtocolId::ESP, true, Some(NotifyType::CHILD_SA_NOT_FOUND)),
    ] {
        let mut world = connected();
        let spi = spi_of_a(&world);
        let spi = if is_longer { longer(spi) } else { spi };
        send(&mut world, ExchangeType::CREATE_CHILD_SA, &rekey(protocol, spi, &[9, 9, 9, 9]));
        assert_eq!(errors_of_last_answer(&world), error.into_iter().collect::<Vec<_>>(), "{protocol}");
        assert_eq!(world.planes[B].sessions.len(), if error.is_none() { 2 } else { 1 }, "{protocol}");
    }
}

#[test]
fn an_spi_that_begins_with_that_of_a_child_sa_deletes_nothing_and_makes_nothing() {
    let mut world = connected();
    let longer = [spi_of_a(&world), vec![0; 4]].concat();
    let delete = Payload::Delete(Delete { protocol: ProtocolId::ESP, spis: vec![longer.clone()] });
    send(&mut world, ExchangeType::INFORMATIONAL, &[delete]);
    world.assert_settled("after a deletion of an SPI of eight bytes");
    let mut further = rekey(ProtocolId::ESP, Vec::new(), &[7; 8]);
    further.remove(0);
    send(&mut world, ExchangeType::CREATE_CHILD_SA, &further);
    assert_eq!(errors_of_last_answer(&world).len(), 1);
    world.assert_settled("after a proposal with an SPI of eight bytes");
}

/// The SPIs of a message of end A in each other's place, so that it seems to be of the peer's peer; and another SPI of the peer.
#[test]
fn a_message_with_other_spis_is_of_no_ike_sa() {
    type Change = fn(&mut Header);
    let changes: [(Change, Rejected); 2] = [
        (
            |header| {
                std::mem::swap(&mut header.initiator_spi, &mut header.responder_spi);
                header.flags.is_initiator = false;
            },
            Rejected::Unexpected("a message of this end"),
        ),
        (|header| header.initiator_spi.0[0] ^= 1, Rejected::Unexpected("an IKE SA that is not known")),
    ];
    for (change, refusal) in changes {
        let mut world = connected();
        let contents = Contents { first: PayloadType::NONE, fragment: None, plain: &[] };
        let message = sealed(&mut world, change, &contents);
        world.deliver(&message);
        assert_eq!(world.rejected.last(), Some(&refusal));
        world.assert_settled("after the message");
    }
}

#[test]
fn bytes_behind_the_last_payload_are_refused() {
    for (behind, errors) in [(&[][..], vec![]), (&[0, 0, 0][..], vec![NotifyType::INVALID_SYNTAX])] {
        let mut world = connected();
        let mut plain = Vec::new();
        let delete = Payload::Delete(Delete { protocol: ProtocolId::ESP, spis: vec![vec![1, 2, 3, 4]] });
        let first = encode_chain(&[delete], &mut plain);
        plain.extend(behind);
        let message = sealed(&mut world, |_| (), &Contents { first, fragment: None, plain: &plain });
        world.deliver(&message);
        assert_eq!(errors_of_last_answer(&world), errors);
        assert!(world.is_settled());
    }
}

/// A response of end B to `IKE_AUTH` with these payloads. Gives end A's lines in the log.
fn answered(mut world: World, payloads: &[Payload]) -> (World, String) {
    world.run(Duration::from_millis(25));
    world.forget_datagrams();
    let spi = *world.ends[B].sas.keys().next().unwrap();
    let path = world.ends[B].sas[&spi].path;
    world.ends[B].with_sa(spi, |sa, cx| sa.respond(cx, path, ExchangeType::IKE_AUTH, payloads));
    world.command(B, adit_core::Command::LeasesMoved);
    world.run(seconds(1));
    let reports = world.planes[A].reports.join("\n");
    (world, reports)
}

/// strongSwan's CVE-2015-8023 and others. Without proof the responder has no IKE SA that is to be deleted.
#[test]
fn an_identity_without_a_proof_makes_no_ike_sa() {
    let world = World::new(connection(A), connection(B));
    let (world, reports) = answered(world, &[Payload::IdResponder(identity("b.example"))]);
    assert!(reports.contains("it answers the authentication with no proof"), "{reports}");
    assert!(world.ends[A].sas.is_empty() && world.planes[A].ups == 0);
}

/// An attacker that tries keys, and then a peer of that identity with the right one. Certificates are not guessed.
#[test]
fn wrong_pre_shared_keys_of_an_identity_are_bounded() {
    let mut a = connection(A);
    set_key(&mut a, b"other");
    a.times.retry = seconds(1);
    let mut world = World::new(a, connection(B));
    world.run(seconds(20));
    let reports = world.planes[B].reports.join("\n");
    assert_eq!(reports.matches("compare the pre-shared keys").count(), 10, "{reports}");
    assert!(reports.contains("too many wrong keys"), "{reports}");
    world.restart(A, params(connection(A)), 9);
    world.run(seconds(2));
    assert_eq!(world.planes[A].ups, 0);
    world.run(seconds(75));
    world.assert_settled("after a while");
}

/// At the address where the connection has its peer, attempts from elsewhere do not count.
#[test]
fn wrong_pre_shared_keys_from_elsewhere_do_not_keep_the_peer_out() {
    let mut b = connection(B);
    b.remotes = vec![std::net::SocketAddr::new(address(A), 500)];
    let mut a = connection(A);
    set_key(&mut a, b"other");
    a.times.retry = seconds(1);
    let mut world = World::new(a, b);
    world.nat = Some(20_000);
    world.run(seconds(20));
    assert!(world.planes[B].reports.join("\n").contains("too many wrong keys"));
    world.nat = None;
    world.restart(A, params(connection(A)), 9);
    world.run(seconds(3));
    assert_eq!(world.planes[A].ups, 1);
}

/// The initiator names no identity, as its connection accepts several. The responder has the key, and another identity.
#[test]
fn a_responder_has_an_identity_that_the_initiator_accepts() {
    for (name, ups) in [("gate.b.example", 1), ("gate.other.example", 0)] {
        let mut a = connection(A);
        a.remote_auth.identity =
            PeerIdentity::EndingWith { kind: IdType::FQDN, suffix: b".b.example".to_vec() };
        let mut b = connection(B);
        b.local_auth.identity = identity(name);
        let mut world = World::new(a, b);
        world.run(seconds(3));
        let reports = world.planes[A].reports.join("\n");
        assert_eq!(world.planes[A].ups, ups, "{reports}");
        assert_eq!(reports.contains("another identity is expected"), ups == 0, "{reports}");
    }
}
