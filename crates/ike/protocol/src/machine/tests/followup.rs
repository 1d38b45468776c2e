//! Additional key exchanges of rekeys and of further child SAs (RFC 9370 section 2.2.4).

use std::time::Duration;

use adit_core::Command;

use super::world::*;
use crate::machine::payloads::notify;
use crate::machine::sa::Request;
use crate::machine::{Connection, Reply};
use crate::suite::{esp_proposals, ike_proposals};
use crate::wire::{ExchangeType, Header, KeyExchange, NotifyType, Payload};

const IKE: &str = "aes256gcm16-prfsha384-x25519-ke1_mlkem768";
const ESP: &str = "aes256gcm16-x25519-ke1_mlkem768";
const ESP_TWO: &str = "aes256gcm16-x25519-ke1_mlkem768-ke2_mlkem1024";

fn with(end: usize, esp: &str) -> Connection {
    let mut connection = connection(end);
    connection.ike = ike_proposals(IKE).unwrap();
    connection.children[0].esp = esp_proposals(esp).unwrap();
    connection
}

fn connected(esp: &str) -> World {
    let mut world = World::new(with(A, esp), with(B, esp));
    world.run(seconds(5));
    world.assert_settled("at the start");
    world
}

fn rekey(world: &mut World, end: usize, is_of_ike: bool) {
    match is_of_ike {
        true => world.reply(end, Reply::Rekey(["b.example", "a.example"][end].to_owned())),
        false => world.command(end, Command::Rekey { peer: PEER }),
    }
}

/// The requests of additional key exchanges that were sent, by message number.
fn requests(world: &World) -> usize {
    let headers = world.log.iter().filter_map(|datagram| Header::peek(&datagram.bytes).ok());
    let is_request =
        |header: &Header| header.exchange == ExchangeType::IKE_FOLLOWUP_KE && !header.flags.is_response;
    let mut numbers: Vec<_> =
        headers.filter(is_request).map(|header| (header.flags.is_initiator, header.message_id)).collect();
    numbers.dedup();
    numbers.len()
}

#[test]
fn either_end_rekeys_with_additional_key_exchanges() {
    for (esp, is_of_ike, count) in [(ESP, false, 1), (ESP_TWO, false, 2), (ESP, true, 1)] {
        for end in [A, B] {
            let mut world = connected(esp);
            let before = (world.planes[A].first_active(), world.ends[A].peers[&0].sa);
            rekey(&mut world, end, is_of_ike);
            world.run(seconds(5));
            world.assert_settled(esp);
            let after = (world.planes[A].first_active(), world.ends[A].peers[&0].sa);
            assert_eq!((before.0 != after.0, before.1 != after.1), (!is_of_ike, is_of_ike));
            assert_eq!(requests(&world), count, "{esp}");
            assert!(world.planes.iter().all(|plane| plane.downs.is_empty() && plane.gaps == 0));
            // And with the keys of the successor.
            rekey(&mut world, 1 - end, false);
            world.run(seconds(5));
            world.assert_settled("a rekey after the rekey");
        }
    }
}

/// A peer that has additional key exchanges in the first IKE SA alone.
#[test]
fn a_rekey_goes_without_additional_key_exchanges_where_the_peer_has_none() {
    let mut b = with(B, "aes256gcm16-x25519");
    b.ike = ike_proposals("aes256gcm16-prfsha384-x25519-ke1_mlkem768-ke1_none").unwrap();
    let mut world = World::new(with(A, "aes256gcm16-x25519-ke1_mlkem768-ke1_none"), b);
    world.run(seconds(5));
    rekey(&mut world, A, false);
    world.run(seconds(5));
    world.assert_settled("without ML-KEM");
    assert_eq!(requests(&world), 0);
}

/// Both ends rekey at once, the second at each moment of the first one's rekey, and a message is lost or none.
#[test]
fn rekeys_with_additional_key_exchanges_collide() {
    let moments = [0, 5, 15, 25, 35, 45];
    for (first, second) in [(false, false), (false, true), (true, false), (true, true)] {
        for (millis, lost) in
            moments.into_iter().flat_map(|millis| [0, 1, 2, 4, 6].map(|lost| (millis, lost)))
        {
            let mut world = connected(ESP);
            let mut count = 0;
            world.network = Box::new(move |_, _| {
                count += 1;
                if count == lost { vec![] } else { vec![Duration::from_millis(10)] }
            });
            rekey(&mut world, A, first);
            world.run(Duration::from_millis(millis));
            rekey(&mut world, B, second);
            world.run(seconds(4));
            let what = format!("{first}, {second} {millis} ms later, without message {lost}");
            assert!(world.is_connected(), "{what}: {}", world.state());
            world.run(seconds(300));
            world.assert_settled(&what);
            assert!(world.planes.iter().all(|plane| plane.downs.is_empty()), "{what}");
        }
    }
}

/// An additional key exchange that is malformed, or has another link or method: no child SA is made, and the old one stays.
#[test]
fn a_followup_with_a_wrong_link_method_or_length_makes_no_sa() {
    let change = |number: u32, exchange: &mut KeyExchange, link: &mut Vec<u8>| match number {
        0 => link[0] ^= 1,
        1 => link.clear(),
        2 => exchange.method = 35,
        3 => exchange.data.truncate(exchange.data.len() - 1),
        4 => exchange.data.push(0),
        _ => exchange.data.clear(),
    };
    for number in 0..6 {
        let mut world = connected(ESP);
        let before = world.planes[B].first_active();
        rekey(&mut world, A, false);
        world.run(Duration::from_millis(25));
        let link = {
            let sa = world.ends[B].sas.values().next().unwrap();
            sa.follow_up.as_ref().expect("end B waits for it").link.clone()
        };
        world.forget_datagrams();
        let spi = *world.ends[A].sas.keys().next().unwrap();
        world.ends[A].with_sa(spi, |sa, cx| {
            let Some(Request::FollowUp(request)) = sa.pending.take().map(|pending| pending.request) else {
                panic!("end A sends it")
            };
            let data = request.share.public().to_vec();
            let (mut exchange, mut link) = (KeyExchange { method: 36, data }, link.clone());
            change(number, &mut exchange, &mut link);
            let link = notify(NotifyType::ADDITIONAL_KEY_EXCHANGE, link);
            let payloads = [Payload::KeyExchange(exchange), link];
            sa.request(cx, ExchangeType::IKE_FOLLOWUP_KE, &payloads, Request::FollowUp(request));
        });
        world.command(A, Command::LeasesMoved);
        world.run(Duration::from_millis(100));
        assert_eq!(world.planes[B].first_active(), before, "{number}");
        assert!(world.is_connected(), "{number}: {}", world.state());
        // It is tried again.
        world.run(seconds(90));
        world.assert_settled("after another rekey");
        assert_ne!(world.planes[B].first_active(), before, "{number}");
    }
}

/// An initiator that does not go on: its responder forgets the exchange, and rekeys by itself again.
#[test]
fn a_rekey_that_does_not_go_on_is_forgotten() {
    let mut world = connected(ESP);
    rekey(&mut world, A, false);
    world.run(Duration::from_millis(15));
    world.forget_datagrams();
    let spi = *world.ends[A].sas.keys().next().unwrap();
    world.ends[A].with_sa(spi, |sa, _| {
        sa.take_pending();
        sa.children.values_mut().for_each(|child| child.rekey_at = None);
    });
    let before = world.planes[B].first_active();
    rekey(&mut world, B, false);
    world.run(seconds(30));
    assert_eq!(world.planes[B].first_active(), before);
    world.run(seconds(40));
    world.assert_settled("after a minute");
    assert_ne!(world.planes[B].first_active(), before);
}
