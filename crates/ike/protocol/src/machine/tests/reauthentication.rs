//! Reauthentication, and the fate of older IKE SAs.

use adit_core::Command;

use super::world::*;
use crate::machine::{Connection, Reply, Unique};

fn two(end: usize) -> Connection {
    let mut connection = connection(end);
    connection.children.push(child(end, "second", ["10.3.0.0/16", "10.4.0.0/16"]));
    if end == A {
        initiates(&mut connection, end);
    }
    connection
}

/// Make before break: the children of the new IKE SA are up before the old one is deleted.
#[test]
fn an_initiator_authenticates_anew_and_no_packet_is_lost() {
    let mut a = two(A);
    a.times.reauthentication = Some(seconds(60));
    let mut world = World::new(a, two(B));
    world.children = 2;
    world.run(seconds(5));
    let first: Vec<_> = world.ends[A].sas.keys().copied().collect();
    let sessions = world.planes[A].sessions.clone();
    for step in 0..400 {
        world.run(std::time::Duration::from_millis(500));
        assert!(world.is_connected(), "{step}: {}", world.state());
    }
    world.assert_settled("after authentications");
    assert!(first.iter().all(|spi| !world.ends[A].sas.contains_key(spi)));
    assert!(sessions.keys().all(|session| !world.planes[A].sessions.contains_key(session)));
    assert!(world.planes.iter().all(|plane| plane.downs.is_empty() && plane.gaps == 0 && plane.ups == 1));
}

/// The responder seals with the new child SAs once the initiator has them, whatever the time of the messages on their way.
#[test]
fn while_an_ike_sa_is_authenticated_anew_each_end_seals_with_keys_that_the_other_end_has() {
    for has_packets in [true, false] {
        let mut world = World::new(two(A), two(B));
        world.children = 2;
        world.run(seconds(5));
        world.is_quiet = !has_packets;
        let first = world.ends[B].sas.keys().next().copied().unwrap();
        authenticate_anew(&mut world);
        world.command(A, Command::LeasesMoved);
        for step in 0..200 {
            world.run(std::time::Duration::from_millis(1));
            assert!(world.is_connected(), "{step}, with packets: {has_packets}: {}", world.state());
        }
        world.run(seconds(3));
        world.assert_settled("after the authentication");
        assert!(!world.ends[B].sas.contains_key(&first));
        assert!(world.planes.iter().all(|plane| plane.downs.is_empty() && plane.gaps == 0));
    }
}

/// The data plane of the initiator holds packets of child SAs that it asks for: in the first exchange, in later ones, and in rekeys.
#[test]
fn each_child_sa_that_an_end_asks_for_is_expected() {
    let mut world = World::new(two(A), two(B));
    world.children = 2;
    world.run(seconds(5));
    world.command(A, Command::Rekey { peer: PEER });
    world.run(seconds(5));
    world.assert_settled("after rekeys");
    let plane = &world.planes[A];
    assert!(plane.sessions.keys().all(|session| plane.expected.contains(session)));
    assert_eq!((plane.expected.len(), world.planes[B].expected.len()), (4, 0));
}

/// A rekey by the responder shortly before makes the responder the initiator of the IKE SA that is replaced. That is no second IKE SA
/// that both ends initiated at once.
#[test]
fn an_authentication_after_a_rekey_by_the_responder_is_no_collision() {
    let mut a = connection(A);
    a.times.reauthentication = Some(seconds(60));
    let mut world = World::new(a, connection(B));
    for _ in 0..8 {
        world.run(seconds(45));
        world.reply(B, Reply::Rekey("a.example".to_owned()));
        world.run(seconds(15));
    }
    world.run(seconds(30));
    world.assert_settled("after rekeys and authentications");
    assert!(world.planes.iter().all(|plane| plane.downs.is_empty() && plane.gaps == 0));
}

/// End A authenticates anew.
fn authenticate_anew(world: &mut World) {
    let now = world.now;
    let spi = world.ends[A].peers[&0].sa.unwrap();
    world.ends[A].with_sa(spi, |sa, _| sa.reauthentication_at = Some(now));
}

/// A rekey of an end's: of the IKE SA, or of its child SAs.
fn rekey(world: &mut World, end: usize, is_of_ike: bool) {
    match is_of_ike {
        true => world.reply(end, Reply::Rekey(["b.example", "a.example"][end].to_owned())),
        false => world.command(end, Command::Rekey { peer: PEER }),
    }
}

/// Either end rekeys the IKE SA, or its child SAs, before and while it is replaced by one with a new authentication. The new IKE SA has
/// all children, and nothing is left beside it.
#[test]
fn rekeys_before_and_while_an_ike_sa_is_authenticated_anew() {
    for (end, millis) in
        [A, B].into_iter().flat_map(|end| (0..60).step_by(5).map(move |millis| (end, millis)))
    {
        for (is_first, is_of_ike) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut world = World::new(two(A), two(B));
            world.children = 2;
            world.run(seconds(5));
            if is_first {
                rekey(&mut world, end, is_of_ike);
            } else {
                authenticate_anew(&mut world);
            }
            world.run(std::time::Duration::from_millis(millis));
            if is_first {
                authenticate_anew(&mut world);
            } else {
                rekey(&mut world, end, is_of_ike);
            }
            world.run(seconds(30));
            let what = format!("end {end}, {millis} ms, the rekey first: {is_first}, of IKE: {is_of_ike}");
            world.assert_settled(&what);
            assert!(world.planes.iter().all(|plane| plane.downs.is_empty()));
        }
    }
}

/// The peer may have sealed packets with the old child SAs before it got the request.
#[test]
fn the_child_sas_of_the_old_ike_sa_take_packets_until_the_peer_has_deleted_it() {
    let mut a = connection(A);
    a.times.reauthentication = Some(seconds(60));
    let mut world = World::new(a, connection(B));
    world.run(seconds(5));
    let sessions = world.planes[A].sessions.clone();
    let is_closing = |world: &World| {
        world.ends[A].sas.values().any(|sa| matches!(sa.phase, crate::machine::sa::Phase::Closing))
    };
    for _ in 0..60_000 {
        world.run(std::time::Duration::from_millis(1));
        if is_closing(&world) {
            break;
        }
    }
    assert!(is_closing(&world), "{}", world.state());
    assert!(sessions.keys().all(|session| world.planes[A].sessions.contains_key(session)));
    world.run(seconds(3));
    assert!(sessions.keys().all(|session| !world.planes[A].sessions.contains_key(session)));
}

/// RFC 4478: a responder says how long its authentication holds.
#[test]
fn a_responder_demands_a_new_authentication_in_time() {
    let mut b = connection(B);
    b.times.reauthentication = Some(seconds(100));
    let mut world = World::new(connection(A), b);
    world.run(seconds(5));
    let first = world.ends[B].sas.keys().next().copied().unwrap();
    world.run(seconds(80));
    assert!(world.ends[B].sas.contains_key(&first));
    world.run(seconds(10));
    world.assert_settled("after nine tenths of the time");
    assert!(!world.ends[B].sas.contains_key(&first));
    assert!(world.planes.iter().all(|plane| plane.downs.is_empty()));
}

#[test]
fn an_authentication_that_fails_leaves_the_ike_sa_and_is_tried_again() {
    let mut a = connection(A);
    a.times.reauthentication = Some(seconds(60));
    let mut b = connection(B);
    b.unique = Unique::Keep;
    let mut world = World::new(a, b);
    world.run(seconds(200));
    assert!(world.is_connected(), "after refused authentications: {}", world.state());
    assert!(world.planes[A].reports.join("\n").contains("it was not authenticated anew"));
    assert!(world.planes[B].reports.join("\n").contains("has an IKE SA with a peer"));
    assert!(world.planes.iter().all(|plane| plane.downs.is_empty() && plane.ups == 1));
}

#[test]
fn older_ike_sas_stay_or_go_as_the_connection_says() {
    for (unique, ike_sas) in [(Unique::Never, 2), (Unique::No, 1), (Unique::Replace, 1), (Unique::Keep, 1)] {
        let mut b = connection(B);
        b.unique = unique;
        let mut world = World::new(connection(A), b);
        world.run(seconds(5));
        // The initiator has lost its state, and says so.
        world.restart(A, params(connection(A)), 9);
        world.run(seconds(5));
        assert!(world.is_connected(), "{unique:?}: {}", world.state());
        assert_eq!(world.ends[B].sas.len(), ike_sas, "{unique:?}");
    }
}

/// However often a peer authenticates, its IKE SAs are bounded.
#[test]
fn ike_sas_of_a_peer_are_bounded() {
    let mut b = connection(B);
    b.unique = Unique::Never;
    let mut world = World::new(connection(A), b);
    for seed in 0..10 {
        world.restart(A, params(connection(A)), 20 + seed);
        world.run(seconds(3));
    }
    // Those that were closed wait for the answer to their deletion.
    let established = world.ends[B].sas.values();
    let established = established.filter(|sa| matches!(sa.phase, crate::machine::sa::Phase::Established));
    assert_eq!(established.count(), 4);
}

/// Two peers of one connection cannot throw each other out.
#[test]
fn a_second_identity_is_refused_while_the_first_is_there() {
    let mut b = connection(B);
    b.remote_auth.identity = crate::machine::PeerIdentity::Any;
    let mut world = World::new(connection(A), b);
    world.run(seconds(5));
    let sessions: Vec<_> = world.planes[B].sessions.keys().copied().collect();
    let mut other = connection(A);
    other.local_auth.identity = identity("c.example");
    world.nat = Some(20_000);
    world.restart(A, params(other), 9);
    world.run(seconds(5));
    assert!(world.planes[B].sessions.keys().copied().eq(sessions));
    assert_eq!(world.planes[A].ups, 0);
}
