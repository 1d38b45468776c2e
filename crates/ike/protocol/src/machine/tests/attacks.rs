//! Attacks: messages of peers that have not authenticated, and messages that are forged, changed or malformed.

use adit_core::{Path, Protocol, Rejected};

use super::world::*;
use crate::crypto::Contents;
use crate::machine::payloads::notify;
use crate::machine::sa::{Phase, Request};
use crate::wire::{
    Delete, ExchangeType, Message, Notify, NotifyType, Payload, PayloadType, ProtocolId, Spi, decode_chain,
};

/// The first request of end A, before anything is delivered.
fn first_request() -> (World, Datagram) {
    let mut world = World::new(connection(A), connection(B));
    world.network = Box::new(|_, _| vec![]);
    world.run(seconds(0));
    let datagram = world.log[0].clone();
    (world, datagram)
}

/// The first request with another SPI, from another port and address.
fn another(datagram: &Datagram, number: u32, address: [u8; 4]) -> Datagram {
    let mut other = datagram.clone();
    other.bytes[..4].copy_from_slice(&(number + 1).to_be_bytes());
    other.path = Path::Udp { socket: 0, remote: std::net::SocketAddr::from((address, 500)) };
    other
}

/// The answer of end B.
fn answer_of(world: &mut World, datagram: &Datagram) -> Vec<Vec<u8>> {
    let _ = world.ends[B].handle_datagram(world.now, datagram.path, &datagram.bytes);
    let mut answers = Vec::new();
    loop {
        let mut bytes = Vec::new();
        if world.ends[B].poll_transmit(&mut bytes).is_none() {
            return answers;
        }
        answers.push(bytes);
    }
}

/// Whatever a first request leaves out: without a cookie, no answer is longer than the request.
#[test]
fn answers_to_first_requests_are_no_longer_than_they() {
    let (mut world, first) = first_request();
    let message = Message::decode(&first.bytes).unwrap();
    let kinds = [NotifyType::NAT_DETECTION_SOURCE_IP, NotifyType::SIGNATURE_HASH_ALGORITHMS];
    let mut answered = 0;
    for number in 0..32 {
        let mut shorter = message.clone();
        shorter.payloads.retain(|payload| match payload {
            Payload::Notify(notify) if notify.kind == kinds[0] => number & 1 == 0,
            Payload::Notify(notify) if notify.kind == kinds[1] => number & 2 == 0,
            Payload::Notify(_) => number & 4 == 0,
            _ => true,
        });
        for payload in &mut shorter.payloads {
            if let Payload::Nonce(nonce) = payload {
                nonce.truncate(if number & 8 == 0 { 32 } else { 16 });
            }
        }
        let request = Datagram { bytes: shorter.encode(), ..first.clone() };
        let request = another(&request, number, [203, 0, 113, number as u8]);
        let answers = answer_of(&mut world, &request);
        assert_eq!(answers.len(), 1);
        assert!(answers[0].len() <= request.bytes.len(), "{} to {}", answers[0].len(), request.bytes.len());
        answered += usize::from(Message::decode(&answers[0]).unwrap().payloads.len() > 1);
    }
    assert!((1..32).contains(&answered), "{answered} of 32 are answered, and others asked for a cookie");
}

#[test]
fn half_open_ike_sas_are_bounded_by_source_and_in_time() {
    let (mut world, first) = first_request();
    for number in 0..50 {
        answer_of(&mut world, &another(&first, number, [203, 0, 113, 7]));
    }
    assert_eq!(world.ends[B].sas.len(), 3, "then cookies are asked for");
    for number in 0..200 {
        let address = [203, 0, 114, number as u8];
        answer_of(&mut world, &another(&first, number, address));
    }
    assert_eq!(world.ends[B].sas.len(), 30);
    assert_eq!(world.ends[B].tables()[0].entries, 30);
    let length = world.ends[B].first_requests.len();
    assert_eq!(length, 30);
    world.run(seconds(31));
    assert_eq!((world.ends[B].sas.len(), world.ends[B].first_requests.len()), (0, 0));
    world.ends[B].limits.half_open = adit_core::PrefixShares::new(8, 16);
    world.ends[B].half_open.set_shares(adit_core::PrefixShares::new(8, 16));
    (world.ends[B].limits.cookies_from, world.ends[B].limits.cookies_from_source) = (1000, 1000);
    for number in 0..100 {
        answer_of(&mut world, &another(&first, number, [203, 0, 113, number as u8 % 4]));
    }
    assert_eq!((world.ends[B].sas.len(), world.ends[B].first_requests.len()), (16, 16));
}

#[test]
fn a_first_request_again_is_answered_the_same_and_makes_nothing() {
    let (mut world, first) = first_request();
    let answers = answer_of(&mut world, &first);
    assert_eq!(answer_of(&mut world, &first), answers);
    assert_eq!(world.ends[B].sas.len(), 1);
    let mut changed = first;
    let last = changed.bytes.len() - 1;
    changed.bytes[last] ^= 1;
    assert_eq!(answer_of(&mut world, &changed), Vec::<Vec<u8>>::new());
    assert_eq!(world.ends[B].sas.len(), 1);
}

/// A message of end A that its keys protect, with any content.
fn forged(world: &mut World, exchange: ExchangeType, payloads: &[Payload]) -> Datagram {
    let spi = *world.ends[A].sas.keys().next().unwrap();
    let before = world.log.len();
    world.network = Box::new(|_, _| vec![]);
    world.ends[A].with_sa(spi, |sa, cx| {
        sa.pending = None;
        sa.request(cx, exchange, payloads, Request::Liveness);
    });
    world.notify(A, adit_core::Notice::Wanted { peer: PEER, flow: ANY_FLOW });
    world.log[before].clone()
}

/// CVE-2026-78135 and CVE-2014-2338 of strongSwan: a child SA or a rekey before authentication.
#[test]
fn nothing_but_ike_auth_is_taken_before_authentication() {
    for exchange in [
        ExchangeType::CREATE_CHILD_SA,
        ExchangeType::INFORMATIONAL,
        ExchangeType::IKE_INTERMEDIATE,
        ExchangeType::IKE_FOLLOWUP_KE,
        ExchangeType(99),
    ] {
        let (mut world, first) = first_request();
        let answer = answer_of(&mut world, &first).remove(0);
        let path = Path::Udp { socket: 0, remote: std::net::SocketAddr::new(address(B), 500) };
        world.deliver(&Datagram { to: A, path, bytes: answer });
        let delete = Payload::Delete(Delete { protocol: ProtocolId::IKE, spis: Vec::new() });
        // The request has the number that IKE_AUTH has.
        let request = forged(&mut world, exchange, &[delete]);
        let rejected = world.ends[B].handle_datagram(world.now, request.path, &request.bytes);
        assert_eq!(rejected, Err(Rejected::Unexpected("a request before authentication")), "{exchange}");
        assert!(world.ends[B].sas.values().all(|sa| matches!(sa.phase, Phase::HalfOpen(_))));
        assert_eq!(world.ends[B].poll_transmit(&mut Vec::new()), None);
    }
}

#[test]
fn an_initiator_takes_no_request_before_authentication() {
    let (mut world, first) = first_request();
    let answer = answer_of(&mut world, &first).remove(0);
    let path = Path::Udp { socket: 0, remote: std::net::SocketAddr::new(address(B), 500) };
    world.deliver(&Datagram { to: A, path, bytes: answer });
    let spi = *world.ends[B].sas.keys().next().unwrap();
    world.ends[B].with_sa(spi, |sa, cx| {
        sa.connection = Some(0);
        sa.request(cx, ExchangeType::INFORMATIONAL, &[], Request::Liveness);
    });
    let mut request = Vec::new();
    world.ends[B].poll_transmit(&mut request).expect("a request");
    let rejected = world.ends[A].handle_datagram(world.now, path, &request);
    assert_eq!(rejected, Err(Rejected::Unexpected("a request before authentication")));
}

/// Errors and cookies in the clear are not authentic: the initiator goes on, and does so a bounded number of times.
#[test]
fn forged_first_responses_end_nothing() {
    let (mut world, first) = first_request();
    let header = Message::decode(&first.bytes).unwrap().header;
    let path = Path::Udp { socket: 0, remote: std::net::SocketAddr::new(address(B), 500) };
    let forge = |world: &mut World, payload: Payload| {
        let mut header = header;
        (header.flags.is_initiator, header.flags.is_response) = (false, true);
        header.responder_spi = Spi([7; 8]);
        let bytes = Message { header, payloads: vec![payload], sealed: None }.encode();
        world.deliver(&Datagram { to: A, path, bytes });
    };
    for kind in NotifyType::KNOWN {
        forge(&mut world, notify(*kind, vec![0, 19]));
    }
    for number in 0..20_u8 {
        forge(&mut world, notify(NotifyType::COOKIE, vec![number; 20]));
        forge(&mut world, notify(NotifyType::INVALID_KE_PAYLOAD, vec![0, 19]));
    }
    assert!(world.log.len() <= 6, "{} messages", world.log.len());
    world.network = Box::new(|_, _| vec![seconds(0)]);
    world.run(seconds(5));
    world.assert_settled("after forged responses");
}

fn connected() -> World {
    let mut world = World::new(connection(A), connection(B));
    world.run(seconds(5));
    world.assert_settled("at the start");
    world
}

#[test]
fn what_is_not_authentic_changes_nothing() {
    let mut world = connected();
    let log = world.log.clone();
    for datagram in &log {
        for index in 0..datagram.bytes.len() {
            let mut changed = datagram.clone();
            changed.bytes[index] ^= 0x21;
            world.deliver(&changed);
        }
        // The message is sent back to its sender.
        let path = Path::Udp { socket: 0, remote: std::net::SocketAddr::new(address(datagram.to), 500) };
        let reflected = Datagram { to: 1 - datagram.to, path, ..datagram.clone() };
        world.deliver(&reflected);
    }
    world.run(seconds(40));
    world.assert_settled("after changed messages");
    assert!(world.planes.iter().all(|plane| plane.downs.is_empty()));
}

#[test]
fn a_request_with_an_unknown_critical_payload_is_answered() {
    let unknown = PayloadType(200);
    for (content, answer) in
        [([0, 0, 0, 5, 1], None), ([0, 0x80, 0, 5, 1], Some(NotifyType::UNSUPPORTED_CRITICAL_PAYLOAD))]
    {
        let mut world = connected();
        let request = protected(&mut world, unknown, &content);
        let before = world.log.len();
        world.deliver(&request);
        let response = world.log[before].clone();
        let [(_, sa)] = &world.ends[A].sas.iter().collect::<Vec<_>>()[..] else { panic!("one IKE SA") };
        let message = Message::decode(&response.bytes).unwrap();
        let sealed = message.sealed.unwrap();
        let plain = sa.channel.as_ref().unwrap().open.open(&response.bytes, &sealed).unwrap();
        let payloads = decode_chain(sealed.first, &plain).unwrap();
        let found = payloads.iter().find_map(|payload| match payload {
            Payload::Notify(notify) => Some((notify.kind, notify.data.clone())),
            _ => None,
        });
        assert_eq!(found, answer.map(|kind| (kind, vec![200])));
        assert!(world.planes[B].downs.is_empty());
    }
}

/// The next request of end A, with any content.
fn protected(world: &mut World, first: PayloadType, content: &[u8]) -> Datagram {
    let sa = world.ends[A].sas.values_mut().next().unwrap();
    let header = sa.header(ExchangeType::INFORMATIONAL, false, 2);
    let contents = Contents { first, fragment: None, plain: content };
    let bytes = sa.channel.as_mut().unwrap().seal.seal(&header, &contents, &mut |_| ()).unwrap();
    let path = Path::Udp { socket: 0, remote: std::net::SocketAddr::new(address(A), 500) };
    Datagram { to: B, path, bytes }
}

/// libreswan's CVE-2023-38710: REKEY_SA with another protocol. And SPIs of child SAs that are not there.
#[test]
fn a_rekey_names_a_child_sa_of_its_ike_sa() {
    for (protocol, spi) in
        [(ProtocolId::AH, None), (ProtocolId::ESP, Some(vec![1, 2, 3, 4])), (ProtocolId::ESP, Some(vec![]))]
    {
        let mut world = connected();
        let own: Vec<u8> = world.planes[A].sessions.keys().next().unwrap().0.to_be_bytes()[4..].to_vec();
        let rekey =
            Notify { protocol, spi: spi.unwrap_or(own), kind: NotifyType::REKEY_SA, data: Vec::new() };
        let esp = connection(A).children[0].esp[0].to_wire(1, &[9, 9, 9, 9]);
        let payloads =
            [Payload::Notify(rekey), Payload::SecurityAssociation(vec![esp]), Payload::Nonce(vec![1; 32])];
        let request = forged(&mut world, ExchangeType::CREATE_CHILD_SA, &payloads);
        world.deliver(&request);
        assert_eq!(world.planes[B].sessions.len(), 1, "{protocol}");
    }
}

#[test]
fn a_delete_names_child_sas_of_its_ike_sa_alone() {
    let mut world = connected();
    let spis = vec![vec![1, 2, 3, 4], vec![0; 4]];
    let delete = Payload::Delete(Delete { protocol: ProtocolId::ESP, spis });
    let request = forged(&mut world, ExchangeType::INFORMATIONAL, &[delete]);
    world.deliver(&request);
    assert!(world.planes[B].downs.is_empty() && world.planes[B].sessions.len() == 1);
}

/// Child SAs beyond a limit are refused, so that a peer cannot fill the memory.
#[test]
fn child_sas_of_an_ike_sa_are_bounded() {
    let mut world = connected();
    let connection = connection(A);
    let spi = *world.ends[B].sas.keys().next().unwrap();
    let selector = |traffic: &crate::machine::Traffic| vec![traffic.selector(None).unwrap()];
    for number in 0..600_u32 {
        let esp = connection.children[0].esp[0].without_key_exchange();
        let payloads = [
            Payload::SecurityAssociation(vec![esp.to_wire(1, &(number + 1000).to_be_bytes())]),
            Payload::Nonce(vec![1; 32]),
            Payload::SelectorsInitiator(selector(&connection.children[0].local[0])),
            Payload::SelectorsResponder(selector(&connection.children[0].remote[0])),
        ];
        let path = world.ends[B].sas[&spi].path;
        world.ends[B].with_sa(spi, |sa, cx| sa.handle_create_child(cx, path, &payloads));
    }
    assert_eq!(world.ends[B].sas[&spi].children.len(), 512);
}

#[test]
fn a_message_on_the_marked_socket_has_a_marker() {
    let (mut world, first) = first_request();
    let path = Path::Udp { socket: 1, remote: first.path.remote() };
    let without = world.ends[B].handle_datagram(world.now, path, &first.bytes);
    assert_eq!(without, Err(Rejected::Malformed("no marker in front of an IKE message")));
    let marked = [&[0; 4], first.bytes.as_slice()].concat();
    assert_eq!(world.ends[B].handle_datagram(world.now, path, &marked), Ok(()));
    let mut answer = Vec::new();
    assert_eq!(world.ends[B].poll_transmit(&mut answer), Some(path));
    assert_eq!(answer[..4], [0; 4]);
}

#[test]
fn messages_of_any_bytes_are_dropped() {
    let mut world = connected();
    let header = world.log[2].bytes[..28].to_vec();
    for length in 0..200 {
        for start in [header.as_slice(), &[]] {
            let mut bytes = [start, &vec![length as u8; length]].concat();
            let total = (bytes.len() as u32).to_be_bytes();
            if let Some(place) = bytes.get_mut(24..28) {
                place.copy_from_slice(&total);
            }
            for to in [A, B] {
                let path = Path::Udp { socket: 0, remote: std::net::SocketAddr::new(address(1 - to), 500) };
                world.deliver(&Datagram { to, path, bytes: bytes.clone() });
            }
        }
    }
    world.run(seconds(10));
    world.assert_settled("after any bytes");
}
