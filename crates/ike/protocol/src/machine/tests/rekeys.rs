//! Rekeys, with their collisions.

use std::time::Duration;

use adit_core::{Command, Notice, Protocol as _};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore as _, SeedableRng as _};

use super::world::*;
use crate::machine::sa::Request;
use crate::machine::{EndAction, Reply};
use crate::suite::{Group, esp_proposals, ike_proposals};

fn connected() -> World {
    let mut world = World::new(connection(A), connection(B));
    world.run(seconds(5));
    world.assert_settled("at the start");
    world
}

fn rekey_ike(world: &mut World, end: usize) {
    let name = ["b.example", "a.example"][end];
    world.reply(end, Reply::Rekey(name.to_owned()));
}

fn rekey_child(world: &mut World, end: usize) {
    world.command(end, Command::Rekey { peer: PEER });
}

/// Begins a rekey at an end.
type Rekey = fn(&mut World, usize);

const REKEYS: [(&str, Rekey); 2] = [("child", rekey_child), ("IKE", rekey_ike)];

#[test]
fn either_end_rekeys() {
    for (kind, rekey) in REKEYS {
        for end in [A, B] {
            let mut world = connected();
            let spis: Vec<_> = world.ends[A].sas.keys().copied().collect();
            let sessions: Vec<_> = world.planes[A].sessions.keys().copied().collect();
            rekey(&mut world, end);
            world.run(seconds(5));
            world.assert_settled(kind);
            let has_new_child = !world.planes[A].sessions.contains_key(&sessions[0]);
            let has_new_sa = !world.ends[A].sas.contains_key(&spis[0]);
            assert_eq!((has_new_child, has_new_sa), (kind == "child", kind == "IKE"));
            assert!(world.planes.iter().all(|plane| plane.downs.is_empty() && plane.gaps == 0), "{kind}");
            // And again, with the new IKE SA.
            rekey_child(&mut world, 1 - end);
            world.run(seconds(5));
            world.assert_settled("a rekey after the rekey");
            world.run(seconds(300));
            world.assert_settled("later");
        }
    }
}

#[test]
fn time_and_number_of_packets_rekey() {
    let with = |end| {
        let mut connection = connection(end);
        connection.children[0].rekey = Some(seconds(60));
        connection.times.ike_rekey = Some(seconds(200));
        connection
    };
    let mut world = World::new(with(A), with(B));
    world.run(seconds(1000));
    world.assert_settled("after many rekeys");
    let rekeys = adit_core::Protocol::peers(&world.ends[A])[0].1.rekeys;
    assert!((15..30).contains(&rekeys), "{rekeys}");
    let session = world.planes[A].first_active().unwrap();
    world.notify(A, Notice::LimitNear { peer: PEER, session });
    world.run(seconds(2));
    assert_ne!(world.planes[A].first_active(), Some(session));
    assert!(world.is_connected() && world.planes.iter().all(|plane| plane.downs.is_empty()));
}

/// With short times the lifetime ends where the rekey is due (`rekey_time = 2s`: the lifetime is 1.1 times as long, in whole seconds),
/// and the timers of a busy machine come late.
#[test]
fn a_child_sa_is_rekeyed_though_its_lifetime_is_over() {
    let mut a = connection(A);
    (a.children[0].rekey, a.children[0].lifetime) = (Some(seconds(60)), Some(seconds(60)));
    let mut world = World::new(a, connection(B));
    for rekeys in 1..4 {
        world.run(seconds(50));
        let before = world.planes[A].first_active();
        world.now += seconds(15);
        world.run(seconds(2));
        world.assert_settled("after the lifetime");
        assert_ne!(world.planes[A].first_active(), before);
        assert_eq!(adit_core::Protocol::peers(&world.ends[A])[0].1.rekeys, rekeys);
        assert!(world.planes.iter().all(|plane| plane.gaps == 0 && plane.downs.is_empty()));
    }
}

/// The peer refuses a rekey until the lifetime is over. The child takes no action of its own where its child SA is lost.
#[test]
fn a_child_sa_that_was_not_rekeyed_in_its_lifetime_is_made_anew() {
    let mut a = connection(A);
    let child = &mut a.children[0];
    (child.rekey, child.lifetime) = (Some(seconds(20)), Some(seconds(21)));
    (child.on_close, child.on_dead_peer) = (EndAction::None, EndAction::None);
    let mut world = World::new(a, connection(B));
    world.run(seconds(15));
    let before = world.planes[A].first_active();
    let refuse = |world: &mut World, refuses: bool| {
        world.ends[B].sas.values_mut().for_each(|sa| sa.is_waiting = refuses);
    };
    refuse(&mut world, true);
    world.run(Duration::from_millis(5_500));
    assert_eq!(world.planes[A].first_active(), before);
    refuse(&mut world, false);
    world.run(seconds(1));
    assert!(world.is_connected() && world.planes[A].first_active() != before, "{}", world.state());
    world.run(seconds(11));
    world.assert_settled("after the old child SA was deleted");
    assert!(world.planes.iter().all(|plane| plane.gaps == 0 && plane.downs.is_empty()));
}

/// Both ends rekey at once; the second one at each moment of the first one's rekey.
#[test]
fn rekeys_collide_at_each_moment() {
    for (first_kind, first) in REKEYS {
        for (second_kind, second) in REKEYS {
            for millis in 0..60 {
                let mut world = connected();
                first(&mut world, A);
                world.run(Duration::from_millis(millis));
                second(&mut world, B);
                world.run(seconds(30));
                let what = format!("{first_kind}, and {second_kind} {millis} ms later");
                world.assert_settled(&what);
                assert!(world.planes.iter().all(|plane| plane.downs.is_empty() && plane.gaps == 0), "{what}");
            }
        }
    }
}

/// Both ends rekey at once, and a message is lost. Traffic passes after one retransmission.
#[test]
fn rekeys_collide_and_each_message_may_be_lost() {
    for (first_kind, first) in REKEYS {
        for (second_kind, second) in REKEYS {
            for (lost, millis) in (1..9).flat_map(|lost| [0, 5, 15, 25].map(|millis| (lost, millis))) {
                let mut world = connected();
                let mut count = 0;
                world.network = Box::new(move |_, _| {
                    count += 1;
                    if count == lost { vec![] } else { vec![Duration::from_millis(10)] }
                });
                first(&mut world, A);
                world.run(Duration::from_millis(millis));
                second(&mut world, B);
                let what =
                    format!("{first_kind}, and {second_kind} {millis} ms later, without message {lost}");
                world.run(seconds(3));
                assert!(world.is_connected(), "{what}: {}", world.state());
                // Replaced SAs that the peer has not deleted end after three minutes.
                world.run(seconds(200));
                world.assert_settled(&what);
                assert!(world.planes.iter().all(|plane| plane.downs.is_empty()), "{what}");
            }
        }
    }
}

/// The peer's rekey that collides with a rekey of `end`: the SPI that `end` chose for the SA of the peer's rekey, and the lower
/// nonce of the peer's rekey.
fn peers_rekey(world: &World, end: usize) -> (u64, Vec<u8>) {
    let found = world.ends[end].sas.values().find_map(|sa| match &sa.pending.as_ref()?.request {
        Request::Child(request) => {
            request.peers.as_ref().map(|peers| (u64::from(peers.spi), peers.lowest.clone()))
        }
        Request::IkeRekey(request) => {
            request.peers.as_ref().map(|peers| (u64::from_be_bytes(peers.spi.0), peers.lowest.clone()))
        }
        _ => None,
    });
    found.expect("a collision")
}

/// The SA of the exchange with the lowest of the four nonces is deleted (RFC 7296 sections 2.8.1 and 2.8.2).
#[test]
fn of_two_rekeys_that_with_the_lowest_nonce_is_redundant() {
    let mut winners = [0, 0];
    for (kind, rekey) in REKEYS {
        for before in 0..8 {
            let mut world = connected();
            for _ in 0..before {
                rekey_child(&mut world, A);
                world.run(seconds(2));
            }
            rekey(&mut world, A);
            rekey(&mut world, B);
            world.run(Duration::from_millis(15));
            let [(of_b, lowest_of_b), (of_a, lowest_of_a)] = [A, B].map(|end| peers_rekey(&world, end));
            // Each end knows the SA that the other end's exchange made.
            let (end, survivor) = if lowest_of_a < lowest_of_b { (A, of_b) } else { (B, of_a) };
            winners[1 - end] += 1;
            world.run(seconds(30));
            world.assert_settled(kind);
            let ike = world.ends[end].sas.keys().map(|spi| u64::from_be_bytes(spi.0));
            let sessions = world.planes[end].sessions.keys().map(|session| session.0);
            assert!(ike.chain(sessions).any(|spi| spi == survivor), "{kind} after {before} rekeys");
        }
    }
    assert!(winners.iter().all(|count| *count > 0), "{winners:?}");
}

/// The end that asks for the deletion may seal packets with the old child SA until it has the answer, and packets overtake each other.
#[test]
fn a_session_opens_packets_for_a_short_time_after_its_child_sa_was_deleted() {
    let mut world = connected();
    let old = *world.planes[B].sessions.keys().next().unwrap();
    rekey_child(&mut world, A);
    world.run(Duration::from_millis(200));
    assert_eq!(world.ends[B].sas.values().next().unwrap().children.len(), 1, "the old one is deleted");
    assert!(world.planes[B].sessions.contains_key(&old) && world.planes[B].first_active() != Some(old));
    world.run(seconds(1));
    world.assert_settled("a second later");
    assert!(!world.planes[B].sessions.contains_key(&old));
    // The last child SA of a child goes at once.
    world.reply(A, Reply::Terminate("b.example".to_owned()));
    world.run(Duration::from_millis(200));
    assert!(world.planes.iter().all(|plane| plane.sessions.is_empty()));
}

/// If no packet shows that the peer has the new keys, its deletion of the old child SA shows it.
#[test]
fn without_packets_the_deletion_changes_to_the_new_child_sa() {
    for end in [A, B] {
        let mut world = connected();
        world.is_quiet = true;
        for _ in 0..3 {
            rekey_child(&mut world, end);
            world.run(seconds(2));
            world.assert_settled("without packets");
        }
        assert!(world.planes.iter().all(|plane| plane.gaps == 0), "packets are dropped");
    }
}

/// At all times while nothing is lost, each end seals with keys that the other end has.
#[test]
fn no_packet_is_sealed_with_keys_that_the_peer_lacks() {
    for (_, rekey) in REKEYS {
        for end in [A, B] {
            let mut world = connected();
            rekey(&mut world, end);
            for step in 0..100 {
                world.run(Duration::from_millis(1));
                assert!(world.is_connected(), "{step}: {}", world.state());
            }
        }
    }
}

#[test]
fn a_child_sa_is_rekeyed_with_another_group_or_none() {
    let with = |end, esp| {
        let mut connection = connection(end);
        connection.children[0].esp = esp_proposals(esp).unwrap();
        connection
    };
    for (a, b) in [("aes256gcm16", "aes256gcm16-x25519"), ("aes256gcm16-ecp256-x25519", "aes256gcm16-x25519")]
    {
        let mut world = World::new(with(A, a), with(B, b));
        world.run(seconds(5));
        let session = world.planes[A].first_active();
        assert!(
            world.ends[A].peers()[0].1.detail.children[0].groups.is_empty(),
            "the first has none of its own"
        );
        rekey_child(&mut world, A);
        world.run(seconds(5));
        world.assert_settled(a);
        assert_ne!(world.planes[A].first_active(), session);
        let groups = |end: usize| world.ends[end].peers()[0].1.detail.children[0].groups.clone();
        let expected = if a.contains('-') { vec![Group::X25519] } else { Vec::new() };
        assert_eq!([groups(A), groups(B)], [expected.clone(), expected], "{a}");
    }
}

/// A peer that demands what the other end does not offer: the child SA in use stays.
#[test]
fn a_rekey_that_is_refused_is_tried_again() {
    let mut world = connected();
    let others = esp_proposals("aes128gcm16-x25519").unwrap();
    world.ends[B].connections.get_mut(0).unwrap().children[0].esp = others;
    rekey_child(&mut world, A);
    world.run(seconds(20));
    world.assert_settled("after refusals");
    let text = world.planes[A].reports.join("\n");
    assert!(text.contains("refuses to rekey a child SA: NO_PROPOSAL_CHOSEN"), "{text}");
}

#[test]
fn an_ike_sa_is_rekeyed_with_post_quantum_keys() {
    let with = |end| {
        let mut connection = connection(end);
        connection.ike = ike_proposals("aes256-sha256-mlkem768").unwrap();
        connection
    };
    let mut world = World::new(with(A), with(B));
    world.run(seconds(5));
    rekey_ike(&mut world, B);
    world.run(seconds(5));
    world.assert_settled("ML-KEM, in fragments");
}

#[test]
fn the_child_sa_is_deleted_while_it_is_rekeyed() {
    for millis in 0..30 {
        let mut world = connected();
        rekey_child(&mut world, A);
        world.run(Duration::from_millis(millis));
        world.command(B, Command::Disconnect { peer: PEER });
        world.run(seconds(60));
        world.assert_settled(&format!("{millis} ms later, end A has initiated anew"));
    }
}

/// Many rekeys of both kinds by both ends over a bad network. Afterwards both ends agree.
#[test]
fn after_any_rekeys_both_ends_agree() {
    for seed in 0..60 {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut world = connected();
        let mut of_network = ChaCha20Rng::seed_from_u64(seed + 1000);
        world.network = Box::new(move |_, _| {
            let draw = of_network.next_u32() % 100;
            let delay = |rng: &mut ChaCha20Rng| Duration::from_millis(u64::from(rng.next_u32() % 3000));
            match draw {
                0..20 => vec![],
                20..30 => vec![delay(&mut of_network), delay(&mut of_network)],
                30..40 => vec![delay(&mut of_network)],
                _ => vec![Duration::from_millis(10)],
            }
        });
        for _ in 0..30 {
            let (_, rekey) = REKEYS[rng.next_u32() as usize % 2];
            rekey(&mut world, rng.next_u32() as usize % 2);
            world.run(Duration::from_millis(u64::from(rng.next_u32() % 3000)));
        }
        world.network = Box::new(|_, _| vec![Duration::from_millis(10)]);
        world.run(seconds(400));
        world.assert_settled(&format!("seed {seed}"));
        let is_loss =
            |reason: &String| reason == "it does not answer" || reason == "the peer deleted the IKE SA";
        assert!(
            world.planes.iter().all(|plane| plane.downs.iter().all(is_loss)),
            "seed {seed}: {}",
            world.state()
        );
    }
}
