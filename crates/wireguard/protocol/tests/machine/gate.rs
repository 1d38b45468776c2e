//! Where connections must be admitted, no packet of a peer passes before: the data plane has no routes of the peer, and no
//! session seals.

use std::time::Duration;

use adit_core::{Instant, Protocol};
use adit_wireguard::{AllowedIp, Changes, PeerChange};

use crate::support::{Pair, data, public};

/// End 1 of the pair, the second, must admit the first.
fn gated() -> Pair {
    Pair::with(|params| {
        params.configuration.gated = Some(params.configuration.peers[0].public_key == public(1))
    })
}

/// When the connection began that the second end has with the first.
fn since(pair: &Pair) -> Option<Instant> {
    Some(pair.ends[1].machine.peers().first()?.1.since)
}

fn change(pair: &mut Pair, change: PeerChange) {
    pair.ends[1].configure(pair.now, Changes { peers: vec![change], ..Changes::default() });
}

fn admit(pair: &mut Pair, since: Instant) {
    change(pair, PeerChange { update_only: true, admit: Some(since), ..PeerChange::new(public(1)) });
}

/// Whether the second end's data plane takes packets of the first, and seals packets for it.
fn is_open(pair: &Pair) -> [bool; 2] {
    let plane = &pair.ends[1].plane;
    let id = pair.ends[1].id(1);
    [plane.routes.values().any(|owner| *owner == id), plane.peers[&id].active.is_some()]
}

#[test]
fn no_packet_passes_before_the_connection_is_admitted() {
    let mut pair = gated();
    assert_eq!(is_open(&pair), [true, false], "packets for it wait, and a handshake begins");
    pair.packet(0);
    pair.settle();
    let connection = since(&pair).expect("it is up");
    assert_eq!(is_open(&pair), [false, false]);
    // A rekey changes nothing.
    pair.run(Duration::from_secs(130));
    pair.packet(0);
    pair.tick();
    pair.settle();
    assert_eq!((is_open(&pair), since(&pair)), ([false, false], Some(connection)));
    assert!(pair.ends[1].plane.installed > 1);
    admit(&mut pair, connection);
    assert_eq!(is_open(&pair), [true, true]);
    assert!(pair.passes(0) && pair.passes(1));
    pair.run(Duration::from_secs(130));
    assert!(pair.passes(0) && pair.passes(1), "after a rekey, too");
}

#[test]
fn a_handshake_that_this_end_began_is_gated_too() {
    let mut pair = gated();
    let number = pair.packet(1);
    pair.settle();
    assert_eq!(is_open(&pair), [false, false]);
    assert!(pair.ends[0].delivered.is_empty());
    let connection = since(&pair).expect("it is up");
    admit(&mut pair, connection);
    let sent = data(&pair.ends[1].take_sent());
    assert_eq!(sent, [Some(number)], "what waited goes out");
}

#[test]
fn an_answer_about_an_earlier_connection_admits_no_later_one() {
    let mut pair = gated();
    pair.packet(0);
    pair.settle();
    let first = since(&pair).expect("it is up");
    let blocked = |blocked| PeerChange { blocked: Some(blocked), ..PeerChange::new(public(1)) };
    change(&mut pair, blocked(true));
    assert_eq!(since(&pair), None);
    change(&mut pair, blocked(false));
    // The first end begins anew after 15 s without an answer.
    pair.run(Duration::from_secs(1));
    pair.packet(0);
    pair.run(Duration::from_secs(25));
    let second = since(&pair).expect("it is up again");
    assert_ne!(first, second);
    admit(&mut pair, first);
    assert_eq!(is_open(&pair), [false, false]);
    admit(&mut pair, second);
    assert_eq!(is_open(&pair), [true, true]);
    // A connection that ended is not admitted when the peer comes back.
    change(&mut pair, blocked(true));
    change(&mut pair, blocked(false));
    assert_eq!(is_open(&pair), [true, false]);
    pair.run(Duration::from_secs(1));
    pair.packet(0);
    pair.run(Duration::from_secs(25));
    assert!(since(&pair).is_some());
    assert_eq!(is_open(&pair), [false, false]);
}

#[test]
fn routes_that_change_meanwhile_are_withheld() {
    let mut pair = gated();
    pair.packet(0);
    pair.settle();
    let net = "192.0.2.0/24".parse().expect("a network");
    let other = "198.51.100.0/24".parse().expect("a network");
    let allowed_ips = vec![AllowedIp::Add(net), AllowedIp::Add(other), AllowedIp::Remove(other)];
    change(&mut pair, PeerChange { allowed_ips, ..PeerChange::new(public(1)) });
    // A prefix that another peer had leaves the data plane.
    change(&mut pair, PeerChange { allowed_ips: vec![AllowedIp::Add(other)], ..PeerChange::new(public(3)) });
    change(&mut pair, PeerChange { allowed_ips: vec![AllowedIp::Add(other)], ..PeerChange::new(public(1)) });
    assert!(pair.ends[1].plane.routes.is_empty());
    let connection = since(&pair).expect("it is up");
    admit(&mut pair, connection);
    let routes: Vec<_> = pair.ends[1].plane.routes.keys().copied().collect();
    assert!(routes.contains(&net) && routes.contains(&other), "{routes:?}");
}

#[test]
fn who_is_connected_when_the_gate_comes_is_admitted() {
    let mut pair = Pair::new();
    pair.connect();
    pair.ends[1].configure(pair.now, Changes { gated: Some(true), ..Changes::default() });
    assert!(pair.passes(0) && pair.passes(1));
    pair.ends[1].configure(pair.now, Changes { gated: Some(false), ..Changes::default() });
    assert!(pair.passes(0) && pair.passes(1));
    // One that waits is let in when the gate goes.
    let mut pair = gated();
    pair.packet(0);
    pair.settle();
    pair.ends[1].configure(pair.now, Changes { gated: Some(false), ..Changes::default() });
    assert_eq!(is_open(&pair), [true, true]);
    assert!(pair.passes(0) && pair.passes(1));
}
