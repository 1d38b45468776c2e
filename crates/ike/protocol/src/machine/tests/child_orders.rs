//! Orders to single child SAs and to the children that packets bring up, and what the adapter hears of IKE SAs.

use adit_core::{Protocol as _, SessionId};

use super::world::*;
use crate::machine::{ChildSelection, Connection, Reply, Request, StartAction, TrapOrder};

/// A connection with two children.
fn two(end: usize) -> Connection {
    let mut connection = connection(end);
    connection.children.push(child(end, "second", ["10.3.0.0/16", "10.4.0.0/16"]));
    if end == A {
        initiates(&mut connection, end);
    }
    connection
}

fn connected() -> World {
    let mut world = World::new(two(A), two(B));
    world.children = 2;
    world.run(seconds(5));
    world.assert_settled("with two children");
    world
}

/// The SPI of an end's child SA of a child, by the child's number.
fn spi(world: &World, end: usize, number: u32) -> u32 {
    let SessionId(session) = world.planes[end].active[&number];
    session as u32
}

fn names(world: &World, end: usize) -> Vec<String> {
    let (_, info) = &world.ends[end].peers()[0];
    info.detail.children.iter().map(|child| child.name.clone()).collect()
}

#[test]
fn one_child_sa_is_rekeyed_and_the_other_stays() {
    let mut world = connected();
    let before = [0, 1].map(|number| spi(&world, A, number));
    world.reply(A, Reply::RekeyChild(ChildSelection { peer: PEER, spi: before[1] }));
    world.run(seconds(5));
    world.assert_settled("after the rekey of one child SA");
    assert_eq!(spi(&world, A, 0), before[0]);
    assert_ne!(spi(&world, A, 1), before[1]);
}

#[test]
fn one_child_sa_is_deleted_and_is_not_brought_up_again() {
    let mut a = two(A);
    a.children.iter_mut().for_each(|child| child.on_dead_peer = crate::machine::EndAction::Start);
    let mut world = World::new(a, two(B));
    world.children = 2;
    world.run(seconds(5));
    let second = spi(&world, A, 1);
    world.reply(A, Reply::DeleteChild(ChildSelection { peer: PEER, spi: second }));
    world.run(seconds(300));
    for end in [A, B] {
        assert_eq!(names(&world, end), ["net"], "{}", world.state());
    }
    let child = Some("second".to_owned());
    world.reply(A, Reply::Initiate { connection: "b.example".to_owned(), child });
    world.run(seconds(5));
    world.assert_settled("initiated again");
}

#[test]
fn an_order_authenticates_anew_and_keeps_the_child_sas_children() {
    let mut world = connected();
    let before = world.ends[A].peers()[0].1.detail.own_spi;
    world.reply(A, Reply::ReauthenticatePeer(PEER));
    world.run(seconds(10));
    world.assert_settled("authenticated anew");
    assert_ne!(world.ends[A].peers()[0].1.detail.own_spi, before);
}

#[test]
fn packets_bring_a_child_up_from_one_order_to_the_other() {
    let mut a = connection(A);
    a.children[0].start = StartAction::None;
    let mut world = World::new(a, connection(B));
    world.run(seconds(1));
    let order = |is_installed, child: &str| {
        let (connection, child) = ("b.example".to_owned(), child.to_owned());
        Reply::SetTrap(TrapOrder { connection, child, is_installed })
    };
    world.reply(A, order(true, "net"));
    assert_eq!(world.ends[A].traps(), [("b.example".to_owned(), "net".to_owned())]);
    assert!(world.planes[A].peer.as_ref().is_some_and(|peer| peer.staging && !peer.selectors.is_empty()));
    world.reply(A, order(false, "net"));
    assert_eq!(world.ends[A].traps(), []);
    assert!(world.planes[A].peer.is_none(), "the data plane takes no packets for it any more");
    world.reply(A, order(true, "other"));
    assert_eq!(world.planes[A].reports.last().unwrap(), "b.example: there is no child other");
}

#[test]
fn the_adapter_hears_of_each_change_of_sas_and_of_failures() {
    let mut world = World::new(connection(A), connection(B));
    world.run(seconds(5));
    let changed = Request::SasChanged(PEER);
    for end in [A, B] {
        assert!(world.planes[end].notifications.contains(&changed), "it is up");
    }
    let hears = |world: &mut World, reply: Reply, what: &str| {
        world.planes.iter_mut().for_each(|plane| plane.notifications.clear());
        world.reply(A, reply);
        world.run(seconds(5));
        for end in [A, B] {
            assert!(world.planes[end].notifications.contains(&changed), "{what}, end {end}");
        }
    };
    let child = spi(&world, A, 0);
    hears(&mut world, Reply::RekeyChild(ChildSelection { peer: PEER, spi: child }), "rekey of the child SA");
    hears(&mut world, Reply::RekeyPeer(PEER), "rekey of the IKE SA");
    hears(&mut world, Reply::Terminate("b.example".to_owned()), "its end");
    assert!(world.ends[A].peer(PEER).is_none());
    world.network = Box::new(|_, _| Vec::new());
    world.planes[A].notifications.clear();
    world.reply(A, Reply::Initiate { connection: "b.example".to_owned(), child: None });
    assert_eq!(world.ends[A].connecting().len(), 0, "it begins with the next timeout");
    world.run(seconds(1));
    let [connecting] = &world.ends[A].connecting()[..] else { panic!("one IKE SA") };
    assert_eq!((connecting.connection.as_str(), connecting.peer), ("b.example", PEER));
    world.run(seconds(400));
    let is_failure = |it: &Request| matches!(it, Request::Failed { connection, reason } if connection == "b.example" && reason.contains("answer"));
    assert!(world.planes[A].notifications.iter().any(is_failure), "{:?}", world.planes[A].notifications);
}
