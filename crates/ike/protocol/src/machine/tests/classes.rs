//! Faults that other implementations had, by their numbers: each message here harmed one of them.

use adit_core::{Path, Rejected};

use super::world::*;
use crate::crypto::Contents;
use crate::machine::payloads::notify;
use crate::machine::sa::{Phase, Request};
use crate::suite::ike_proposals;
use crate::wire::{
    AuthMethod, Authentication, Delete, Eap, EapCode, ExchangeType, FragmentNumber, KeyExchange, Message,
    Notify, NotifyType, Payload, PayloadType, ProtocolId,
};

fn connected() -> World {
    let mut world = World::new(connection(A), connection(B));
    world.run(seconds(5));
    world.assert_settled("at the start");
    world
}

/// The first request of end A with other payloads, and the answer of end B.
fn first_with(ike: &str, change: impl Fn(&mut Payload)) -> (World, Result<(), Rejected>) {
    let with = |end| {
        let mut connection = connection(end);
        connection.ike = ike_proposals(ike).unwrap();
        connection
    };
    let mut world = World::new(with(A), with(B));
    world.network = Box::new(|_, _| vec![]);
    world.run(seconds(0));
    let first = world.log[0].clone();
    let mut message = Message::decode(&first.bytes).unwrap();
    message.payloads.iter_mut().for_each(change);
    let bytes = message.encode();
    let outcome = adit_core::Protocol::handle_datagram(&mut world.ends[B], world.now, first.path, &bytes);
    (world, outcome)
}

fn key_exchange(payload: &mut Payload, change: impl Fn(&mut KeyExchange)) {
    if let Payload::KeyExchange(exchange) = payload {
        change(exchange);
    }
}

/// strongSwan's CVE-2023-41913: a key exchange value that is too long; and others of wrong lengths.
#[test]
fn a_first_key_exchange_of_a_wrong_length_makes_no_ike_sa() {
    for ike in
        ["aes256-sha256-modp2048", "aes256-sha256-ecp256", "aes256-sha256-x25519", "aes256-sha256-mlkem768"]
    {
        let changes: [fn(&mut Vec<u8>); 4] = [
            |data| data.push(1),
            |data| data.truncate(data.len() - 1),
            |data| data.clear(),
            |data| data.resize(9000, 7),
        ];
        for change in changes {
            let (world, outcome) =
                first_with(ike, |payload| key_exchange(payload, |it| change(&mut it.data)));
            assert!(outcome.is_err() && world.ends[B].sas.is_empty(), "{ike}");
        }
    }
}

/// strongSwan's CVE-2026-35332, and RFC 6989: values that are no public keys.
#[test]
fn a_first_key_exchange_with_no_public_key_makes_no_ike_sa() {
    for ike in
        ["aes256-sha256-modp2048", "aes256-sha256-ecp256", "aes256-sha256-ecp384", "aes256-sha256-x25519"]
    {
        for byte in [0, 0xff] {
            // All ones are no element of low order of X25519.
            if ike.ends_with("x25519") && byte == 0xff {
                continue;
            }
            let (world, outcome) = first_with(ike, |payload| key_exchange(payload, |it| it.data.fill(byte)));
            assert!(outcome.is_err() && world.ends[B].sas.is_empty(), "{ike} {byte}");
        }
    }
}

/// strongSwan's CVE-2014-9221: a key exchange of a group that is not known, as the private one 1025.
#[test]
fn a_first_key_exchange_of_an_unknown_group_is_answered_with_the_right_one() {
    for method in [0, 1, 1025, 65535] {
        let (mut world, outcome) =
            first_with("aes256-sha256-x25519", |payload| key_exchange(payload, |it| it.method = method));
        assert!(outcome.is_err() && world.ends[B].sas.is_empty());
        let mut answer = Vec::new();
        adit_core::Protocol::poll_transmit(&mut world.ends[B], &mut answer).expect("an answer");
        let [Payload::Notify(notify)] = &Message::decode(&answer).unwrap().payloads[..] else {
            panic!("a notify")
        };
        assert_eq!((notify.kind, notify.data.as_slice()), (NotifyType::INVALID_KE_PAYLOAD, &[0, 31][..]));
    }
}

/// Sends a request of end A with any payloads, protected by its keys, and runs on.
pub(super) fn send(world: &mut World, exchange: ExchangeType, payloads: &[Payload]) {
    let spi = *world.ends[A].sas.keys().next().unwrap();
    world.ends[A].with_sa(spi, |sa, cx| sa.request(cx, exchange, payloads, Request::Liveness));
    world.command(A, adit_core::Command::LeasesMoved);
    world.run(seconds(1));
}

/// An initiator's `IKE_AUTH` with other payloads. Gives the reports of end B.
fn auth_with(change: impl Fn(Payload) -> Vec<Payload>) -> (World, String) {
    let mut world = World::new(connection(A), connection(B));
    world.run(std::time::Duration::from_millis(25));
    let auth = world.log.last().unwrap().clone();
    let sa = world.ends[B].sas.values().next().unwrap();
    let message = Message::decode(&auth.bytes).unwrap();
    let sealed = message.sealed.unwrap();
    let plain = sa.channel.as_ref().unwrap().open.open(&auth.bytes, &sealed).unwrap();
    let payloads: Vec<Payload> =
        crate::wire::decode_chain(sealed.first, &plain).unwrap().into_iter().flat_map(change).collect();
    world.forget_datagrams();
    let spi = *world.ends[A].sas.keys().next().unwrap();
    world.ends[A].with_sa(spi, |sa, cx| {
        let request = sa.pending.take().map(|pending| pending.request).expect("a request");
        sa.request(cx, ExchangeType::IKE_AUTH, &payloads, request);
    });
    world.command(A, adit_core::Command::LeasesMoved);
    world.run(seconds(2));
    let reports = world.planes[B].reports.join("\n");
    (world, reports)
}

/// strongSwan's CVE-2013-2944 (a signature of zeros), CVE-2012-2388 (an empty one), and no AUTH at all.
#[test]
fn an_empty_proof_or_one_of_zeros_proves_nothing() {
    for method in [
        AuthMethod::SHARED_KEY,
        AuthMethod::ECDSA_P256,
        AuthMethod::DIGITAL_SIGNATURE,
        AuthMethod::NULL,
        AuthMethod(200),
    ] {
        for data in [vec![], vec![0; 32], vec![0; 64]] {
            let (world, reports) = auth_with(|payload| match payload {
                Payload::Authentication(_) => {
                    vec![Payload::Authentication(Authentication { method, data: data.clone() })]
                }
                other => vec![other],
            });
            assert_eq!(world.planes[B].ups, 0, "{method}");
            assert!(reports.contains("did not prove its identity"), "{reports}");
        }
    }
    let (world, reports) = auth_with(|payload| match payload {
        Payload::Authentication(_) => vec![],
        other => vec![other],
    });
    assert!(world.planes[B].ups == 0 && reports.contains("sends no proof"), "{reports}");
}

/// strongSwan's CVE-2021-45079: a responder that says EAP-Success has not proved anything by it.
#[test]
fn an_eap_success_is_no_proof_of_the_responder() {
    let mut world = World::new(connection(A), connection(B));
    world.run(std::time::Duration::from_millis(25));
    world.forget_datagrams();
    let spi = *world.ends[B].sas.keys().next().unwrap();
    let success = Payload::Eap(Eap { code: EapCode::SUCCESS, identifier: 1, data: Vec::new() });
    let path = world.ends[B].sas[&spi].path;
    world.ends[B].with_sa(spi, |sa, cx| sa.respond(cx, path, ExchangeType::IKE_AUTH, &[success]));
    world.command(B, adit_core::Command::LeasesMoved);
    world.run(seconds(1));
    assert_eq!(world.planes[A].ups, 0);
    assert!(world.planes[A].reports.join("\n").contains("no proof"));
}

/// Zyxel's CVE-2023-28771 and strongSwan's CVE-2026-78127: text of a peer in the log is printable, and is bounded.
#[test]
fn an_identity_in_the_log_is_printable_and_bounded() {
    let (_, reports) = auth_with(|payload| match payload {
        Payload::IdInitiator(mut identity) => {
            identity.data = [b"\n\x1b[2J;rm -rf /\n".as_slice(), &[b'x'; 8000]].concat();
            vec![Payload::IdInitiator(identity)]
        }
        other => vec![other],
    });
    assert!(reports.lines().count() == 1 && !reports.contains('\x1b') && reports.len() < 500, "{reports}");
}

/// A fragment of end A with these outer payloads in front.
fn fragment(world: &mut World, plain: &[u8], place: FragmentNumber) -> Datagram {
    let sa = world.ends[A].sas.values_mut().next().unwrap();
    let header = sa.header(ExchangeType::INFORMATIONAL, false, 2);
    let contents = Contents { first: PayloadType::NONE, fragment: Some(place), plain };
    let bytes = sa.channel.as_mut().unwrap().seal.seal(&header, &contents, &mut |_| ()).unwrap();
    let path = Path::Udp { socket: 0, remote: std::net::SocketAddr::new(address(A), 500) };
    Datagram { to: B, path, bytes }
}

/// strongSwan's CVE-2013-6076: fragments of nothing. The message that they make up is empty, and is answered.
#[test]
fn fragments_of_nothing_make_an_empty_message() {
    let mut world = connected();
    for number in [2, 1] {
        let part = fragment(&mut world, &[], FragmentNumber { number, total: 2 });
        world.deliver(&part);
    }
    world.run(seconds(1));
    assert!(world.planes.iter().all(|plane| plane.downs.is_empty()));
    world.assert_settled("after empty fragments");
}

/// libreswan's CVE-2026-12413: a fragment behind as many unknown payloads as there is room for. Cisco's CVE-2016-1287: fragments
/// that add up to more than a message may have.
#[test]
fn fragments_behind_unknown_payloads_and_too_many_bytes_are_dropped() {
    let mut world = connected();
    for total in [2, u16::MAX] {
        for number in 1..=2 {
            let part = fragment(&mut world, &[0; 40_000], FragmentNumber { number, total });
            world.deliver(&part);
        }
    }
    let part = fragment(&mut world, b"", FragmentNumber { number: 1, total: 2 });
    for count in [1, 62, 63, 64, 65, 200] {
        let mut bytes = part.bytes[..28].to_vec();
        bytes[16] = 200;
        for place in 0..count {
            let next = if place + 1 == count { 53 } else { 200 };
            bytes.extend([next, 0, 0, 4]);
        }
        bytes.extend(&part.bytes[28..]);
        let length = (bytes.len() as u32).to_be_bytes();
        bytes[24..28].copy_from_slice(&length);
        world.deliver(&Datagram { bytes, ..part.clone() });
    }
    world.run(seconds(40));
    world.assert_settled("after fragments");
    assert!(world.planes.iter().all(|plane| plane.downs.is_empty()));
}

/// RFC 9370: a request for a further key exchange of an exchange that there is not.
#[test]
fn a_followup_without_its_exchange_changes_nothing() {
    let mut world = connected();
    let link = notify(NotifyType::ADDITIONAL_KEY_EXCHANGE, vec![1; 16]);
    let exchange = Payload::KeyExchange(KeyExchange { method: 36, data: vec![0; 1184] });
    send(&mut world, ExchangeType::IKE_FOLLOWUP_KE, &[exchange, link]);
    send(&mut world, ExchangeType(250), &[]);
    world.assert_settled("after exchanges that are not known");
}

/// A request with the number of the first exchange, or with any number that is not awaited, is dropped.
#[test]
fn an_unexpected_message_number_is_dropped() {
    let mut world = connected();
    let before = world.log.len();
    for number in [0, 3, 7, u32::MAX] {
        let sa = world.ends[A].sas.values_mut().next().unwrap();
        let header = sa.header(ExchangeType::INFORMATIONAL, false, number);
        let contents = Contents { first: PayloadType::NONE, fragment: None, plain: &[] };
        let bytes = sa.channel.as_mut().unwrap().seal.seal(&header, &contents, &mut |_| ()).unwrap();
        let path = Path::Udp { socket: 0, remote: std::net::SocketAddr::new(address(A), 500) };
        world.deliver(&Datagram { to: B, path, bytes });
        assert_eq!(world.rejected.last(), Some(&Rejected::Replayed), "{number}");
    }
    assert_eq!(world.log.len(), before);
}

/// A request that comes again from another address, as an attacker may send it, moves no peer, behind a NAT or not.
#[test]
fn a_replayed_request_moves_no_peer() {
    let mut world = World::new(connection(A), connection(B));
    world.nat = Some(20_000);
    world.run(seconds(5));
    send(&mut world, ExchangeType::INFORMATIONAL, &[]);
    let before = world.planes[B].peer.as_ref().unwrap().path;
    let requests: Vec<Datagram> = world.log.iter().filter(|datagram| datagram.to == B).cloned().collect();
    for mut request in requests {
        request.path = Path::Udp { socket: 1, remote: "203.0.113.66:4500".parse().unwrap() };
        world.deliver(&request);
    }
    assert_eq!(world.planes[B].peer.as_ref().unwrap().path, before);
}

/// Two child SAs with one SPI: the peer would delete both by one.
#[test]
fn an_spi_that_the_peer_uses_already_is_refused() {
    let mut world = connected();
    let spi = world.planes[A].sessions.keys().next().unwrap().0.to_be_bytes()[4..].to_vec();
    let connection = connection(A);
    let esp = connection.children[0].esp[0].without_key_exchange();
    let selector = |traffic: &crate::machine::Traffic| vec![traffic.selector(None).unwrap()];
    let payloads = [
        Payload::SecurityAssociation(vec![esp.to_wire(1, &spi)]),
        Payload::Nonce(vec![1; 32]),
        Payload::SelectorsInitiator(selector(&connection.children[0].local[0])),
        Payload::SelectorsResponder(selector(&connection.children[0].remote[0])),
    ];
    send(&mut world, ExchangeType::CREATE_CHILD_SA, &payloads);
    assert_eq!(world.planes[B].sessions.len(), 1);
}

/// Requests of an IKE SA that is not established, at each phase of a responder (CVE-2026-78135, CVE-2014-2338).
#[test]
fn after_a_failed_authentication_nothing_is_taken() {
    let mut a = connection(A);
    set_key(&mut a, b"other");
    let mut world = World::new(a, connection(B));
    world.run(std::time::Duration::from_millis(35));
    let sa = world.ends[B].sas.values().next().unwrap();
    assert!(matches!(sa.phase, Phase::Failed));
    let delete = Payload::Delete(Delete { protocol: ProtocolId::IKE, spis: Vec::new() });
    let spi = *world.ends[A].sas.keys().next().unwrap();
    world.forget_datagrams();
    for exchange in [ExchangeType::CREATE_CHILD_SA, ExchangeType::INFORMATIONAL, ExchangeType::IKE_AUTH] {
        let before = world.log.len();
        world.ends[A].with_sa(spi, |sa, cx| {
            sa.take_pending();
            sa.request(cx, exchange, std::slice::from_ref(&delete), Request::Liveness);
        });
        world.command(A, adit_core::Command::LeasesMoved);
        let request = world.log[before].clone();
        world.deliver(&request);
        assert_eq!(world.log.len(), before + 1, "no answer");
    }
}

/// libreswan's CVE-2023-38711 and others: an empty name of a child SA, in a rekey and in a deletion.
#[test]
fn names_of_child_sas_of_wrong_lengths_are_refused() {
    for spi in [vec![], vec![1], vec![0; 4], vec![1; 8], vec![1; 255]] {
        let mut world = connected();
        let rekey = Notify {
            protocol: ProtocolId::ESP,
            spi: spi.clone(),
            kind: NotifyType::REKEY_SA,
            data: Vec::new(),
        };
        let esp = connection(A).children[0].esp[0].to_wire(1, &spi);
        let payloads =
            [Payload::Notify(rekey), Payload::SecurityAssociation(vec![esp]), Payload::Nonce(vec![1; 32])];
        send(&mut world, ExchangeType::CREATE_CHILD_SA, &payloads);
        let delete = Payload::Delete(Delete { protocol: ProtocolId::ESP, spis: vec![spi] });
        send(&mut world, ExchangeType::INFORMATIONAL, &[delete]);
        world.assert_settled("after wrong names");
    }
}
