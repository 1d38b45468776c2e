//! Several children of a connection.

use std::time::Duration;

use adit_core::{Flow, IpNet, Notice, Ports};

use super::world::*;
use crate::machine::{Connection, EndAction, Reply, StartAction};
use crate::suite::ike_proposals;
use crate::wire::{Delete, ExchangeType, Payload, ProtocolId};

/// A connection with two children, whose networks are 10.1.0.0/16 to 10.2.0.0/16 and 10.3.0.0/16 to 10.4.0.0/16.
fn two(end: usize) -> Connection {
    let mut connection = connection(end);
    connection.children.push(child(end, "second", ["10.3.0.0/16", "10.4.0.0/16"]));
    if end == A {
        initiates(&mut connection, end);
    }
    connection
}

fn world(a: Connection, b: Connection) -> World {
    let mut world = World::new(a, b);
    world.children = 2;
    world
}

fn connected() -> World {
    let mut world = world(two(A), two(B));
    world.run(seconds(5));
    world.assert_settled("with two children");
    world
}

/// A packet of the second child.
fn second_flow() -> Flow {
    let [local, remote] = ["10.3.0.1", "10.4.0.1"].map(|address| address.parse().unwrap());
    Flow { protocol: Some(17), ports: Some(Ports { local: 1, remote: 2 }), ..Flow::between(local, remote) }
}

/// The response to a rekey is lost, and before it comes again the peer has deleted the child SA that it made.
#[test]
fn a_child_sa_that_the_peer_deletes_before_its_response_comes_is_not_installed() {
    for (is_deleted, sessions) in [(true, 1), (false, 2)] {
        let mut world = World::new(connection(A), connection(B));
        world.run(seconds(5));
        let old = world.planes[A].first_active();
        world.is_quiet = true;
        let mut count = 0;
        world.network = Box::new(move |_, datagram| {
            count += usize::from(datagram.to == A);
            if datagram.to == A && count == 1 { vec![] } else { vec![Duration::from_millis(10)] }
        });
        world.command(A, adit_core::Command::Rekey { peer: PEER });
        world.run(Duration::from_millis(100));
        let sa = *world.ends[B].sas.keys().next().unwrap();
        let in_use = world.planes[B].first_active();
        let new = *world.planes[B].sessions.keys().find(|session| Some(**session) != in_use).unwrap();
        if is_deleted {
            let spis = vec![(new.0 as u32).to_be_bytes().to_vec()];
            let delete = Payload::Delete(Delete { protocol: ProtocolId::ESP, spis });
            world.ends[B].with_sa(sa, |sa, cx| {
                sa.request(cx, ExchangeType::INFORMATIONAL, &[delete], crate::machine::sa::Request::Liveness);
            });
            world.command(B, adit_core::Command::LeasesMoved);
        }
        world.run(Duration::from_millis(2_200));
        assert_eq!(world.planes[A].sessions.len(), sessions, "{}", world.state());
        assert_eq!(world.planes[A].first_active() == old, is_deleted);
        assert!(world.planes[A].downs.is_empty());
    }
}

#[test]
fn each_child_has_a_series_with_its_own_selectors() {
    let world = connected();
    for end in [A, B] {
        let plane = &world.planes[end];
        let numbers: Vec<u32> = plane.active.keys().copied().collect();
        assert_eq!(numbers, [0, 1]);
        let selectors = |series: u32| plane.sessions[&plane.active[&series]].selectors.clone();
        let flow = if end == A {
            second_flow()
        } else {
            let Flow { local, remote, .. } = second_flow();
            Flow { local: remote, remote: local, ..second_flow() }
        };
        assert!(selectors(1).iter().any(|selector| selector.matches(&flow)));
        assert!(!selectors(0).iter().any(|selector| selector.matches(&flow)));
        let peer = plane.peer.as_ref().unwrap();
        let routes: Vec<IpNet> = [["10.2.0.0/16", "10.4.0.0/16"], ["10.1.0.0/16", "10.3.0.0/16"]][end]
            .map(|net| net.parse().unwrap())
            .into();
        assert_eq!((peer.routes.clone(), peer.selectors.len()), (routes, 2));
    }
    assert_eq!(world.log.len(), 6, "the second child SA has an exchange of its own");
}

/// Both ends initiate without a child SA in `IKE_AUTH`, and the first message of one is lost: it comes again when the other IKE SA has
/// the child SA. Whichever IKE SA stays has a child SA of each child.
#[test]
fn the_ike_sa_that_stays_gets_the_children_of_the_one_that_goes() {
    for (lost, suite) in [A, B].into_iter().flat_map(|end| ["x25519", "ecp256", "ecp384"].map(|it| (end, it)))
    {
        let with = |end| {
            let mut connection = connection(end);
            connection.childless = crate::machine::Childless::Force;
            connection.ike = ike_proposals(&format!("aes256gcm16-prfsha256-{suite}")).unwrap();
            initiates(&mut connection, end);
            connection
        };
        let mut world = World::with_params(params(with(A)), params(with(B)));
        let mut is_lost = false;
        world.network = Box::new(move |_, datagram| {
            let is_first = datagram.to != lost && !is_lost;
            is_lost |= is_first;
            if is_first { vec![] } else { vec![Duration::from_millis(10)] }
        });
        world.run(seconds(60));
        world.assert_settled(&format!("without the first message of end {lost}, {suite}"));
    }
}

/// The response that gives the peer a child SA is lost, and this end rekeys that child SA, which the peer does not know. The peer has it
/// after its request has come again.
#[test]
fn a_child_sa_stays_if_a_peer_that_does_not_have_it_yet_refuses_to_rekey_it() {
    let mut world = world(two(A), two(B));
    let mut count = 0;
    world.network = Box::new(move |_, _| {
        count += 1;
        // The response to the request for the second child SA.
        if count == 6 { vec![] } else { vec![Duration::from_millis(10)] }
    });
    world.run(Duration::from_millis(200));
    assert_eq!((world.planes[A].sessions.len(), world.planes[B].sessions.len()), (1, 2));
    world.command(B, adit_core::Command::Rekey { peer: PEER });
    world.run(seconds(30));
    world.assert_settled("after the response");
    assert!(world.planes.iter().all(|plane| plane.downs.is_empty() && plane.gaps == 0));
}

#[test]
fn children_are_rekeyed_one_by_one_and_each_collides() {
    for millis in 0..40 {
        let mut world = connected();
        let before: Vec<_> = world.planes[A].sessions.keys().copied().collect();
        world.command(A, adit_core::Command::Rekey { peer: PEER });
        world.run(Duration::from_millis(millis));
        world.command(B, adit_core::Command::Rekey { peer: PEER });
        world.run(seconds(30));
        world.assert_settled(&format!("{millis} ms later"));
        assert!(before.iter().all(|session| !world.planes[A].sessions.contains_key(session)));
        assert!(world.planes.iter().all(|plane| plane.downs.is_empty() && plane.gaps == 0));
    }
}

#[test]
fn one_childs_rekey_leaves_the_other_child_as_it_is() {
    let mut world = connected();
    let [first, second] = [0, 1].map(|series| world.planes[A].active[&series]);
    world.notify(A, Notice::LimitNear { peer: PEER, session: second });
    world.run(seconds(5));
    world.assert_settled("after one rekey");
    assert_eq!(world.planes[A].active[&0], first);
    assert_ne!(world.planes[A].active[&1], second);
}

/// Deletes the child SA of a child at end B.
fn delete(world: &mut World, series: u32) {
    let session = world.planes[B].active[&series];
    let sa = world.ends[B].sas.keys().next().copied().unwrap();
    world.ends[B].with_sa(sa, |sa, cx| {
        sa.delete_child(u32::try_from(session.0).unwrap());
        sa.next_task(cx);
    });
    world.notify(B, Notice::Wanted { peer: PEER, flow: ANY_FLOW });
    world.run(seconds(5));
}

#[test]
fn a_child_that_the_peer_deletes_takes_its_action() {
    for action in [EndAction::None, EndAction::Start, EndAction::Trap] {
        let mut a = two(A);
        a.children[1].on_close = action;
        let mut world = world(a, two(B));
        world.run(seconds(5));
        let first = world.planes[A].active[&0];
        delete(&mut world, 1);
        assert_eq!(world.planes[A].active[&0], first, "the other child stays");
        assert_eq!(world.planes[A].active.contains_key(&1), action == EndAction::Start, "{action:?}");
        assert_eq!(world.planes[A].peer.as_ref().unwrap().staging, action == EndAction::Trap);
        assert!(world.planes[A].downs.is_empty());
    }
}

#[test]
fn a_packet_brings_its_child_up() {
    let mut a = two(A);
    a.children[0].start = StartAction::None;
    (a.children[1].start, a.children[1].on_close) = (StartAction::Trap, EndAction::None);
    let mut world = world(a, two(B));
    world.run(seconds(5));
    let peer = world.planes[A].peer.clone().expect("packets wait from the start on");
    assert!(
        peer.staging && peer.path.is_none() && peer.selectors.iter().any(|own| own.matches(&second_flow()))
    );
    assert_eq!(world.log.len(), 0);
    world.notify(A, Notice::Wanted { peer: PEER, flow: second_flow() });
    world.run(seconds(5));
    assert_eq!(world.planes[A].active.keys().collect::<Vec<_>>(), [&1]);
    assert_eq!(world.log.len(), 4, "its child SA is made with the IKE SA");
    // The peer ends it. Packets bring it up again.
    world.command(B, adit_core::Command::Disconnect { peer: PEER });
    world.run(seconds(20));
    assert!(world.planes[A].sessions.is_empty() && world.planes[A].peer.as_ref().unwrap().staging);
    world.notify(A, Notice::Wanted { peer: PEER, flow: second_flow() });
    world.run(seconds(5));
    assert_eq!((world.planes[A].ups, world.planes[A].active.len()), (2, 1));
}

#[test]
fn a_packet_of_a_further_child_brings_it_up_in_the_ike_sa_that_is_there() {
    let mut a = two(A);
    a.children[1].start = StartAction::Trap;
    let mut world = world(a, two(B));
    world.run(seconds(5));
    assert_eq!(world.planes[A].active.len(), 1);
    let spi = world.ends[A].sas.keys().next().copied();
    world.notify(A, Notice::Wanted { peer: PEER, flow: second_flow() });
    world.run(seconds(5));
    world.assert_settled("after a packet");
    assert_eq!(world.ends[A].sas.keys().next().copied(), spi);
}

/// The peer is not there: the packet's wish ends with the attempt, and the next packet brings another attempt.
#[test]
fn a_trap_stays_when_the_peer_does_not_answer() {
    let mut a = two(A);
    a.children.remove(0);
    a.children[0].start = StartAction::Trap;
    let mut world = World::new(a, two(B));
    world.network = Box::new(|_, _| vec![]);
    world.notify(A, Notice::Wanted { peer: PEER, flow: second_flow() });
    world.run(seconds(200));
    assert!(world.ends[A].sas.is_empty() && world.planes[A].peer.as_ref().unwrap().staging);
    let sent = world.log.len();
    world.run(seconds(100));
    assert_eq!(world.log.len(), sent, "nothing is asked for without a packet");
    world.network = Box::new(|_, _| vec![seconds(0)]);
    world.notify(A, Notice::Wanted { peer: PEER, flow: second_flow() });
    world.run(seconds(5));
    assert_eq!(world.planes[A].active.len(), 1);
}

#[test]
fn a_child_that_the_peer_refuses_leaves_the_others() {
    let mut b = two(B);
    b.children.remove(1);
    let mut world = World::new(two(A), b);
    world.run(seconds(20));
    world.assert_settled("with the child that both have");
    assert!(
        world.planes[A].reports.join("\n").contains("refuses to make a child SA: TS_UNACCEPTABLE (second)")
    );
    let mut b = two(B);
    b.children.remove(0);
    let mut world = World::new(two(A), b);
    world.run(seconds(5));
    assert_eq!(world.planes[A].active.keys().collect::<Vec<_>>(), [&1], "the first one is refused");
}

#[test]
fn an_ike_rekey_keeps_all_children() {
    let mut a = two(A);
    a.times.ike_rekey = Some(seconds(60));
    let mut world = world(a, two(B));
    world.run(seconds(200));
    world.assert_settled("after rekeys of the IKE SA");
    assert!(world.planes.iter().all(|plane| plane.downs.is_empty() && plane.gaps == 0));
}

#[test]
fn an_ike_sa_without_a_child_sa_is_made_where_both_allow_it() {
    use crate::machine::Childless;
    for (at_a, at_b, is_made) in [
        (Childless::Force, Childless::Allow, true),
        (Childless::Force, Childless::Never, false),
        (Childless::Allow, Childless::Force, true),
        (Childless::Prefer, Childless::Allow, true),
        (Childless::Prefer, Childless::Never, true),
    ] {
        let (mut a, mut b) = (two(A), two(B));
        (a.childless, b.childless) = (at_a, at_b);
        let mut world = world(a, b);
        world.run(seconds(5));
        assert_eq!(world.is_settled(), is_made, "{at_a:?} {at_b:?}: {}", world.state());
        if !is_made {
            assert!(world.planes[A].reports.join("\n").contains("RFC 6023"), "{:?}", world.planes[A].reports);
        }
    }
}

/// The peer deletes all child SAs in one message, among them one that is not there.
#[test]
fn several_child_sas_are_deleted_by_one_message() {
    let mut a = two(A);
    a.children.iter_mut().for_each(|child| child.on_close = EndAction::None);
    let mut world = world(a, two(B));
    world.run(seconds(5));
    let mut spis: Vec<Vec<u8>> =
        world.planes[B].sessions.keys().map(|session| session.0.to_be_bytes()[4..].to_vec()).collect();
    spis.push(vec![1, 2, 3, 4]);
    let sa = world.ends[B].sas.keys().next().copied().unwrap();
    let delete = Payload::Delete(Delete { protocol: ProtocolId::ESP, spis });
    world.ends[B].with_sa(sa, |sa, cx| {
        sa.request(cx, ExchangeType::INFORMATIONAL, &[delete], crate::machine::sa::Request::Liveness);
    });
    world.notify(B, Notice::Wanted { peer: PEER, flow: ANY_FLOW });
    world.run(seconds(5));
    assert!(world.planes[A].sessions.is_empty());
    assert_eq!(world.planes[A].downs, ["there is no child SA any more"]);
}

/// Both ends ask for a child SA of the second child, at each moment of the other end's exchange, and a message is lost or none.
#[test]
fn of_child_sas_that_both_ends_ask_for_at_once_one_stays() {
    let with = |end: usize| {
        let mut connection = two(end);
        initiates(&mut connection, end);
        connection.children.iter_mut().for_each(|child| child.start = StartAction::None);
        connection.children[0].start = if end == A { StartAction::Start } else { StartAction::None };
        connection
    };
    for (millis, lost) in (0..25).step_by(3).flat_map(|millis| (0..5).map(move |lost| (millis, lost))) {
        let mut world = World::new(with(A), with(B));
        world.run(seconds(5));
        let mut count = 0;
        world.network = Box::new(move |_, _| {
            count += 1;
            if count == lost { vec![] } else { vec![Duration::from_millis(10)] }
        });
        let initiate = |connection: &str| Reply::Initiate {
            connection: connection.to_owned(),
            child: Some("second".to_owned()),
        };
        world.reply(A, initiate("b.example"));
        world.run(Duration::from_millis(millis));
        world.reply(B, initiate("a.example"));
        world.children = 2;
        world.run(seconds(30));
        world.assert_settled(&format!("{millis} ms later, message {lost} is lost"));
    }
}
