//! Connections that come and go at run time, and what a status shows.

use std::collections::BTreeSet;

use adit_core::{Event, Instant, Protocol, TunnelSettings};

use super::world::*;
use crate::machine::{BadParams, Params, Reply, is_name_of};
use crate::suite::Group;
use crate::wire::{IdType, Identification};

/// Two ends without connections.
fn bare() -> World {
    let none = |end| Params { connections: Vec::new(), ..params(connection(end)) };
    World::with_params(none(A), none(B))
}

fn reply(world: &mut World, end: usize, reply: Reply) {
    world.reply(end, reply);
}

fn add(world: &mut World, end: usize) {
    reply(world, end, Reply::Add(Box::new(connection(end))));
}

/// Before the first child SA, after it, and for peers that come later.
#[test]
fn the_mss_of_all_peers_is_limited() {
    // Two connections of each end with the other one.
    let two = || {
        let [mut a, mut b] = [A, B].map(|end| params(connection(end)));
        for (end, all) in [&mut a, &mut b].into_iter().enumerate() {
            let mut other = connection(end);
            other.name = "other".to_owned();
            other.local_auth.identity = identity(["c.example", "d.example"][end]);
            expect_peer(&mut other, ["d.example", "c.example"][end]);
            all.connections.push(other);
            let children = all.connections.iter_mut().flat_map(|connection| &mut connection.children);
            children.for_each(|child| child.rekey = Some(seconds(60)));
        }
        let mut world = World::with_params(a, b);
        world.is_quiet = true;
        world
    };
    let max_mss = |world: &World| world.planes[A].known.values().copied().collect::<Vec<_>>();
    let mut world = two();
    world.ends[A].limit_mss(1300);
    world.run(seconds(5));
    assert_eq!(max_mss(&world), [Some(1300); 2], "before there are peers");
    let mut world = two();
    world.run(seconds(5));
    assert_eq!(max_mss(&world), [None; 2]);
    world.ends[A].limit_mss(1200);
    world.command(A, adit_core::Command::LeasesMoved);
    assert_eq!(max_mss(&world), [Some(1200); 2], "beside peers that are there");
    // The peers' entries are made anew with each child SA.
    world.run(seconds(100));
    assert_eq!(max_mss(&world), [Some(1200); 2], "after rekeys");
}

#[test]
fn connections_come_and_go_at_run_time() {
    let mut world = bare();
    add(&mut world, B);
    add(&mut world, A);
    world.run(seconds(5));
    world.assert_settled("added at run time");
    reply(&mut world, A, Reply::Remove("b.example".to_owned()));
    world.run(seconds(5));
    assert!(world.ends.iter().all(|end| end.sas.is_empty()), "{}", world.state());
    assert_eq!(world.planes[A].downs, ["the connection was removed"]);
    assert!(world.planes[A].peer.is_none() && world.ends[A].peers.is_empty());
    world.run(seconds(60));
    assert_eq!(world.planes[A].ups, 1, "nothing is brought up any more");
    reply(&mut world, A, Reply::Remove("b.example".to_owned()));
    assert_eq!(world.planes[A].reports.last().unwrap(), "there is no connection b.example");
}

/// A reload that changes one connection leaves the IKE SAs of the others as they are.
#[test]
fn a_connection_that_is_removed_touches_no_other() {
    let mut b = params(connection(B));
    let mut other = connection(B);
    other.name = "c.example".to_owned();
    expect_peer(&mut other, "c.example");
    b.connections.push(other);
    let mut world = World::with_params(params(connection(A)), b);
    world.run(seconds(5));
    let sessions: Vec<_> = world.planes[B].sessions.keys().copied().collect();
    reply(&mut world, B, Reply::Remove("c.example".to_owned()));
    world.run(seconds(1));
    world.assert_settled("after the removal of another connection");
    assert!(world.planes[B].sessions.keys().copied().eq(sessions));
}

#[test]
fn a_peers_number_is_not_used_again() {
    let mut world = bare();
    let first = world.ends[B].add_connection(connection(B)).unwrap();
    assert_eq!(world.ends[B].add_connection(connection(B)), Err(BadParams::Name("a.example".to_owned())));
    assert!(world.ends[B].remove_connection("a.example"));
    assert!(world.ends[B].add_connection(connection(B)).unwrap() > first);
}

#[test]
fn a_child_is_brought_up_by_an_order_and_ended_by_another() {
    let mut a = connection(A);
    a.children[0].start = crate::machine::StartAction::None;
    let mut world = World::new(a, connection(B));
    world.run(seconds(5));
    assert_eq!(world.log.len(), 0, "nothing is started by itself");
    let name = "b.example".to_owned();
    let initiate = |child: &str| Reply::Initiate { connection: name.clone(), child: Some(child.to_owned()) };
    reply(&mut world, A, initiate("nothing"));
    assert_eq!(world.planes[A].reports.last().unwrap(), "b.example: there is no child nothing");
    reply(&mut world, A, initiate("net"));
    world.run(seconds(5));
    world.assert_settled("by an order");
    reply(&mut world, A, Reply::Terminate(name.clone()));
    world.run(seconds(60));
    assert!(world.ends.iter().all(|end| end.sas.is_empty()), "it is not brought up again");
    let initiate = Reply::Initiate { connection: "a.example".to_owned(), child: None };
    reply(&mut world, B, initiate);
    assert!(world.planes[B].reports.last().unwrap().contains("without the address of the peer"));
}

#[test]
fn a_status_shows_the_ike_sa_with_its_child_sas() {
    let mut world = World::new(connection(A), connection(B));
    world.run(seconds(5));
    let details = [A, B].map(|end| world.ends[end].peers()[0].1.detail.clone());
    for (end, detail) in details.iter().enumerate() {
        let other = &details[1 - end];
        assert_eq!((detail.own_spi, detail.is_initiator), (other.peer_spi, end == A));
        assert_eq!(detail.local_identity, other.remote_identity);
        assert_eq!((detail.suite.group, detail.is_behind_nat), (Group::X25519, false));
        let [child] = &detail.children[..] else { panic!("one child SA") };
        assert_eq!((child.name.as_str(), child.own_spi), ("net", other.children[0].peer_spi));
        assert_eq!(child.local, other.children[0].remote);
        assert!(child.is_sealing && child.rekey_at.is_some() && !child.is_encapsulated);
    }
}

/// ESP has IP protocol 50 where there is a socket for it and no NAT, and goes in UDP elsewhere.
#[test]
fn without_a_nat_esp_goes_in_ip_where_there_is_a_socket() {
    let mut world = World::new(connection(A), connection(B));
    world.run(seconds(5));
    for end in [A, B] {
        let path = world.planes[end].peer.as_ref().unwrap().path.unwrap();
        assert_eq!((path.socket(), path.transport()), (Some(2), adit_core::Transport::Ip(50)));
        assert_eq!(path.remote().ip(), address(1 - end));
    }
    let mut a = params(connection(A));
    a.sockets.esp = Default::default();
    let mut world = World::with_params(a, params(connection(B)));
    world.run(seconds(5));
    world.assert_settled("with one end that has no socket for ESP");
    for end in [A, B] {
        assert_eq!(world.planes[end].peer.as_ref().unwrap().path.unwrap().socket(), Some(1));
    }
}

#[test]
fn new_settings_of_the_tunnel_are_told_to_the_driver() {
    let mut world = World::new(connection(A), connection(B));
    let settings = TunnelSettings { mtu: 1300, ..TunnelSettings::default() };
    world.ends[A].handle_reply(Instant::ORIGIN, Reply::Tunnel(settings.clone()));
    let events = std::iter::from_fn(|| world.ends[A].poll_event());
    let ups: Vec<_> = events
        .filter_map(|event| if let Event::Up(settings) = event { Some(settings) } else { None })
        .collect();
    assert_eq!(ups, [settings]);
}

fn block(world: &mut World, end: usize, names: &[&str]) {
    let names: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    reply(world, end, Reply::Block(names));
}

/// By the identity or by the name of the connection, at either end, until the name is allowed.
#[test]
fn a_peer_that_is_blocked_leaves_at_once_and_stays_out() {
    for (end, name) in [(B, "a.example"), (B, "A.Example"), (A, "b.example")] {
        let mut world = World::new(connection(A), connection(B));
        world.run(seconds(5));
        world.assert_settled("before");
        block(&mut world, end, &["c.example", name]);
        world.run(seconds(1));
        assert!(world.planes.iter().all(|plane| plane.sessions.is_empty()), "{name}: {}", world.state());
        // The other end initiates anew, or is ordered to.
        reply(&mut world, A, Reply::Initiate { connection: "b.example".to_owned(), child: None });
        world.run(seconds(60));
        assert!(world.planes.iter().all(|plane| plane.sessions.is_empty()), "{name}: {}", world.state());
        assert_eq!(world.planes[end].ups, 1, "{name}");
        block(&mut world, end, &["c.example"]);
        reply(&mut world, A, Reply::Initiate { connection: "b.example".to_owned(), child: None });
        world.run(seconds(60));
        world.assert_settled("allowed again");
    }
}

/// The names of the peers that are kept out are not known.
#[test]
fn while_all_peers_are_blocked_none_gets_in_and_none_is_initiated_to() {
    for end in [A, B] {
        let mut world = World::new(connection(A), connection(B));
        world.ends[end].block_all();
        world.run(seconds(30));
        reply(&mut world, A, Reply::Initiate { connection: "b.example".to_owned(), child: None });
        world.run(seconds(30));
        assert!(world.planes.iter().all(|plane| plane.ups == 0), "{}", world.state());
        block(&mut world, end, &["c.example"]);
        reply(&mut world, A, Reply::Initiate { connection: "b.example".to_owned(), child: None });
        world.run(seconds(60));
        world.assert_settled("the names are known again");
    }
}

#[test]
fn a_peer_that_is_not_blocked_keeps_its_sas() {
    let mut world = World::new(connection(A), connection(B));
    world.run(seconds(5));
    let sessions: Vec<_> = world.planes[B].sessions.keys().copied().collect();
    block(&mut world, B, &["example", "b.example.a.example", ""]);
    world.run(seconds(5));
    world.assert_settled("another name is blocked");
    assert!(world.planes[B].sessions.keys().copied().eq(sessions));
}

#[test]
fn a_common_name_is_a_name_of_a_distinguished_name() {
    let identity = |kind, data: &[u8]| Identification { kind, data: data.to_vec() };
    // CN=anna, as `openssl req -subj` has it.
    let der = [0x30, 0x0f, 0x31, 0x0d, 0x30, 0x0b, 6, 3, 0x55, 4, 3, 0x0c, 4, b'a', b'n', b'n', b'a'];
    let subject = identity(IdType::DER_ASN1_DN, &der);
    assert!(is_name_of("anna", &subject) && !is_name_of("ann", &subject) && !is_name_of("Anna", &subject));
    assert!(is_name_of("Anna", &identity(IdType::FQDN, b"anna")));
    assert!(!is_name_of("Anna", &identity(IdType::KEY_ID, b"anna")));
    assert!(!is_name_of("", &identity(IdType::IPV4_ADDR, &[])));
}
