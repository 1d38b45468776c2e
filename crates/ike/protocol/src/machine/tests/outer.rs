//! Traffic to the peer's own outer address, and the peers of a connection that each have theirs.

use std::net::IpAddr;

use adit_core::{Command, PeerId, Protocol as _, TunnelSettings};

use super::world::*;
use crate::machine::connections::is_instance;
use crate::machine::{Addresses, Connection, Params, PeerIdentity, Reply, Traffic};

fn dynamic() -> Vec<Traffic> {
    vec![Traffic { addresses: Addresses::Dynamic, protocol: 0, ports: (0, u16::MAX) }]
}

/// A client of that name, whose packets have its own address.
fn client(name: &str) -> Connection {
    let mut client = connection(A);
    client.local_auth.identity = identity(name);
    client.children[0].local = dynamic();
    client
}

/// A gateway for all identities, which gives no inner addresses.
fn gateway() -> Connection {
    let mut gateway = connection(B);
    gateway.remote_auth.identity = PeerIdentity::Any;
    gateway.children[0].remote = dynamic();
    gateway
}

fn with_tunnel(connection: Connection) -> Params {
    let mut params = params(connection);
    params.tunnel = Some(TunnelSettings { mtu: 1400, ..TunnelSettings::default() });
    params
}

fn connected(a: Connection, b: Connection) -> World {
    let mut world = World::with_params(with_tunnel(a), with_tunnel(b));
    world.run(seconds(2));
    world.assert_settled("connected");
    world
}

/// The peers that the tunnel of an end has settings for.
fn reached(world: &World, end: usize) -> Vec<IpAddr> {
    world.planes[end].settings.last().map(|settings| settings.peers.clone()).unwrap_or_default()
}

#[test]
fn a_peer_is_reached_at_its_outer_address_while_it_is_connected() {
    let mut world = connected(client("alice"), gateway());
    assert_eq!((reached(&world, B), reached(&world, A)), (vec![address(A)], vec![]));
    let [entry, plane] =
        [world.planes[B].peer.clone().expect("a peer"), world.planes[A].peer.clone().unwrap()];
    assert_eq!(entry.routes, [address(A).into()]);
    assert!(is_instance(entry.peer.0 as usize) && !is_instance(plane.peer.0 as usize));
    assert_eq!(world.ends[B].peers()[0].1.name, "alice");
    world.command(A, Command::Disconnect { peer: PeerId(0) });
    world.run(seconds(2));
    assert_eq!(reached(&world, B), Vec::<IpAddr>::new());
    assert!(world.ends[B].peers.keys().all(|number| !is_instance(*number)), "the gateway forgets the peer");
}

#[test]
fn two_hosts_reach_each_other_at_their_outer_addresses() {
    let [mut a, mut b] = [connection(A), connection(B)];
    for connection in [&mut a, &mut b] {
        (connection.children[0].local, connection.children[0].remote) = (dynamic(), dynamic());
    }
    let world = connected(a, b);
    assert_eq!([reached(&world, A), reached(&world, B)], [[address(B)], [address(A)]]);
    assert!(
        world.ends[B].peers.keys().all(|number| !is_instance(*number)),
        "the connection has one identity"
    );
}

#[test]
fn an_identity_stays_the_peer_that_it_is_when_it_authenticates_anew() {
    let mut world = connected(client("alice"), gateway());
    world.reply(A, Reply::ReauthenticatePeer(PEER));
    world.run(seconds(10));
    world.assert_settled("authenticated anew");
    assert_eq!(world.ends[B].peers.len(), 2, "the connection's own, and one instance");
    assert_eq!(reached(&world, B), [address(A)], "the address once");
}

#[test]
fn a_second_ike_sa_for_other_traffic_is_a_peer_of_its_own() {
    let mut of_gateway = gateway();
    of_gateway.children.push(child(B, "second", ["10.3.0.0/16", "10.4.0.0/16"]));
    of_gateway.children[1].remote = dynamic();
    let mut world = connected(client("alice"), of_gateway);
    let mut second = client("alice");
    second.children[0].remote = vec![Traffic::all_of("10.4.0.0/16".parse().unwrap())];
    // It has not started anew: the gateway does not hear of that.
    world.ends[B].connections.get_mut(0).unwrap().unique = crate::machine::Unique::Never;
    world.restart(A, params(second), 3);
    world.run(seconds(2));
    let mut children: Vec<String> =
        world.ends[B].peers().into_iter().map(|(_, info)| info.detail.children[0].name.clone()).collect();
    children.sort();
    assert_eq!(children, ["net", "second"]);
}

#[test]
fn identities_share_a_connection_for_parts_of_its_traffic_and_not_for_the_same_part() {
    let part = |name: &str, network: &str| {
        let mut client = client(name);
        client.children[0].local = vec![Traffic::all_of(network.parse().unwrap())];
        client
    };
    let mut gateway = gateway();
    gateway.children[0].remote = vec![Traffic::all_of("10.1.0.0/16".parse().unwrap())];
    let mut world = connected(part("alice", "10.1.1.0/24"), gateway);
    let names = |world: &World| {
        let mut names: Vec<String> = world.ends[B].peers().into_iter().map(|(_, info)| info.name).collect();
        names.sort();
        names
    };
    world.restart(A, params(part("bob", "10.1.2.0/24")), 3);
    world.run(seconds(2));
    assert_eq!(names(&world), ["alice", "bob"]);
    assert_eq!(
        reached(&world, B),
        Vec::<IpAddr>::new(),
        "networks behind peers have routes from the start on"
    );
    world.restart(A, params(part("carol", "10.1.0.0/16")), 4);
    world.run(seconds(2));
    assert_eq!(names(&world), ["alice", "bob"]);
    let text = world.planes[B].reports.join("\n");
    assert!(text.contains("the connection a.example has an IKE SA with a peer"), "{text}");
}
