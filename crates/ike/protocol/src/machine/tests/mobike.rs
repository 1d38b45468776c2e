//! Changes of addresses (RFC 4555).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use adit_core::{Command, Path};

use super::world::*;
use crate::machine::{Connection, Reply};
use crate::wire::{ExchangeType, NotifyType, Payload};

const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 77));

fn connected_with(is_supported: [bool; 2]) -> World {
    let [a, b] = [A, B].map(|end| {
        let mut connection = connection(end);
        connection.mobike = is_supported[end];
        connection
    });
    let mut world = World::new(a, b);
    world.run(seconds(5));
    world.assert_settled("before the change");
    world
}

fn remote_at(world: &World, end: usize) -> IpAddr {
    world.planes[end].peer.as_ref().unwrap().path.unwrap().remote().ip()
}

#[test]
fn the_initiator_moves_and_its_child_sas_stay() {
    let mut world = connected_with([true, true]);
    let sessions: Vec<_> = world.planes[B].sessions.keys().copied().collect();
    let before = world.log.len();
    world.move_a(ELSEWHERE);
    world.run(seconds(1));
    world.assert_settled("after the change");
    assert_eq!(remote_at(&world, B), ELSEWHERE);
    assert!(world.planes[B].sessions.keys().copied().eq(sessions));
    assert_eq!(world.log.len() - before, 4, "an update, and a check with a cookie");
    assert!(world.planes.iter().all(|plane| plane.downs.is_empty()));
    // And back behind a NAT: ESP goes in UDP from then on.
    world.moved = None;
    world.nat = Some(20_000);
    world.command(
        A,
        Command::RouteChanged { peer: PEER, path: world.ends[A].sas.values().next().unwrap().path },
    );
    world.run(seconds(2));
    world.assert_settled("behind a NAT");
    let path = world.planes[B].peer.as_ref().unwrap().path.unwrap();
    assert_eq!((path.socket(), path.remote().port()), (Some(1), 20_001));
    assert!(world.planes[B].peer.as_ref().unwrap().roams);
}

/// The sockets are bound to all addresses, and the system says from which address it reaches the peer.
#[test]
fn an_initiator_says_that_the_system_has_another_address_for_it() {
    let [a, b] = [A, B].map(|end| Connection { mobike: true, ..connection(end) });
    let mut world = World::new(a.clone(), b);
    world.learn_addresses(params(a));
    world.ends[A].set_sources([(address(B), address(A))].into());
    world.run(seconds(5));
    world.assert_settled("before the change");
    let before = world.log.len();
    // The way to another peer.
    let other = IpAddr::from([203, 0, 113, 1]);
    world.reply(A, Reply::Sources([(address(B), address(A)), (other, ELSEWHERE)].into()));
    assert_eq!(world.log.len(), before);
    // There is no way to the peer for a while, and then another one.
    world.reply(A, Reply::Sources([].into()));
    assert_eq!(world.log.len(), before);
    world.moved = Some(ELSEWHERE);
    world.reply(A, Reply::Sources([(address(B), ELSEWHERE)].into()));
    world.run(seconds(1));
    world.assert_settled("after the change");
    assert_eq!(remote_at(&world, B), ELSEWHERE);
    assert_eq!(world.log.len() - before, 4, "an update, and a check with a cookie");
    assert!(world.planes.iter().all(|plane| plane.downs.is_empty()));
}

#[test]
fn a_rekey_by_the_responder_does_not_change_who_moves() {
    let mut world = connected_with([true, true]);
    let sa = *world.ends[B].sas.keys().next().unwrap();
    let now = world.now;
    world.ends[B].with_sa(sa, |sa, cx| {
        sa.rekey_at = Some(now);
        sa.next_task(cx);
    });
    world.command(B, Command::LeasesMoved);
    world.run(seconds(2));
    world.assert_settled("after the rekey");
    world.move_a(ELSEWHERE);
    world.run(seconds(2));
    world.assert_settled("after the change");
    assert_eq!(remote_at(&world, B), ELSEWHERE);
}

#[test]
fn without_the_support_of_both_ends_no_end_moves() {
    for supported in [[true, false], [false, true]] {
        let mut world = connected_with(supported);
        let before = world.log.len();
        world.move_a(ELSEWHERE);
        world.run(seconds(1));
        assert_eq!(world.log.len(), before);
    }
}

/// The responder has nothing to say about addresses.
#[test]
fn a_responder_sends_no_update_and_its_update_is_not_followed() {
    let mut world = connected_with([true, true]);
    let before = world.log.len();
    let path = world.ends[B].sas.values().next().unwrap().path;
    world.command(B, Command::RouteChanged { peer: PEER, path });
    assert_eq!(world.log.len(), before);
    let sa = *world.ends[B].sas.keys().next().unwrap();
    let update = [crate::machine::payloads::notify(NotifyType::UPDATE_SA_ADDRESSES, Vec::new())];
    world.ends[B].with_sa(sa, |sa, cx| {
        sa.request(cx, ExchangeType::INFORMATIONAL, &update, crate::machine::sa::Request::Liveness);
    });
    world.command(B, Command::LeasesMoved);
    let mut forged = world.log[before].clone();
    world.forget_datagrams();
    forged.path = Path::Udp { socket: 1, remote: SocketAddr::new(ELSEWHERE, 4500) };
    world.deliver(&forged);
    world.run(seconds(1));
    assert_eq!(remote_at(&world, A), address(B));
}

/// MOBIKE pointed at a victim: packets go to a new address only after the peer has answered there.
#[test]
fn packets_do_not_go_to_an_address_that_does_not_answer() {
    let mut world = connected_with([true, true]);
    world.network =
        Box::new(|_, datagram| if datagram.to == A { vec![] } else { vec![Duration::from_millis(10)] });
    world.move_a(ELSEWHERE);
    world.run(seconds(20));
    assert_eq!(remote_at(&world, B), address(A));
}

/// The answer to a check has the cookie of the check.
#[test]
fn an_answer_without_the_cookie_ends_the_ike_sa() {
    let mut world = connected_with([true, true]);
    world.move_a(ELSEWHERE);
    world.run(Duration::from_millis(15));
    // The update has come, and the check is on its way.
    for sa in world.ends[B].sas.values_mut() {
        let Some(crate::machine::sa::Request::AddressCheck(check)) =
            sa.pending.as_mut().map(|pending| &mut pending.request)
        else {
            panic!("a check")
        };
        check.forget_cookie();
    }
    world.run(seconds(1));
    assert_eq!(world.planes[B].downs, ["it did not show that it is at its new address"]);
}

#[test]
fn a_cookie_in_any_request_is_returned() {
    let mut world = connected_with([false, false]);
    let sa = *world.ends[A].sas.keys().next().unwrap();
    let cookie = [crate::machine::payloads::notify(NotifyType::COOKIE2, vec![7; 8])];
    let before = world.log.len();
    world.ends[A].with_sa(sa, |sa, cx| {
        sa.request(cx, ExchangeType::INFORMATIONAL, &cookie, crate::machine::sa::Request::Liveness);
    });
    world.command(A, Command::LeasesMoved);
    world.run(seconds(1));
    let answer = world.log[before..].iter().find(|datagram| datagram.to == A).expect("an answer");
    let message = crate::wire::Message::decode(&answer.bytes).unwrap();
    let sealed = message.sealed.unwrap();
    let sa = world.ends[A].sas.values().next().unwrap();
    let plain = sa.channel.as_ref().unwrap().open.open(&answer.bytes, &sealed).unwrap();
    let payloads = crate::wire::decode_chain(sealed.first, &plain).unwrap();
    assert!(
        payloads.iter().any(|payload| matches!(payload, Payload::Notify(notify) if notify.data == [7; 8]))
    );
}

/// The peer has two addresses, and the way to the first one is gone.
#[test]
fn another_address_of_the_peer_is_tried_before_it_is_given_up() {
    let second: IpAddr = "192.0.2.99".parse().unwrap();
    let [mut a, mut b] = [connection(A), connection(B)];
    (a.mobike, b.mobike) = (true, true);
    b.times.dead_peer_detection = None;
    a.remotes.push(SocketAddr::new(second, 500));
    let mut world = World::new(a, b);
    world.run(seconds(5));
    world.assert_settled("at the first address");
    world.move_b(second);
    world.run(seconds(150));
    assert!(world.planes[A].downs.is_empty(), "{}", world.state());
    assert_eq!(world.ends[A].sas.values().next().unwrap().path.remote().ip(), second);
    assert_eq!(remote_at(&world, A), second);
}

/// A first address that does not answer is followed by the next one.
#[test]
fn an_initiator_tries_the_addresses_of_its_peer_one_after_the_other() {
    let mut a = connection(A);
    a.remotes = vec![SocketAddr::new("192.0.2.99".parse().unwrap(), 500), SocketAddr::new(address(B), 500)];
    let mut world = World::new(a, connection(B));
    world.lost_address = Some("192.0.2.99".parse().unwrap());
    world.run(seconds(90));
    world.assert_settled("at the second address");
}
