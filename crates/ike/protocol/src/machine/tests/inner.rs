//! Inner addresses: an initiator that asks for them, and a responder that gives them.

use std::net::{IpAddr, Ipv4Addr};

use adit_core::{Command, IpNet, PeerId, PoolRanges, Protocol as _, SharedPool};

use super::eap::both;
use super::world::{A, B, Plane, World, connection, identity, params, seconds};
use crate::machine::connections::{Connections, is_instance};
use crate::machine::{Addresses, Connection, Endpoint, Inner, PeerIdentity, Pool, Reply, Traffic, Unique};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn dynamic() -> Vec<Traffic> {
    vec![Traffic { addresses: Addresses::Dynamic, protocol: 0, ports: (0, u16::MAX) }]
}

/// A client of that name, which asks for addresses of both families.
fn client(name: &str) -> Connection {
    let mut client = connection(A);
    client.local_auth.identity = identity(name);
    client.inner = Inner::Ask(vec![ip("0.0.0.0"), ip("::")]);
    client.children[0].local = dynamic();
    client
}

/// A gateway with so many addresses.
fn gateway(addresses: u8) -> Connection {
    let mut gateway = connection(B);
    gateway.remote_auth.identity = PeerIdentity::Any;
    gateway.children[0].remote = dynamic();
    gateway.inner = Inner::Give(Box::new(Pool {
        ranges: PoolRanges {
            v4: Some((Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, addresses))),
            v6: Some("fd00:9::1/64".parse().unwrap()),
        },
        dns: vec![ip("10.2.0.53")],
        attributes: vec![(25, b"corp.example".to_vec())],
        ..Pool::default()
    }));
    gateway
}

fn connected(a: Connection, b: Connection) -> World {
    let mut world = World::new(a, b);
    world.run(seconds(2));
    world.assert_settled("the client is connected");
    world
}

/// The addresses that the gateway's peers have.
fn of_peers(end: &Endpoint) -> Vec<Vec<IpAddr>> {
    end.peers().into_iter().map(|(_, info)| info.detail.peer_inner).collect()
}

fn addresses(plane: &Plane) -> Vec<IpNet> {
    plane.settings.last().map(|settings| settings.addresses.clone()).unwrap_or_default()
}

#[test]
fn an_initiator_gets_addresses_of_both_families_in_one_child_and_its_packets_have_them() {
    let mut with_settings = params(client("alice"));
    with_settings.tunnel = Some(adit_core::TunnelSettings { mtu: 1400, ..Default::default() });
    let mut world = World::with_params(with_settings, params(gateway(9)));
    world.run(seconds(2));
    world.assert_settled("connected");
    let inner = ["10.9.0.1/32", "fd00:9::1/128"];
    let entry = world.planes[B].peer.clone().expect("a peer");
    assert!(is_instance(entry.peer.0 as usize));
    assert_eq!(entry.routes, nets(&inner), "packets to the addresses go to the peer");
    let selectors = |plane: &Plane| plane.sessions.values().next().unwrap().selectors.clone();
    let at_gateway = selectors(&world.planes[B]);
    assert_eq!(at_gateway.len(), 1);
    assert_eq!(
        at_gateway[0].remote,
        ip("10.9.0.1")..=ip("10.9.0.1"),
        "no other address is taken of the peer"
    );
    assert_eq!(selectors(&world.planes[A])[0].local, ip("10.9.0.1")..=ip("10.9.0.1"));
    let settings = world.planes[A].settings.last().expect("settings");
    assert_eq!((&settings.addresses, settings.mtu), (&nets(&inner), 1400));
    assert_eq!(settings.routes[0].destination, nets(&["10.2.0.0/16"])[0]);
    assert_eq!((&settings.dns.servers[..], settings.redirect), (&[ip("10.2.0.53")][..], None));
    assert_eq!(settings.dns.only_for, ["corp.example"]);
    let info = &world.ends[B].peers()[0].1;
    assert_eq!((info.name.as_str(), info.detail.connection.as_str()), ("alice", "a.example"));
    world.command(A, Command::Disconnect { peer: PeerId(0) });
    world.run(seconds(2));
    assert_eq!(addresses(&world.planes[A]), [], "without the peer the device has no address of it");
    assert!(world.ends[B].peers.keys().all(|number| !is_instance(*number)), "the gateway forgets the peer");
}

/// A gateway that runs for years gives its peers numbers that the driver takes (`adit_core::PeerId`), and none twice at once.
#[test]
fn numbers_of_instances_have_24_bits() {
    let mut connections = Connections::default();
    let named = |name: &str| Connection { name: name.to_owned(), ..gateway(9) };
    let mut other = named("b.example");
    other.remote_auth.identity = PeerIdentity::Exactly(identity("other"));
    let numbers = [named("a.example"), other].map(|one| connections.add(one).expect("a connection"));
    for number in numbers {
        let (mut last, mut given) = (0, std::collections::BTreeSet::new());
        for _ in 0..70_000 {
            last = connections.numbers_of_instances(number, last).next().expect("a number");
            assert!(is_instance(last) && last < 1 << 24, "{last}");
            assert_eq!(connections.number_of_peer(last), Some(number));
            given.insert(last);
        }
        assert_eq!(given.len(), 65_280, "all are used before one is used again");
    }
}

#[test]
fn rekeys_keep_the_addresses() {
    let mut world = connected(client("alice"), gateway(9));
    for end in [A, B] {
        let peer = world.planes[end].peer.clone().expect("a peer").peer;
        world.command(end, Command::Rekey { peer });
        world.run(seconds(2));
        let name = if end == A { "b.example" } else { "a.example" };
        world.reply(end, Reply::Rekey(name.to_owned()));
        world.run(seconds(2));
        world.assert_settled("rekeyed");
        assert_eq!(of_peers(&world.ends[B]), [[ip("10.9.0.1"), ip("fd00:9::1")]]);
    }
    assert_eq!(world.planes.each_ref().map(|plane| plane.downs.len()), [0, 0]);
    let rekeys = world.ends[A].peers()[0].1.rekeys;
    assert!(rekeys >= 2, "{rekeys}");
}

/// Peers of one connection are rekeyed one by one: an order for one of them rekeys no other.
#[test]
fn an_order_to_rekey_a_peer_is_for_that_peer_alone() {
    let mut world = connected(client("alice"), gateway(9));
    world.restart(A, params(client("bob")), 3);
    world.run(seconds(2));
    let ike_sa_of = |world: &World, name: &str| {
        let peers = world.ends[B].peers();
        let peer = peers.iter().find(|(_, info)| info.name == name).expect("a peer").0;
        (peer, world.ends[B].peers[&(peer.0 as usize)].sa)
    };
    let before = ["alice", "bob"].map(|name| ike_sa_of(&world, name));
    world.reply(B, Reply::RekeyPeer(before[1].0));
    world.run(seconds(2));
    let after = ["alice", "bob"].map(|name| ike_sa_of(&world, name));
    assert_eq!(after[0], before[0], "alice has the same IKE SA");
    // alice is gone without a word: a rekey would wait for her answer.
    let spi = after[0].1.expect("an IKE SA");
    assert!(world.ends[B].sas[&spi].pending.is_none(), "alice's IKE SA is not rekeyed");
    assert_ne!(after[1].1, before[1].1, "bob has another one");
}

#[test]
fn each_identity_gets_an_address_of_its_own_and_the_one_that_it_had_when_it_returns() {
    let mut world = connected(client("alice"), gateway(9));
    world.restart(A, params(client("bob")), 3);
    world.run(seconds(2));
    let mut peers: Vec<(String, IpAddr)> =
        world.ends[B].peers().into_iter().map(|(_, info)| (info.name, info.detail.peer_inner[0])).collect();
    peers.sort();
    assert_eq!(peers, [("alice".to_owned(), ip("10.9.0.1")), ("bob".to_owned(), ip("10.9.0.2"))]);
    // bob leaves, and alice, who was gone without a word, comes back.
    world.command(A, Command::Shutdown);
    world.run(seconds(2));
    world.restart(A, params(client("alice")), 4);
    world.run(seconds(2));
    assert_eq!(of_peers(&world.ends[B]), [[ip("10.9.0.1"), ip("fd00:9::1")]], "INITIAL_CONTACT frees it");
    world.command(A, Command::Shutdown);
    world.run(seconds(2));
    assert_eq!(world.ends[B].peers.len(), 1);
    world.restart(A, params(client("bob")), 5);
    world.run(seconds(2));
    assert_eq!(of_peers(&world.ends[B])[0][0], ip("10.9.0.2"), "the pool remembers whose it was");
}

#[test]
fn a_client_that_sleeps_and_wakes_a_hundred_times_uses_up_no_addresses() {
    for unique in [Unique::No, Unique::Replace] {
        let mut gateway = gateway(2);
        gateway.unique = unique;
        let mut world = connected(client("alice"), gateway);
        for seed in 3..103 {
            world.restart(A, params(client("alice")), seed);
            world.run(seconds(1));
            assert_eq!(of_peers(&world.ends[B]), [[ip("10.9.0.1"), ip("fd00:9::1")]]);
        }
        world.run(seconds(2));
        world.assert_settled("the last");
    }
}

#[test]
fn two_devices_of_one_identity_have_two_addresses_where_the_connection_allows_both() {
    let mut both = gateway(9);
    both.unique = Unique::Never;
    let mut world = connected(client("alice"), both);
    world.restart(A, params(client("alice")), 3);
    world.run(seconds(2));
    let mut inner: Vec<IpAddr> = of_peers(&world.ends[B]).concat();
    inner.sort();
    assert_eq!(inner, [ip("10.9.0.1"), ip("10.9.0.2"), ip("fd00:9::1"), ip("fd00:9::2")]);
    // Where INITIAL_CONTACT counts, a device that has started anew ends the IKE SAs of the identity, whichever address they have.
    world.ends[B].connections.get_mut(0).unwrap().unique = Unique::No;
    world.restart(A, params(client("alice")), 4);
    world.run(seconds(2));
    assert_eq!(of_peers(&world.ends[B]), [[ip("10.9.0.1"), ip("fd00:9::1")]]);
    assert_eq!(world.ends[B].peers.len(), 2, "the connection's own, and one instance");
}

#[test]
fn each_name_of_eap_has_an_address_of_its_own() {
    let [mut alice, mut of_gateway] = both("alice", "secret");
    (alice.inner, alice.children[0].local) = (client("alice").inner, dynamic());
    (of_gateway.inner, of_gateway.children[0].remote) = (gateway(9).inner, dynamic());
    let mut bob = alice.clone();
    bob.local_auth.proof = both("bob@example.org", "other")[0].local_auth.proof.clone();
    let mut world = connected(alice, of_gateway);
    world.restart(A, params(bob), 3);
    world.run(seconds(3));
    let mut peers: Vec<(String, IpAddr)> =
        world.ends[B].peers().into_iter().map(|(_, info)| (info.name, info.detail.peer_inner[0])).collect();
    peers.sort();
    let expected = [("alice", "10.9.0.1"), ("bob@example.org", "10.9.0.2")];
    assert_eq!(peers, expected.map(|(name, address)| (name.to_owned(), ip(address))));
}

#[test]
fn a_peer_that_asks_for_no_address_or_gets_none_has_no_child_sa() {
    let mut without = client("alice");
    without.inner = Inner::None;
    let mut world = World::new(without, gateway(9));
    world.run(seconds(1));
    let reports = world.planes[A].reports.join("\n");
    assert!(reports.contains("FAILED_CP_REQUIRED"), "{reports}");
    assert!(world.planes.iter().all(|plane| plane.sessions.is_empty()));

    let mut world = connected(client("alice"), gateway(1));
    world.restart(A, params(client("bob")), 3);
    world.run(seconds(1));
    let reports = world.planes[A].reports.join("\n");
    assert!(reports.contains("INTERNAL_ADDRESS_FAILURE"), "{reports}");
    assert!(world.planes[A].sessions.is_empty());
    assert_eq!(of_peers(&world.ends[B]), [[ip("10.9.0.1"), ip("fd00:9::1")]], "the first keeps its address");

    let mut world = World::new(client("alice"), connection(B));
    world.run(seconds(1));
    let reports = world.planes[A].reports.join("\n");
    assert!(reports.contains("the peer gives no inner address") || reports.contains("AUTHENTICATION_FAILED"));
}

#[test]
fn a_full_tunnel_goes_on_while_the_peer_is_connected_again() {
    let mut full = client("alice");
    full.children[0].remote = ["0.0.0.0/0", "::/0"].map(|all| Traffic::all_of(all.parse().unwrap())).to_vec();
    let mut of_gateway = gateway(9);
    of_gateway.children[0].local = full.children[0].remote.clone();
    let mut with_settings = params(full);
    with_settings.tunnel = Some(Default::default());
    let mut world = World::with_params(with_settings, params(of_gateway.clone()));
    world.run(seconds(2));
    world.assert_settled("connected");
    let is_full = |world: &World| {
        let settings = world.planes[A].settings.last().unwrap();
        settings.redirect.is_some_and(|redirect| redirect.ipv4 && redirect.ipv6) && settings.guards_addresses
    };
    assert!(is_full(&world));
    let settings = world.planes[A].settings.last().unwrap();
    assert!(settings.dns.only_for.is_empty() && settings.dns.search == ["corp.example"]);
    // The gateway restarts without a word: the client finds out, and tries until it is back.
    let count = world.planes[A].settings.len();
    world.restart(B, params(of_gateway), 7);
    world.network = Box::new(|_, _| Vec::new());
    world.run(seconds(200));
    assert!(!world.planes[A].downs.is_empty() && is_full(&world), "no packet leaves beside the tunnel");
    world.network = Box::new(|_, _| vec![std::time::Duration::from_millis(10)]);
    world.run(seconds(30));
    world.assert_settled("connected again");
    assert!(is_full(&world) && world.planes[A].settings.len() == count, "nothing changed meanwhile");
}

#[test]
fn the_pool_is_that_of_the_tunnel_and_its_addresses_are_free_once_the_connection_is_gone() {
    let pool = SharedPool::default();
    pool.keeper().keep([ip("10.9.0.1")].into());
    let mut world = World::new(client("alice"), gateway(3));
    world.ends[B] = Endpoint::with_pool(params(gateway(3)), pool.clone(), world.now, [9; 32]).unwrap();
    world.run(seconds(2));
    world.assert_settled("connected");
    assert_eq!(of_peers(&world.ends[B])[0][0], ip("10.9.0.2"), "a peer of another protocol has the first");
    let other = pool.join(PoolRanges::default(), &[]);
    let lease = other.lease(PeerId(0), Some("alice"), Default::default()).expect("an address");
    assert_eq!(lease.v4(), Some(Ipv4Addr::new(10, 9, 0, 3)));
    world.reply(B, Reply::Remove("a.example".to_owned()));
    world.run(seconds(2));
    assert!(world.ends[B].peers.is_empty() && world.planes[B].peer.is_none());
    let freed = other.lease(PeerId(1), None, Default::default()).expect("an address");
    assert_eq!(freed.v4(), Some(Ipv4Addr::new(10, 9, 0, 2)));
}

#[test]
fn the_last_of_two_peers_of_one_name_in_a_tunnel_keeps_the_name() {
    let pool = SharedPool::default();
    let mut replaces = gateway(3);
    replaces.unique = Unique::Replace;
    let mut world = World::new(client("alice"), replaces.clone());
    world.ends[B] = Endpoint::with_pool(params(replaces), pool.clone(), world.now, [9; 32]).unwrap();
    world.run(seconds(2));
    world.assert_settled("connected");
    let other = pool.join(PoolRanges::default(), &[]);
    assert_eq!(other.bind_name(PeerId(0), "alice"), adit_core::NameBinding::Moved);
    world.command(B, Command::LeasesMoved);
    assert!(of_peers(&world.ends[B]).is_empty());
}
