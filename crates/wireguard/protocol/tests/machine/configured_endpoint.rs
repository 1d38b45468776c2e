//! A peer that has roamed and is then silent is also tried at its configured address.

use std::net::SocketAddr;
use std::time::Duration;

use adit_core::Protocol as _;
use adit_wireguard::{AllowedIp, PeerChange, Reply};

use crate::support::{Datagram, End, Pair, inner, millis, path, public};

/// Its addresses by the family: the one that is configured, and one that it roams to.
const ADDRESSES: [[&str; 2]; 2] =
    [["192.0.2.2:51820", "198.51.100.7:999"], ["[2001:db8::2]:51820", "[2001:db8:7::7]:999"]];

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// End 0 with a session with end 1, which `begins` began, and with end 1 configured there.
fn connected(begins: usize, configured: Option<SocketAddr>) -> Pair {
    let mut pair = Pair::with(|params| {
        let change = &mut params.configuration.peers[0];
        if change.public_key == public(2) {
            change.endpoint = configured;
        }
    });
    assert!(pair.passes(begins));
    pair.tick();
    pair
}

/// End 1 sends a packet from that address.
fn roam(pair: &mut Pair, to: SocketAddr) {
    pair.packet(1);
    for (_, datagram) in pair.ends[1].take_sent() {
        pair.ends[0].receive(pair.now, path(to), &datagram).expect("a packet of its session");
    }
    pair.ends[0].take_sent();
}

/// The messages of end 0 in so long a time, while it has packets for end 1 and nothing is answered: initiations, and
/// packets.
fn sent_in_silence(pair: &mut Pair, time: Duration) -> [Vec<(SocketAddr, Datagram)>; 2] {
    let end = pair.now + time;
    let mut sent = Vec::new();
    while pair.now < end {
        pair.packet(0);
        pair.pass(millis(1000));
        sent.extend(pair.ends[0].take_sent().into_iter().map(|(path, datagram)| (path.remote(), datagram)));
    }
    let (initiations, packets) = sent.into_iter().partition(|(_, datagram)| datagram.kind() == 1);
    [initiations, packets]
}

/// The next initiation that end 0 sends there, while nothing is answered.
fn initiation_to(pair: &mut Pair, there: SocketAddr) -> Datagram {
    let found = (0..60).find_map(|_| {
        let [initiations, _] = sent_in_silence(pair, Duration::from_secs(1));
        initiations.into_iter().find(|(remote, _)| *remote == there)
    });
    found.expect("an initiation to that address").1
}

fn remotes(sent: &[(SocketAddr, Datagram)]) -> Vec<SocketAddr> {
    sent.iter().map(|(remote, _)| *remote).collect()
}

/// Whether end 0 has packets sent there.
fn is_at(end: &End, remote: SocketAddr) -> bool {
    end.plane.peers[&end.id(2)].path == Some(path(remote)) && end.machine.peers()[0].1.path == path(remote)
}

/// Both roles in the session before, and each family of the configured and of the other address.
fn all_kinds() -> impl Iterator<Item = (usize, SocketAddr, SocketAddr)> {
    (0..2).flat_map(|begins| {
        let families = [(0, 0), (0, 1), (1, 0), (1, 1)];
        families.map(|(one, other)| (begins, address(ADDRESSES[one][0]), address(ADDRESSES[other][1])))
    })
}

#[test]
fn a_roamed_peer_that_is_silent_is_tried_at_its_configured_address_too() {
    for (begins, configured, roamed) in all_kinds() {
        let mut pair = connected(begins, Some(configured));
        roam(&mut pair, roamed);
        let [initiations, packets] = sent_in_silence(&mut pair, Duration::from_secs(60));
        let expected = [roamed, roamed, configured, roamed, configured, roamed, configured];
        assert_eq!(remotes(&initiations)[..7], expected, "end {begins} began");
        // Packets go where it was heard last: an address of the file may be another machine's by now.
        assert!(!packets.is_empty() && remotes(&packets).iter().all(|remote| *remote == roamed));
    }
}

#[test]
fn a_silent_peer_is_found_at_either_address() {
    for (begins, configured, roamed) in all_kinds() {
        for there in [configured, roamed] {
            let mut pair = connected(begins, Some(configured));
            roam(&mut pair, roamed);
            // It is not there for three initiations, and then answers at that address alone.
            initiation_to(&mut pair, configured);
            let answered = initiation_to(&mut pair, there);
            let from = path(address("192.0.2.1:51820"));
            pair.ends[1].receive(pair.now, from, &answered).expect("an initiation");
            for (_, response) in pair.ends[1].take_sent() {
                pair.ends[0].receive(pair.now, path(there), &response).expect("a response");
            }
            assert!(is_at(&pair.ends[0], there), "end {begins} began, it is at {there}");
            pair.packet(0);
            assert!(pair.ends[0].take_sent().iter().all(|(to, _)| *to == path(there)));
            // The next silence begins with the address that it was heard from.
            let [initiations, _] = sent_in_silence(&mut pair, Duration::from_secs(40));
            assert_eq!(remotes(&initiations)[..2], [there; 2]);
        }
    }
}

#[test]
fn a_peer_with_one_address_is_tried_there_alone() {
    let [there, elsewhere] = ADDRESSES[0].map(address);
    // It never moved; or no address was configured.
    for (configured, at) in [(Some(there), there), (None, elsewhere)] {
        let mut pair = connected(1, configured);
        roam(&mut pair, at);
        let [initiations, _] = sent_in_silence(&mut pair, Duration::from_secs(60));
        assert!(initiations.len() > 5 && remotes(&initiations).iter().all(|remote| *remote == at));
    }
}

/// The cookie is of the address that the initiation went to.
#[test]
fn an_initiation_with_a_cookie_goes_to_the_address_that_asked_for_it() {
    let [configured, roamed] = ADDRESSES[0].map(address);
    let mut pair = connected(0, Some(configured));
    roam(&mut pair, roamed);
    let third = initiation_to(&mut pair, configured);
    pair.ends[1].reply(pair.now, Reply::UnderLoad(true));
    assert!(pair.ends[1].receive(pair.now, path(address("192.0.2.1:51820")), &third).is_err());
    let cookie = pair.ends[1].take_sent().remove(0).1;
    pair.ends[0].receive(pair.now, path(configured), &cookie).expect("a cookie");
    let sent = pair.ends[0].take_sent();
    assert_eq!((sent.len(), sent[0].0, sent[0].1.kind()), (1, path(configured), 1));
}

/// As when the family that it roamed to is switched off.
#[test]
fn a_peer_that_no_socket_reaches_any_more_is_reached_at_its_configured_address() {
    let (configured, roamed) = (address(ADDRESSES[0][0]), address(ADDRESSES[1][1]));
    let mut pair = connected(0, Some(configured));
    roam(&mut pair, roamed);
    let sockets = adit_wireguard::Sockets { ipv6: None, ..pair.ends[0].machine.sockets() };
    pair.ends[0].reply(pair.now, Reply::Rebound(Ok(sockets)));
    assert!(is_at(&pair.ends[0], configured));
    assert!(pair.passes(0), "{}", inner(2));
}

/// As when the address before refuses datagrams, and the name has another.
#[test]
fn a_handshake_that_waits_is_tried_at_a_new_address_at_once() {
    let [first, second] = ADDRESSES[0].map(address);
    let mut pair = connected(0, Some(first));
    let tried = |pair: &mut Pair, endpoint| {
        let change = PeerChange { update_only: true, endpoint: Some(endpoint), ..PeerChange::new(public(2)) };
        let changes = adit_wireguard::Changes { peers: vec![change], ..adit_wireguard::Changes::default() };
        pair.ends[0].configure(pair.now, changes);
        let sent = pair.ends[0].take_sent();
        sent.iter().map(|(to, datagram)| (to.remote(), datagram.kind())).collect::<Vec<_>>()
    };
    assert_eq!(tried(&mut pair, second), [], "no handshake waits");
    sent_in_silence(&mut pair, Duration::from_secs(17));
    assert_eq!(tried(&mut pair, first), [(first, 1)]);
    assert_eq!(tried(&mut pair, first), [], "it is there already");
    assert_eq!(tried(&mut pair, second), [(second, 1)]);
}

/// A new address of the configuration counts at once, and the one before no more.
#[test]
fn a_configured_address_takes_the_place_of_the_one_before() {
    let [first, roamed] = ADDRESSES[0].map(address);
    let second = address("203.0.113.5:7");
    let mut pair = connected(0, Some(first));
    roam(&mut pair, roamed);
    let change = PeerChange {
        update_only: true,
        endpoint: Some(second),
        allowed_ips: vec![AllowedIp::Add(inner(2).into())],
        ..PeerChange::new(public(2))
    };
    let changes = adit_wireguard::Changes { peers: vec![change], ..adit_wireguard::Changes::default() };
    pair.ends[0].configure(pair.now, changes);
    assert!(is_at(&pair.ends[0], second));
    roam(&mut pair, roamed);
    let [initiations, _] = sent_in_silence(&mut pair, Duration::from_secs(60));
    assert_eq!(remotes(&initiations)[..4], [roamed, roamed, second, roamed]);
}
