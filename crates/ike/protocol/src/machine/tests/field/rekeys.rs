//! Rekeys by peers with other habits.

use std::time::Duration;

use adit_core::{Cipher, Command};

use super::super::world::*;
use super::{connected, opened};
use crate::machine::{EndAction, Reply};
use crate::suite::esp_proposals;
use crate::wire::Payload;

const MILLISECOND: Duration = Duration::from_millis(1);

fn rekey_child(world: &mut World, end: usize) {
    world.command(end, Command::Rekey { peer: PEER });
    world.run(seconds(3));
    world.assert_settled("after a rekey");
}

/// A world whose end A has child SAs without a key exchange alone, as Windows has.
fn without_exchange() -> World {
    let [mut a, mut b] = [A, B].map(connection);
    a.children[0].esp = esp_proposals("aes256gcm16").unwrap();
    b.children[0].esp = esp_proposals("aes256gcm16-x25519").unwrap();
    let mut world = World::new(a, b);
    world.run(seconds(2));
    world.assert_settled("at the start");
    world
}

/// Windows ends its tunnel when the server rekeys with a key exchange: a peer that has rekeyed without one is offered none.
#[test]
fn a_peer_that_rekeys_without_a_key_exchange_is_offered_none() {
    let mut world = without_exchange();
    rekey_child(&mut world, A);
    for _ in 0..2 {
        let before = world.log.len();
        rekey_child(&mut world, B);
        let has_exchange = |payload: &Payload| matches!(payload, Payload::KeyExchange(_));
        assert!(!opened(&world, &world.log[before]).iter().any(has_exchange));
        assert_eq!(world.log.len() - before, 4, "a rekey, and the deletion of the old child SA");
    }
}

/// Ends that differ in PFS see it at the first rekey: the rekey goes as the peer takes it, packets pass, and the log names the setting.
#[test]
fn a_rekey_that_the_peer_takes_without_a_key_exchange_alone_goes_so_and_the_log_names_the_setting() {
    let mut world = without_exchange();
    let before = world.planes[B].first_active();
    rekey_child(&mut world, B);
    assert_ne!(world.planes[B].first_active(), before);
    rekey_child(&mut world, B);
    let told = world.planes[B]
        .reports
        .iter()
        .filter(|line| line.contains("leave the groups out of `esp_proposals`"));
    assert_eq!(told.count(), 1, "{:?}", world.planes[B].reports);
    assert!(world.planes.iter().all(|plane| plane.gaps == 0 && plane.downs.is_empty()));
}

/// macOS rekeys with other proposals than those of the first child SA: they are compared with all that the child may have.
#[test]
fn a_rekey_may_have_other_proposals_than_the_child_sa_before() {
    let mut b = connection(B);
    b.children[0].esp = esp_proposals("aes256gcm16-x25519,aes128gcm16-ecp256").unwrap();
    let mut world = World::new(connection(A), b);
    world.run(seconds(2));
    let others = esp_proposals("chacha20poly1305,aes128gcm16-ecp256").unwrap();
    world.ends[A].connections.get_mut(0).unwrap().children[0].esp = others;
    rekey_child(&mut world, A);
    assert_eq!(world.planes[B].sessions.values().next().unwrap().cipher, Cipher::Aes128Gcm);
}

/// A server with a lifetime that is shorter than the peer's time for rekeys, and which does not rekey: packets pass all the time.
#[test]
fn a_lifetime_that_ends_before_the_peer_rekeys_leaves_no_gap() {
    let [mut a, mut b] = [A, B].map(connection);
    for child in [&mut a.children[0], &mut b.children[0]] {
        (child.rekey, child.on_close, child.on_dead_peer) = (None, EndAction::None, EndAction::None);
    }
    b.children[0].lifetime = Some(seconds(60));
    let mut world = World::new(a, b);
    world.run(seconds(2));
    let first = world.planes[A].first_active();
    for second in 0..300 {
        world.run(seconds(1));
        assert!(world.is_connected(), "{second}: {}", world.state());
    }
    assert_ne!(world.planes[A].first_active(), first);
    assert!(world.planes.iter().all(|plane| plane.downs.is_empty() && plane.gaps == 0));
}

/// The response to a rekey of the IKE SA is lost: the peer goes on with the old IKE SA and gets its answers there. It does not answer messages
/// of the new one, which it does not have yet.
#[test]
fn the_old_ike_sa_answers_until_it_is_deleted_and_one_that_is_not_there_does_not() {
    let mut world = connected();
    let mut responses = 0;
    world.network = Box::new(move |_, datagram| {
        responses += usize::from(datagram.to == A);
        if datagram.to == A && responses == 1 { vec![] } else { vec![MILLISECOND] }
    });
    world.reply(A, Reply::Rekey("b.example".to_owned()));
    world.run(seconds(1));
    assert_eq!(world.ends.each_ref().map(|end| end.sas.len()), [1, 2]);
    let before = world.log.len();
    world.command(B, Command::Rekey { peer: PEER });
    world.run(Duration::from_millis(100));
    assert!(
        world.log.len() > before && world.log[before..].iter().all(|datagram| datagram.to == A),
        "no answer"
    );
    assert!(world.is_connected(), "packets pass meanwhile");
    world.run(seconds(4));
    assert_eq!(world.ends.each_ref().map(|end| end.sas.len()), [1, 1], "the response came again");
    world.run(seconds(200));
    world.assert_settled("later");
    assert!(world.planes.iter().all(|plane| plane.downs.is_empty()));
}

/// A gateway that prefers other ciphers than this end (Google's): whichever end begins, this end's order is the same.
#[test]
fn the_order_of_this_ends_proposals_is_the_same_whichever_end_begins() {
    let [mut a, mut b] = [A, B].map(connection);
    a.children[0].esp = esp_proposals("chacha20poly1305-x25519,aes256gcm16-x25519").unwrap();
    b.children[0].esp = esp_proposals("aes256gcm16-x25519,chacha20poly1305-x25519").unwrap();
    let mut world = World::new(a, b);
    world.run(seconds(2));
    let cipher = |world: &World| world.planes[B].sessions.values().next().unwrap().cipher;
    assert_eq!(cipher(&world), Cipher::Aes256Gcm);
    rekey_child(&mut world, A);
    assert_eq!(cipher(&world), Cipher::Aes256Gcm);
    let before = world.log.len();
    rekey_child(&mut world, B);
    let payloads = opened(&world, &world.log[before]);
    let offered = payloads.iter().find_map(|payload| match payload {
        Payload::SecurityAssociation(offered) => Some(offered),
        _ => None,
    });
    let esp = &world.ends[B].connections.get(0).unwrap().children[0].esp;
    let own: Vec<_> = (1..).zip(esp).map(|(number, own)| own.to_wire(number, &[]).transforms).collect();
    let offered: Vec<_> = offered.unwrap().iter().map(|offer| offer.transforms.clone()).collect();
    assert_eq!(offered, own);
}
