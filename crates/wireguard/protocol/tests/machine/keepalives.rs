//! Keepalives, passive and persistent: rows of the table in `src/peer/timers.rs`. Each fails when its guard is off by one.

use std::time::Duration;

use crate::support::{self, Pair, data, initiations, millis, public};
use adit_core::Protocol;
use adit_wireguard::{Changes, Params, PeerChange};

const SECOND: Duration = Duration::from_secs(1);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A keepalive is sent 10 s after the first packet received since the last send, and once more if others came.
#[test]
fn a_receiver_that_is_silent_sends_a_keepalive() {
    let mut pair = Pair::new();
    pair.connect();
    pair.run(seconds(60));
    pair.ends.iter_mut().for_each(|end| drop(end.take_sent()));
    pair.passes(0);
    pair.tick();
    let start = pair.now;
    assert_eq!(pair.ends[1].machine.poll_timeout(), Some(start + seconds(10)));
    pair.now = start + millis(9999);
    pair.ends[1].wake(pair.now);
    assert!(pair.ends[1].take_sent().is_empty());
    pair.now = start + seconds(10);
    pair.ends[1].wake(pair.now);
    assert_eq!(data(&pair.ends[1].take_sent()), [None]);
    assert_ne!(pair.ends[1].machine.poll_timeout(), Some(start + seconds(20)), "nothing more came");

    pair.now += SECOND;
    pair.passes(0);
    pair.tick();
    let start = pair.now;
    pair.now += seconds(3);
    pair.passes(0);
    pair.tick();
    pair.ends.iter_mut().for_each(|end| drop(end.take_sent()));
    pair.now = start + seconds(10);
    pair.ends[1].wake(pair.now);
    assert_eq!(data(&pair.ends[1].take_sent()), [None]);
    assert_eq!(pair.ends[1].machine.poll_timeout(), Some(start + seconds(20)), "once more");
}

#[test]
fn any_send_takes_the_place_of_a_keepalive() {
    let mut pair = Pair::new();
    pair.connect();
    pair.run(seconds(60));
    pair.passes(0);
    pair.tick();
    pair.now += SECOND;
    pair.passes(1);
    pair.tick();
    pair.ends.iter_mut().for_each(|end| drop(end.take_sent()));
    pair.now += seconds(10);
    pair.ends[1].wake(pair.now);
    assert!(pair.ends[1].take_sent().is_empty());
}

/// The trap of gotatun: keepalives received must not make us send some, or idle peers never fall silent.
#[test]
fn idle_peers_fall_silent() {
    let mut pair = Pair::new();
    pair.connect();
    pair.run(seconds(60));
    assert!(pair.passes(0));
    let mut sent = Vec::new();
    for second in 1..400 {
        pair.pass(SECOND);
        for (from, end) in pair.ends.iter().enumerate() {
            sent.extend(end.sent.iter().map(|(_, datagram)| (second, from, datagram.kind())));
        }
        pair.settle();
    }
    assert_eq!(sent, [(10, 1, 4)], "one keepalive answers the packet, and nothing answers the keepalive");
}

#[test]
fn keepalives_sent_are_not_packets_that_want_an_answer() {
    let mut pair = Pair::with(keepalives(5));
    pair.settle();
    pair.tick();
    pair.ends.iter_mut().for_each(|end| drop(end.take_sent()));
    // Nothing is delivered: only keepalives go, and no new handshake before the session is old.
    let mut kinds = Vec::new();
    for _ in 0..60 {
        pair.pass(SECOND);
        kinds.extend(pair.ends[0].take_kinds());
    }
    assert_eq!(kinds, [4; 12]);
}

/// Persistent keepalives of end 0.
fn keepalives(seconds: u16) -> impl Fn(&mut Params) {
    move |params| {
        if params.configuration.private_key == Some(Some(support::private(1))) {
            params.configuration.peers[0].persistent_keepalive = Some(seconds);
        }
    }
}

/// The 1.0 s that the NAT step of wireguard-go's netns.sh needs.
#[test]
fn persistent_keepalives_come_on_the_second() {
    let mut pair = Pair::with(keepalives(1));
    assert_eq!(
        initiations(&pair.ends[0].sent),
        1,
        "one at once: there is no session, so it is an initiation"
    );
    pair.settle();
    pair.tick();
    let start = pair.now;
    for round in 1..=3 {
        let expected = start + seconds(round);
        assert_eq!(pair.ends[0].machine.poll_timeout(), Some(expected));
        pair.now = expected;
        pair.ends[0].wake(pair.now);
        assert_eq!(data(&pair.ends[0].take_sent()), [None]);
    }
}

#[test]
fn persistent_keepalives_go_by_all_that_passes() {
    let mut pair = Pair::with(keepalives(25));
    pair.settle();
    for from in [0, 1] {
        pair.now += seconds(10);
        pair.passes(from);
        pair.tick();
    }
    pair.ends.iter_mut().for_each(|end| drop(end.take_sent()));
    // The last packet came in: a passive keepalive answers it after 10 s, and the interval begins anew.
    let start = pair.now;
    let mut moments = Vec::new();
    for _ in 0..60 {
        pair.pass(SECOND);
        for datagram in data(&pair.ends[0].take_sent()) {
            assert_eq!(datagram, None);
            moments.push((pair.now - start).as_secs());
        }
    }
    assert_eq!(moments, [10, 35, 60]);
}

#[test]
fn a_persistent_keepalive_that_is_turned_on_is_sent_at_once() {
    let mut pair = Pair::new();
    pair.connect();
    pair.ends.iter_mut().for_each(|end| drop(end.take_sent()));
    let change = PeerChange { persistent_keepalive: Some(30), ..PeerChange::new(public(2)) };
    let changes = Changes { peers: vec![change], ..Changes::default() };
    pair.ends[0].configure(pair.now, changes.clone());
    assert_eq!(data(&pair.ends[0].take_sent()), [None]);
    pair.ends[0].configure(pair.now, changes);
    assert!(pair.ends[0].take_sent().is_empty(), "it was on");
}
