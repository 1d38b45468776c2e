//! Paths that change, lose long datagrams, or forget a peer.

use std::net::{IpAddr, SocketAddr};

use adit_core::{Activity, Notice, Path, PeerActivity};

use super::super::authority::{Authority, Validity, certified, key};
use super::super::world::*;
use crate::machine::{Connection, LocalProof, Params, Reply};
use crate::wire::Message;

/// The outside address of the NAT in front of end A, with the port of the marked socket.
const OUTSIDE: &str = "198.51.100.1";

fn behind_nat() -> World {
    let ends = [A, B].map(|end| {
        let mut connection = connection(end);
        connection.times.dead_peer_detection = None;
        connection
    });
    let [a, b] = ends;
    let mut world = World::new(a, b);
    world.nat = Some(20_000);
    world.run(seconds(5));
    world.assert_settled("behind a NAT");
    world
}

/// A NAT gives another port, and the peer sends ESP alone from there: ESP and IKE messages of this end go there from then on.
#[test]
fn data_and_messages_follow_the_newest_packet_of_a_peer_behind_a_nat() {
    let mut world = behind_nat();
    world.nat = Some(30_000);
    let path = Path::Udp { socket: 1, remote: SocketAddr::new(OUTSIDE.parse().unwrap(), 30_001) };
    world.notify(B, Notice::Moved { peer: PEER, path });
    assert_eq!(world.planes[B].peer.as_ref().unwrap().path, Some(path));
    world.command(B, adit_core::Command::Rekey { peer: PEER });
    world.run(seconds(3));
    assert!(world.log.last().is_some_and(|datagram| datagram.to == B), "the rekey was answered");
    world.assert_settled("by the new port");
}

/// A NAT forgets a mapping that nothing uses: an idle end behind it sends a datagram each 20 s, and none where packets pass.
#[test]
fn an_idle_end_behind_a_nat_keeps_the_mapping() {
    let mut world = behind_nat();
    let last = |world: &World| world.keepalives[A].last().copied();
    let before = world.log.len();
    let mut times = vec![world.now];
    for _ in 0..100 {
        world.run(seconds(1));
        times.extend(last(&world).filter(|at| times.last() != Some(at)));
    }
    assert_eq!((times.len(), world.log.len()), (6, before), "{times:?}");
    assert!(times.windows(2).skip(1).all(|pair| pair[1] - pair[0] == seconds(20)), "{times:?}");
    assert!(world.keepalives[B].is_empty(), "no NAT is in front of it");
    let count = world.keepalives[A].len();
    for _ in 0..10 {
        let sent = Activity { last_data: Some(world.now), ..Activity::default() };
        let activity = PeerActivity { sent, ..PeerActivity::default() };
        let (sent, sent_bytes) = (1, 60);
        let traffic = Notice::Traffic {
            peer: PEER,
            received: 0,
            sent,
            received_bytes: 0,
            sent_bytes,
            message_bytes: 0,
            activity,
        };
        world.notify(A, traffic);
        world.run(seconds(15));
    }
    assert_eq!(world.keepalives[A].len(), count, "packets keep it");
}

/// Fragments of IP are lost, or datagrams of usual lengths: messages with certificates go in shorter ones then, of either end.
#[test]
fn certificates_get_through_where_long_datagrams_are_lost() {
    for lost_to in [A, B] {
        let root = Authority::root("Root");
        let middle = root.below("Middle");
        let [mut a, mut b] = [(A, "a.example"), (B, "b.example")].map(|(end, name)| {
            let mut own = middle.issue(name, &key(), Validity::Now);
            own.chain = vec![middle.certificate.clone(); 3];
            let mut connection = certified(end, own, root.accepts(None));
            connection.longest_datagram = Some(1228);
            connection
        });
        if lost_to == A {
            // The request fits in any case.
            let LocalProof::Certificate(own) = &mut a.local_auth.proof else { panic!("a certificate") };
            own.chain.truncate(1);
        }
        b.children[0].rekey = None;
        let mut world = World::new(a, b);
        world.network = Box::new(move |_, datagram| {
            let is_lost = datagram.to == lost_to && datagram.bytes.len() > 548;
            if is_lost { vec![] } else { vec![std::time::Duration::from_millis(10)] }
        });
        world.run(seconds(30));
        world.assert_settled(&format!("long datagrams to {lost_to} are lost"));
        // Later messages are short at once, also those of the next IKE SA.
        let is_narrow = |world: &World| world.ends[1 - lost_to].sas.values().all(|sa| sa.is_path_narrow);
        assert!(is_narrow(&world));
        world.reply(B, Reply::Rekey("a.example".to_owned()));
        world.run(seconds(5));
        world.assert_settled("after a rekey");
        assert!(is_narrow(&world));
    }
}

/// The receiver cannot tell fragments of two cuts apart that have the same number of fragments.
#[test]
fn a_message_that_is_cut_shorter_has_more_fragments() {
    let root = Authority::root("Root");
    let [a, b] = [(A, "a.example"), (B, "b.example")].map(|(end, name)| {
        let own = root.issue(name, &key(), Validity::Now);
        Connection { longest_datagram: Some(576), ..certified(end, own, root.accepts(None)) }
    });
    let mut world = World::new(a, b);
    // Fragments are lost, so that they are sent anew.
    world.network =
        Box::new(
            |_, datagram| {
                if datagram.bytes[16] == 53 { vec![] } else { vec![std::time::Duration::from_millis(10)] }
            },
        );
    world.run(seconds(60));
    let mut seen = std::collections::BTreeMap::new();
    for datagram in &world.log {
        let message = Message::decode(&datagram.bytes).unwrap();
        let Some(fragment) = message.sealed.as_ref().and_then(|sealed| sealed.fragment) else { continue };
        let id = (message.header.initiator_spi, datagram.to, message.header.message_id);
        let before = seen.insert((id, fragment.number, fragment.total), datagram.bytes.clone());
        assert!(before.is_none_or(|before| before == datagram.bytes), "{fragment:?}");
    }
    assert!(!seen.is_empty());
}

/// A phone leaves a network of IPv4 for one that has IPv6 alone, and comes back: the IKE SA goes on by an address of the gateway in the
/// family that is left.
#[test]
fn a_phone_changes_between_networks_of_both_families() {
    let [phone, gateway]: [IpAddr; 2] = ["2001:db8::7", "2001:db8::2"].map(|text| text.parse().unwrap());
    let with = |end| {
        let mut connection = connection(end);
        connection.mobike = true;
        if end == A {
            connection.remotes.push(SocketAddr::new(gateway, 500));
        } else {
            connection.times.dead_peer_detection = None;
        }
        let mut params: Params = params(connection);
        for family in [&mut params.sockets.plain, &mut params.sockets.marked, &mut params.sockets.esp] {
            family.ipv6 = family.ipv4;
        }
        params
    };
    let mut world = World::with_params(with(A), with(B));
    world.run(seconds(5));
    world.assert_settled("over IPv4");
    let sessions: Vec<_> = world.planes[A].sessions.keys().copied().collect();
    let remote =
        |world: &World, end: usize| world.planes[end].peer.as_ref().unwrap().path.unwrap().remote().ip();
    let elsewhere = IpAddr::from([198, 51, 100, 77]);
    for (lost, here, there) in [(address(B), phone, gateway), (gateway, elsewhere, address(B))] {
        // The gateway has both addresses, and answers by the one that was written to.
        world.move_b(there);
        world.lost_address = Some(lost);
        world.move_a(here);
        world.run(seconds(120));
        world.assert_settled("over the other family");
        assert_eq!((remote(&world, A), remote(&world, B)), (there, here));
    }
    assert!(world.planes[A].sessions.keys().copied().eq(sessions));
    assert!(world.planes.iter().all(|plane| plane.downs.is_empty()));
}
