//! Sites: devices of connections, programs of children, names of peers, and restarts of both ends.

use std::net::SocketAddr;
use std::sync::Arc;

use adit_core::{Activity, Command, DeviceId, Flow, Notice, PeerActivity};

use super::world::*;
use crate::machine::{Connection, EndAction, Reply, Request, StartAction};

#[test]
fn the_peer_of_a_connection_has_its_device() {
    let mut a = connection(A);
    a.device = DeviceId(3);
    a.children[0].start = StartAction::TrapAndStart;
    let mut world = World::new(a, connection(B));
    let device = |world: &World, end: usize| world.planes[end].peer.as_ref().map(|peer| peer.device);
    assert_eq!(device(&world, A), Some(DeviceId(3)), "a packet there brings the child up");
    world.run(seconds(5));
    world.assert_settled("with a device");
    assert_eq!((device(&world, A), device(&world, B)), (Some(DeviceId(3)), Some(DeviceId::MAIN)));
}

fn with_program(end: usize) -> Connection {
    let mut connection = connection(end);
    connection.children[0].updown = Some(Arc::from("/bin/true"));
    connection.children[0].rekey = Some(seconds(60));
    connection
}

/// The changes of children that an end has told.
fn told(world: &World, end: usize) -> Vec<String> {
    let change = |request: &Request| match request {
        Request::ChildUp(child) => Some(format!("{} up at {}", child.child, child.path.remote())),
        Request::ChildDown { child, .. } => Some(format!("{child} down")),
        Request::LookUp(name) => Some(format!("names of {name}")),
        Request::SasChanged(_) | Request::Failed { .. } => None,
    };
    world.planes[end].notifications.iter().filter_map(change).collect()
}

#[test]
fn a_child_with_a_program_tells_when_it_comes_up_and_goes_down_and_no_rekey() {
    let mut world = World::new(with_program(A), with_program(B));
    world.run(seconds(600));
    world.assert_settled("after rekeys");
    let up = |peer: u8| format!("net up at 192.0.2.{peer}:500");
    assert_eq!((told(&world, A), told(&world, B)), (vec![up(2)], vec![up(1)]));
    let up_request = |request: &Request| match request {
        Request::ChildUp(child) => Some(child.clone()),
        _ => None,
    };
    let child = world.planes[A].notifications.iter().find_map(up_request).expect("a child");
    assert_eq!((&*child.program, child.local_address), ("/bin/true", Some(address(A))));
    assert_eq!(
        (&child.local_identity, &child.remote_identity),
        (&identity("a.example"), &identity("b.example"))
    );
    assert_eq!((child.local.len(), child.remote.len()), (1, 1));
    world.command(B, Command::Restart);
    world.run(seconds(60));
    assert_eq!(told(&world, A), [up(2), "net down".to_owned(), up(2)]);
    assert_eq!(told(&world, B), [up(1), "net down".to_owned(), up(1)]);
    world.command(A, Command::Shutdown);
    world.run(seconds(5));
    assert_eq!(told(&world, A).last().map(String::as_str), Some("net down"), "at the end, too");
    let mut plain = World::new(connection(A), connection(B));
    plain.run(seconds(5));
    plain.command(A, Command::Shutdown);
    assert!(told(&plain, A).is_empty(), "without a program nothing is told");
}

#[test]
fn the_names_of_a_peer_are_looked_up_until_an_address_answers_and_after_each_end() {
    let mut a = connection(A);
    let right = a.remotes.clone();
    (a.has_names, a.remotes) = (true, Vec::new());
    let mut world = World::new(a, connection(B));
    world.run(seconds(12));
    // At the start, and after 5 s twice.
    assert_eq!(told(&world, A), ["names of b.example"; 3], "without an address");
    assert_eq!(world.log.len(), 0);
    let remotes = |remotes: Vec<SocketAddr>| Reply::Remotes { connection: "b.example".to_owned(), remotes };
    let silent: SocketAddr = "192.0.2.77:500".parse().unwrap();
    world.lost_address = Some(silent.ip());
    world.reply(A, remotes(vec![silent]));
    // The next attempt begins at 15 s and ends after 82 s.
    world.run(seconds(88));
    assert_eq!(told(&world, A).len(), 4, "the address did not answer: {:?}", world.planes[A].reports);
    world.reply(A, remotes(right));
    world.run(seconds(20));
    world.assert_settled("by the right address");
    assert_eq!(told(&world, A).len(), 4);
    // The peer is gone, and may have another address now.
    world.network = Box::new(|_, _| Vec::new());
    world.run(seconds(130));
    assert!(told(&world, A).len() > 4, "after the end of the IKE SA");
    world.reply(A, Reply::Remotes { connection: "removed.example".to_owned(), remotes: Vec::new() });
    assert!(!world.planes[A].reports.iter().any(|line| line.contains("removed")));
}

#[test]
fn a_connection_by_names_needs_no_address_at_its_start_and_one_by_addresses_does() {
    let mut a = connection(A);
    a.remotes = Vec::new();
    let made = |a: &Connection| {
        crate::machine::Endpoint::new(params(a.clone()), adit_core::Instant::ORIGIN, [1; 32])
    };
    assert!(made(&a).is_err());
    a.has_names = true;
    assert!(made(&a).is_ok());
}

/// `start_action = trap|start` of strongSwan 6: at the start, and by a packet after the peer has ended it.
#[test]
fn a_child_with_trap_and_start_comes_up_at_the_start_and_by_a_packet_later() {
    let mut a = connection(A);
    (a.children[0].start, a.children[0].on_close) = (StartAction::TrapAndStart, EndAction::None);
    let mut world = World::new(a, connection(B));
    world.run(seconds(5));
    world.assert_settled("at the start");
    world.reply(B, Reply::Terminate("a.example".to_owned()));
    world.run(seconds(30));
    assert!(world.ends.iter().all(|end| end.sas.is_empty()), "not by itself: {}", world.state());
    world.notify(A, Notice::Wanted { peer: PEER, flow: ANY_FLOW });
    world.run(seconds(5));
    world.assert_settled("by a packet");
}

/// Systems send packets to all hosts or routers of a link by themselves on each device that is up, such as reports of MLD: they bring no
/// child of all traffic up. Link-local addresses of one host are those of routers, as BGP of AWS has them.
#[test]
fn packets_that_systems_send_on_each_link_bring_no_child_up() {
    let with = |end: usize| {
        let mut connection = connection(end);
        connection.children[0] = child(end, "net", ["::/0", "::/0"]);
        connection.children.push(child(end, "net4", ["0.0.0.0/0", "0.0.0.0/0"]));
        connection.children.iter_mut().for_each(|child| child.start = StartAction::None);
        connection
    };
    let mut a = with(A);
    a.remotes = connection(A).remotes;
    a.children.iter_mut().for_each(|child| child.start = StartAction::Trap);
    let mut world = World::new(a, with(B));
    let packet = |world: &mut World, [local, remote]: [&str; 2]| {
        let flow = Flow::between(local.parse().unwrap(), remote.parse().unwrap());
        world.notify(A, Notice::Wanted { peer: PEER, flow });
        world.run(seconds(3));
        world.log.len()
    };
    for ends in [
        ["fe80::1", "ff02::16"],
        ["fe80::1", "ff01::1"],
        ["fe80::1", "ff12::5"],
        ["10.1.0.1", "224.0.0.22"],
        ["10.1.0.1", "255.255.255.255"],
    ] {
        assert_eq!(packet(&mut world, ends), 0, "{ends:?}");
    }
    world.children = 1;
    assert_eq!(packet(&mut world, ["169.254.7.1", "169.254.7.2"]), 4, "a host");
    world.assert_settled("by a packet to a host");
    world.children = 2;
    assert!(packet(&mut world, ["fd00::1", "ff05::2"]) > 4, "several links");
    world.assert_settled("by a packet to several links");
}

#[test]
fn a_child_sa_without_a_packet_ends_and_a_packet_brings_it_up_again() {
    let mut a = with_program(A);
    a.children[0].inactivity = Some(seconds(100));
    (a.children[0].start, a.times.dead_peer_detection) = (StartAction::TrapAndStart, None);
    let mut world = World::new(a, connection(B));
    world.run(seconds(80));
    let traffic = |world: &World| {
        let received = Activity { last_data: Some(world.now), ..Activity::default() };
        let activity = PeerActivity { received, ..PeerActivity::default() };
        let (received, received_bytes) = (1, 60);
        Notice::Traffic {
            peer: PEER,
            received,
            sent: 0,
            received_bytes,
            sent_bytes: 0,
            message_bytes: 0,
            activity,
        }
    };
    world.notify(A, traffic(&world));
    // Rekeys come each minute and are no packets.
    world.run(seconds(95));
    world.assert_settled("a packet passed 95 s ago");
    world.run(seconds(10));
    assert!(world.planes.iter().all(|plane| plane.sessions.is_empty()), "{}", world.state());
    assert_eq!(told(&world, A), ["net up at 192.0.2.2:500", "net down"]);
    assert!(world.planes[A].reports.iter().any(|line| line.contains("no packet for 100 s")));
    world.run(seconds(300));
    assert!(world.planes[A].sessions.is_empty(), "no action brings it up");
    world.notify(A, Notice::Wanted { peer: PEER, flow: ANY_FLOW });
    world.run(seconds(5));
    world.assert_settled("by a packet");
}

/// Restarts an end at some time after the last one, so that restarts come in each phase, and checks that one child SA is left when both
/// have had the time to find that the other has restarted.
fn restarts(count: u32, both_initiate: bool) {
    let end = |end: usize| {
        let mut connection = connection(end);
        if both_initiate {
            initiates(&mut connection, end);
        }
        connection
    };
    let mut world = World::new(end(A), end(B));
    // A peer is given up 82 s after a sign of life is asked for, which is after 30 s of silence.
    let (settles, mut random) = (seconds(150), 1u32);
    for number in 0..count {
        world.run(settles);
        world.assert_settled(&format!("restart {number}, both initiate: {both_initiate}"));
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (who, again) = ((random >> 8) as usize % 2, random >> 16 & 1 == 1);
        let restart =
            |world: &mut World, who: usize, seed: u32| world.restart(who, params(end(who)), seed as u8);
        restart(&mut world, who, 3 + 2 * number);
        if again {
            // Within the first messages, or when they are over.
            world.run(std::time::Duration::from_millis(u64::from(random >> 20 & 63)));
            restart(&mut world, 1 - who, 4 + 2 * number);
        }
    }
    world.run(settles);
    world.assert_settled("at the end");
}

#[test]
fn restarts_of_either_end_leave_one_child() {
    restarts(100, true);
    restarts(100, false);
}

mod long {
    #[test]
    #[ignore = "long"]
    fn a_thousand_restarts_of_either_end_leave_one_child() {
        super::restarts(500, true);
        super::restarts(500, false);
    }
}
