//! Attacks of a peer that has authenticated, or that sends messages of an established IKE SA again.

use std::time::Duration;

use adit_core::{Command, Protocol, Rejected};

use super::world::*;
use crate::crypto::Contents;
use crate::machine::sa::Request;
use crate::suite::{esp_proposals, ike_proposals};
use crate::wire::{
    Delete, ExchangeType, FragmentNumber, Header, KeyExchange, Message, NotifyType, Payload, PayloadType,
    ProtocolId, decode_chain, encode_chain,
};

fn connected() -> World {
    let mut world = World::new(connection(A), connection(B));
    world.run(seconds(5));
    world.assert_settled("at the start");
    world
}

/// A message of end A to end B that the keys of the IKE SA protect.
pub(super) fn sealed(world: &mut World, header: impl Fn(&mut Header), contents: &Contents<'_>) -> Datagram {
    let path = world.log[0].path;
    let sa = world.ends[A].sas.values_mut().next().unwrap();
    let mut of_sa = sa.header(ExchangeType::INFORMATIONAL, false, sa.next_request());
    header(&mut of_sa);
    let bytes = sa.channel.as_mut().unwrap().seal.seal(&of_sa, contents, &mut |_| ()).unwrap();
    Datagram { to: B, path, bytes }
}

/// The errors in the last message of end B.
pub(super) fn errors_of_last_answer(world: &World) -> Vec<NotifyType> {
    let answer = world.log.iter().rfind(|datagram| datagram.to == A).unwrap();
    let message = Message::decode(&answer.bytes).unwrap();
    let sealed = message.sealed.unwrap();
    let sa = world.ends[A].sas.values().next().unwrap();
    let plain = sa.channel.as_ref().unwrap().open.open(&answer.bytes, &sealed).unwrap();
    let payloads = decode_chain(sealed.first, &plain).unwrap();
    let kind = |payload: &Payload| match payload {
        Payload::Notify(notify) => Some(notify.kind).filter(|kind| kind.is_error()),
        _ => None,
    };
    payloads.iter().filter_map(kind).collect()
}

/// A request to delete the IKE SA, with the flag of a response and the number of the request that end B waits for, or of its next one.
#[test]
fn a_request_with_the_flag_of_a_response_changes_nothing() {
    for is_pending in [false, true] {
        let mut world = connected();
        world.network = Box::new(|_, _| vec![]);
        let awaited = world.ends[B].sas.values().next().unwrap().next_request();
        if is_pending {
            world.command(B, Command::Rekey { peer: PEER });
        }
        let mut plain = Vec::new();
        let delete = Payload::Delete(Delete { protocol: ProtocolId::IKE, spis: Vec::new() });
        let first = encode_chain(&[delete], &mut plain);
        let contents = Contents { first, fragment: None, plain: &plain };
        let flip = |header: &mut Header| (header.flags.is_response, header.message_id) = (true, awaited);
        let message = sealed(&mut world, flip, &contents);
        world.deliver(&message);
        let refusal = Rejected::Unexpected("a response to no request");
        assert_eq!(world.rejected.last(), Some(&refusal), "{is_pending}");
        let sa = world.ends[B].sas.values().next().unwrap();
        assert_eq!(sa.pending.is_some(), is_pending);
        assert!(world.planes[B].downs.is_empty());
    }
}

/// The first messages have number 0 and no protection. Once the IKE SA is established, they make at most one that is half open.
#[test]
fn the_first_messages_again_change_no_established_ike_sa() {
    let mut world = connected();
    world.network = Box::new(|_, _| vec![]);
    let before: Vec<_> = world.ends.iter().map(|end| end.sas.keys().copied().collect::<Vec<_>>()).collect();
    for datagram in world.log.clone().iter().take(2) {
        world.deliver(datagram);
        world.deliver(datagram);
    }
    assert_eq!(world.rejected.len(), 2, "{:?}", world.rejected);
    assert_eq!(world.ends[B].half_open.len(), 1);
    world.network = Box::new(|_, _| vec![Duration::from_millis(10)]);
    world.run(seconds(40));
    world.assert_settled("after first messages");
    for (end, sas) in before.iter().enumerate() {
        assert!(world.ends[end].sas.keys().eq(sas), "{end}");
    }
}

/// An encrypted payload, or a fragment, within the payloads of a message, which came whole or in fragments.
#[test]
fn an_encrypted_payload_within_another_is_refused() {
    let body = [0, 0, 0, 40];
    for first in [PayloadType::ENCRYPTED, PayloadType::ENCRYPTED_FRAGMENT] {
        for count in [None, Some(1), Some(3)] {
            let mut world = connected();
            let plain = [body.as_slice(), &[7; 36]].concat();
            let parts: Vec<(Option<FragmentNumber>, Vec<u8>)> = match count {
                None => vec![(None, plain)],
                Some(total) => {
                    let of = plain.chunks(plain.len().div_ceil(usize::from(total)));
                    let number = |number| Some(FragmentNumber { number, total });
                    (1..).zip(of).map(|(part, bytes)| (number(part), bytes.to_vec())).collect()
                }
            };
            for (fragment, plain) in parts {
                let is_first = fragment.is_none_or(|fragment| fragment.number == 1);
                let first = if is_first { first } else { PayloadType::NONE };
                let part = sealed(&mut world, |_| (), &Contents { first, fragment, plain: &plain });
                world.deliver(&part);
            }
            assert_eq!(errors_of_last_answer(&world), [NotifyType::INVALID_SYNTAX], "{first} {count:?}");
            assert!(world.is_settled(), "{first} {count:?}: {}", world.state());
        }
    }
}

/// More proposals than [`crate::wire::MAX_PROPOSALS`], in a first request and in one for a child SA.
#[test]
fn hundreds_of_proposals_are_refused() {
    let mut world = connected();
    let mut first = Message::decode(&world.log[0].bytes).unwrap();
    let many = |payload: &mut Payload| {
        if let Payload::SecurityAssociation(proposals) = payload {
            *proposals = proposals.iter().cycle().take(300).cloned().collect();
        }
    };
    first.payloads.iter_mut().for_each(many);
    let outcome = world.ends[B].handle_datagram(world.now, world.log[0].path, &first.encode());
    assert_eq!(outcome, Err(Rejected::Malformed("no IKE message")));
    assert!(world.is_settled());
    let esp = esp_proposals("aes256gcm16").unwrap()[0].to_wire(1, &[9, 9, 9, 9]);
    let mut plain = Vec::new();
    let payloads = [Payload::SecurityAssociation(vec![esp; 300]), Payload::Nonce(vec![1; 32])];
    let first = encode_chain(&payloads, &mut plain);
    let contents = Contents { first, fragment: None, plain: &plain };
    let request = sealed(&mut world, |header| header.exchange = ExchangeType::CREATE_CHILD_SA, &contents);
    world.deliver(&request);
    assert_eq!(errors_of_last_answer(&world), [NotifyType::INVALID_SYNTAX]);
    assert!(world.is_settled(), "{}", world.state());
}

/// Values of wrong lengths in rekeys: the old SA stays.
#[test]
fn a_key_exchange_of_a_wrong_length_makes_no_sa_of_a_rekey() {
    for (group, length) in [(31, 32), (19, 64), (14, 256)] {
        for wrong in [0, length - 1, length + 1, 9000] {
            for is_of_ike in [false, true] {
                let with = |end| {
                    let mut connection = connection(end);
                    connection.ike = ike_proposals("aes256-sha256-x25519-ecp256-modp2048").unwrap();
                    connection.children[0].esp = esp_proposals("aes256gcm16-x25519-ecp256-modp2048").unwrap();
                    connection
                };
                let mut world = World::new(with(A), with(B));
                world.run(seconds(5));
                let before = (world.ends[B].sas.len(), world.planes[B].sessions.len());
                let keyword = [("x25519", 31), ("ecp256", 19), ("modp2048", 14)];
                let keyword = keyword.iter().find(|(_, number)| *number == group).unwrap().0;
                let proposal = match is_of_ike {
                    true => {
                        ike_proposals(&format!("aes256-sha256-{keyword}")).unwrap()[0].to_wire(1, &[9; 8])
                    }
                    false => esp_proposals(&format!("aes256gcm16-{keyword}")).unwrap()[0].to_wire(1, &[9; 4]),
                };
                let sides = connection(A).children[0].clone();
                let selector = |side: &crate::machine::Traffic| vec![side.selector(None).unwrap()];
                let mut payloads = vec![
                    Payload::SecurityAssociation(vec![proposal]),
                    Payload::Nonce(vec![1; 32]),
                    Payload::KeyExchange(KeyExchange { method: group, data: vec![4; wrong] }),
                ];
                if !is_of_ike {
                    payloads.push(Payload::SelectorsInitiator(selector(&sides.local[0])));
                    payloads.push(Payload::SelectorsResponder(selector(&sides.remote[0])));
                }
                let spi = *world.ends[A].sas.keys().next().unwrap();
                world.ends[A].with_sa(spi, |sa, cx| {
                    sa.request(cx, ExchangeType::CREATE_CHILD_SA, &payloads, Request::Liveness);
                });
                world.command(A, Command::LeasesMoved);
                world.run(seconds(1));
                let what = format!("{keyword}, {wrong} bytes, of IKE: {is_of_ike}");
                assert_eq!(errors_of_last_answer(&world), [NotifyType::INVALID_SYNTAX], "{what}");
                assert_eq!((world.ends[B].sas.len(), world.planes[B].sessions.len()), before, "{what}");
            }
        }
    }
}

/// The methods of additional key exchanges in another order than they were chosen in, and one of them twice.
#[test]
fn additional_key_exchanges_come_once_and_in_their_order() {
    let ike = "aes256-sha256-x25519-ke1_mlkem768-ke2_mlkem1024";
    let with = |end| {
        let mut connection = connection(end);
        connection.ike = ike_proposals(ike).unwrap();
        connection
    };
    // The number of exchanges that end A has had, and the method of the next one, with the length of each method.
    for (done, method, length) in [(0, 37, 1568), (0, 37, 1184), (1, 36, 1184), (1, 36, 1568)] {
        let mut world = World::new(with(A), with(B));
        world.run(Duration::from_millis(25 + 20 * done));
        let sa = world.ends[B].sas.values().next().unwrap();
        assert_eq!(u64::from(sa.transcript.done), done);
        world.forget_datagrams();
        let spi = *world.ends[A].sas.keys().next().unwrap();
        let exchange = Payload::KeyExchange(KeyExchange { method, data: vec![1; length] });
        world.ends[A].with_sa(spi, |sa, cx| {
            let request = sa.pending.take().map(|pending| pending.request).expect("a request");
            sa.request(cx, ExchangeType::IKE_INTERMEDIATE, &[exchange], request);
        });
        world.command(A, Command::LeasesMoved);
        world.run(seconds(2));
        let reports = world.planes[A].reports.join("\n");
        assert!(reports.contains("INVALID_SYNTAX"), "{done}: {reports}");
        assert!(world.ends[B].sas.is_empty() && world.planes[B].ups == 0, "{done}");
    }
}
