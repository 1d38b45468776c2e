//! The timers, one test a row of the table in `src/peer/timers.rs`: each fails when its guard is off by one.

use std::time::Duration;

use crate::support::{self, Pair, at, initiations, millis, peer, public};
use adit_core::{Command, Notice, Path, Protocol, SessionId};
use adit_wireguard::{Changes, PeerChange};

const SECOND: Duration = Duration::from_secs(1);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Lets time pass and gives the moments, in milliseconds after `Pair::now`, at which end 0 sent initiations. Nothing
/// is delivered.
fn initiations_in(pair: &mut Pair, time: Duration) -> Vec<u64> {
    let (start, end) = (pair.now, pair.now + time);
    let mut moments = Vec::new();
    while pair.now < end {
        let due = pair.ends[0].machine.poll_timeout().unwrap_or(end).min(end);
        pair.now = due.max(pair.now);
        pair.ends[0].wake(pair.now);
        let sent = pair.ends[0].take_sent();
        moments.extend(std::iter::repeat_n((pair.now - start).as_millis() as u64, initiations(&sent)));
        if due >= end {
            break;
        }
    }
    moments
}

#[test]
fn a_handshake_is_tried_twenty_times_with_jitter() {
    let mut pair = Pair::new();
    pair.packet(0);
    assert_eq!(pair.ends[0].take_kinds(), [1]);
    let moments = initiations_in(&mut pair, seconds(300));
    assert_eq!(moments.len(), 19, "{moments:?}");
    let mut last = 0;
    let waits: Vec<u64> =
        moments.iter().map(|moment| moment - std::mem::replace(&mut last, *moment)).collect();
    assert!(waits.iter().all(|wait| (5000..=5333).contains(wait)), "{waits:?}");
    assert!(waits.iter().any(|wait| *wait != waits[0]), "there is jitter");
    assert!(pair.ends[0].reports.iter().any(|text| text.contains("no initiation was answered")));
    assert_eq!(pair.ends[0].machine.poll_timeout().map(|due| due - pair.now > seconds(100)), Some(true));
    // The next packet starts over.
    pair.packet(0);
    assert_eq!(pair.ends[0].take_kinds(), [1]);
    assert_eq!(initiations_in(&mut pair, seconds(300)).len(), 19);
}

/// The least and the most of many draws.
fn range(draws: impl Iterator<Item = u64>) -> (u64, u64) {
    draws.fold((u64::MAX, 0), |(least, most), draw| (least.min(draw), most.max(draw)))
}

#[test]
fn retries_are_5_s_to_5333_ms_apart() {
    let waits = (0..120).flat_map(|seed| {
        let mut pair = Pair::seeded(seed, |_| {});
        pair.packet(0);
        pair.ends[0].take_sent();
        let moments = initiations_in(&mut pair, seconds(120));
        let mut last = 0;
        moments.into_iter().map(move |moment| moment - std::mem::replace(&mut last, moment))
    });
    assert_eq!(range(waits), (5000, 5333));
}

/// An end's handshake message was sent that long ago: how many initiations an order makes it send.
fn ordered_after(end: usize, time: u64, prepare: impl Fn(&mut Pair)) -> usize {
    let mut pair = Pair::new();
    pair.connect();
    pair.now += millis(time);
    prepare(&mut pair);
    pair.ends[end].take_sent();
    let id = pair.ends[end].id(2 - end as u8);
    pair.ends[end].machine.handle_command(pair.now, Command::Rekey { peer: id });
    pair.ends[end].drain();
    initiations(&pair.ends[end].take_sent())
}

/// End 0 sent an initiation, end 1 a response.
#[test]
fn initiations_are_five_seconds_after_the_last_initiation_or_response() {
    for (time, expected) in [(4999, 0), (5000, 1)] {
        for end in 0..2 {
            assert_eq!(ordered_after(end, time, |_| {}), expected, "end {end}, after {time} ms");
        }
    }
}

#[test]
fn a_peer_that_starts_over_or_a_new_private_key_opens_the_gate() {
    assert_eq!(
        ordered_after(0, 1, |pair| pair.ends[0].machine.handle_command(pair.now, Command::Restart)),
        1
    );
    let key = Changes { private_key: Some(Some(support::private(7))), ..Changes::default() };
    assert_eq!(ordered_after(0, 1, |pair| pair.ends[0].configure(pair.now, key.clone())), 1);
}

/// `Rekey-After-Messages` holds for both ends; the data plane counts (its codec's test has the number).
#[test]
fn a_session_that_sealed_enough_is_replaced_by_either_end() {
    for end in 0..2 {
        let mut pair = Pair::new();
        pair.connect();
        pair.now += seconds(10);
        pair.ends[end].take_sent();
        let peer = pair.ends[end].id(2 - end as u8);
        let session = pair.ends[end].plane.peers[&peer].active.expect("a session");
        for (session, expected) in [(SessionId(session.0 ^ 1), 0), (session, 1)] {
            pair.ends[end].machine.handle_notice(pair.now, Notice::LimitNear { peer, session });
            pair.ends[end].drain();
            assert_eq!(initiations(&pair.ends[end].take_sent()), expected, "end {end}");
        }
    }
}

/// Linux: without an endpoint the limit of 5 s does not begin, so the handshake begins as soon as there is one.
#[test]
fn without_an_endpoint_nothing_delays_the_first_initiation() {
    let mut pair = Pair::with(|params| params.configuration.peers[0].endpoint = None);
    pair.packet(0);
    assert!(pair.ends[0].take_sent().is_empty());
    let change = PeerChange { endpoint: Some(support::outer(2)), ..PeerChange::new(public(2)) };
    let changes = Changes { peers: vec![change], ..Changes::default() };
    pair.ends[0].configure(pair.now, changes);
    assert_eq!(pair.ends[0].take_kinds(), [1]);
}

#[test]
fn only_the_initiator_rekeys_after_120_seconds() {
    for (age, initiator, responder) in [(119_999, 0, 0), (120_000, 1, 0)] {
        let mut pair = Pair::new();
        pair.connect();
        pair.now += millis(age);
        pair.ends.iter_mut().for_each(|end| end.wake(pair.now));
        pair.ends.iter_mut().for_each(|end| drop(end.take_sent()));
        let (one, other) = (pair.packet(0), pair.packet(1));
        pair.tick();
        let sent = [0, 1].map(|end: usize| initiations(&pair.ends[end].take_sent()));
        assert_eq!(sent, [initiator, responder], "age {age} ms; packets {one} and {other}");
    }
}

#[test]
fn an_initiator_that_only_receives_rekeys_after_165_seconds_once() {
    for (age, expected) in [(164_999, 0), (165_000, 1)] {
        let mut pair = Pair::new();
        pair.connect();
        pair.now += millis(age);
        pair.ends.iter_mut().for_each(|end| end.wake(pair.now));
        pair.ends.iter_mut().for_each(|end| drop(end.take_sent()));
        for round in 0..2 {
            pair.packet(1);
            let sent = pair.ends[1].take_sent();
            for (_, datagram) in sent {
                let _ = pair.ends[0].receive(pair.now, support::path(support::outer(2)), &datagram);
            }
            pair.tick();
            let sent = initiations(&pair.ends[0].take_sent());
            assert_eq!(sent, if round == 0 { expected } else { 0 }, "age {age} ms, round {round}");
            if expected == 0 {
                break;
            }
            pair.now += millis(6000);
        }
    }
}

/// Packets that go on to come do not begin the twenty attempts anew.
#[test]
fn the_rekey_after_165_seconds_is_asked_for_once() {
    let mut pair = Pair::new();
    pair.connect();
    pair.ends.iter_mut().for_each(|end| drop(end.take_sent()));
    let mut count = 0;
    for age in [165, 171, 177] {
        pair.now = at(1000 + age);
        pair.ends[0].wake(pair.now);
        pair.packet(1);
        for (_, datagram) in pair.ends[1].take_sent() {
            let _ = pair.ends[0].receive(pair.now, support::path(support::outer(2)), &datagram);
        }
        pair.ends[0].tick(pair.now);
        count += initiations(&pair.ends[0].take_sent());
    }
    assert_eq!(count, 3, "the first, and two retries");
    assert_eq!(initiations_in(&mut pair, seconds(300)).len(), 17);
}

#[test]
fn sessions_end_after_180_seconds() {
    for (age, kind) in [(179_999, 4), (180_000, 1)] {
        let mut pair = Pair::new();
        pair.connect();
        pair.ends.iter_mut().for_each(|end| drop(end.take_sent()));
        pair.now += millis(age);
        pair.packet(1);
        assert_eq!(pair.ends[1].take_kinds(), [kind], "age {age} ms");
    }
}

/// 15 s and jitter after the first packet that was not answered, not after the last receive (the trap of boringtun).
#[test]
fn silence_after_a_packet_starts_a_handshake() {
    let mut pair = Pair::new();
    pair.connect();
    pair.run(seconds(60));
    pair.ends.iter_mut().for_each(|end| drop(end.take_sent()));
    let start = pair.now;
    pair.packet(0);
    pair.ends[0].tick(pair.now);
    let due = pair.ends[0].machine.poll_timeout().expect("a timer") - start;
    assert!((seconds(15)..=millis(15_333)).contains(&due), "{due:?}");
    // More packets do not put it off.
    pair.now += seconds(10);
    pair.packet(0);
    pair.ends[0].tick(pair.now);
    assert_eq!(pair.ends[0].machine.poll_timeout(), Some(start + due));
    pair.ends[0].take_sent();
    pair.now = start + due;
    pair.ends[0].wake(pair.now);
    assert_eq!(pair.ends[0].take_kinds(), [1]);
}

#[test]
fn a_new_handshake_comes_15_s_to_15333_ms_after_the_packet() {
    let mut pair = Pair::new();
    pair.connect();
    let mut waits = Vec::new();
    for _ in 0..3000 {
        pair.now += SECOND;
        pair.packet(0);
        pair.ends[0].tick(pair.now);
        let wait = pair.ends[0].machine.poll_timeout().expect("a timer") - pair.now;
        // Now and then a handshake has begun, and is tried again before.
        waits.extend((wait > seconds(10)).then_some(wait.as_millis() as u64));
        pair.settle();
        pair.packet(1);
        pair.settle();
        pair.tick();
    }
    assert!(waits.len() > 2900);
    assert_eq!(range(waits.into_iter()), (15_000, 15_333));
}

#[test]
fn an_answer_stops_the_new_handshake() {
    let mut pair = Pair::new();
    pair.connect();
    pair.run(seconds(60));
    pair.packet(0);
    pair.ends[0].tick(pair.now);
    pair.now += seconds(14);
    pair.settle();
    // The answer is a keepalive, 10 s after the packet came at the latest.
    pair.packet(1);
    pair.settle();
    pair.tick();
    pair.ends.iter_mut().for_each(|end| drop(end.take_sent()));
    pair.now += seconds(5);
    pair.ends[0].wake(pair.now);
    assert_eq!(initiations(&pair.ends[0].take_sent()), 0);
}

#[test]
fn keys_are_forgotten_540_seconds_after_the_last_handshake() {
    let mut pair = Pair::new();
    pair.connect();
    let start = pair.now;
    for (time, sessions) in [(millis(539_999), 1), (seconds(540), 0)] {
        pair.now = start + time;
        pair.ends.iter_mut().for_each(|end| end.wake(pair.now));
        for end in &pair.ends {
            let id = *end.plane.peers.keys().next().expect("a peer");
            assert_eq!(end.plane.peers[&id].sessions.len(), sessions, "after {time:?}");
            assert_eq!(end.up.len(), sessions, "after {time:?}");
        }
    }
    assert!(pair.passes(0), "it begins anew");
}

/// "Connected" by the age of the handshake would flap: handshakes come every two minutes, and none while a peer is idle.
/// A peer stays up through rekeys, and while nothing passes, as long as there are keys.
#[test]
fn a_peer_stays_up_through_rekeys_and_while_it_is_idle() {
    let mut pair = Pair::new();
    pair.connect();
    for _ in 0..60 {
        pair.run(seconds(10));
        assert!(pair.passes(0) && pair.passes(1));
        assert!(pair.ends.iter().all(|end| end.up.len() == 1 && end.machine.peers().len() == 1));
    }
    assert!(pair.ends[0].plane.installed >= 5);
    let since = pair.ends[0].machine.peers()[0].1.since;
    assert_eq!(since, at(1000), "it was never down");
    pair.run(seconds(400));
    assert!(pair.ends.iter().all(|end| end.up.len() == 1));
}

/// An initiation that is never answered is forgotten as well.
#[test]
fn a_pending_handshake_is_wiped_too() {
    let mut pair = Pair::new();
    pair.packet(0);
    let initiation = pair.ends[0].take_sent();
    initiations_in(&mut pair, seconds(110));
    assert_eq!(pair.ends[0].reports.len(), 1, "it gave up");
    let id = pair.ends[0].id(2);
    initiations_in(&mut pair, seconds(541));
    assert!(pair.ends[0].machine.poll_timeout().is_none());
    assert!(pair.ends[0].plane.peers[&id].sessions.is_empty());
    // The response to it comes too late.
    let (_, datagram) = &initiation[0];
    pair.ends[1].receive(pair.now, support::path(support::outer(1)), datagram).expect("a valid initiation");
    let (_, response) = pair.ends[1].take_sent().remove(0);
    assert!(pair.ends[0].receive(pair.now, support::path(support::outer(2)), &response).is_err());
}

/// After ten minutes asleep, by a clock that counted them, the first packet makes a new session.
#[test]
fn a_suspended_end_begins_anew() {
    let mut pair = Pair::new();
    pair.connect();
    pair.ends.iter_mut().for_each(|end| drop(end.take_sent()));
    pair.now += seconds(600);
    pair.ends.iter_mut().for_each(|end| end.wake(pair.now));
    assert!(pair.passes(0));
    assert!(pair.passes(1));
}

#[test]
fn initiations_of_one_peer_are_twenty_milliseconds_apart() {
    let mut pair = Pair::new();
    let mut taken = Vec::new();
    let initiation = |pair: &mut Pair| {
        let id = pair.ends[0].id(2);
        pair.ends[0].machine.handle_command(pair.now, Command::Restart);
        pair.ends[0].machine.handle_command(pair.now, Command::Rekey { peer: id });
        pair.ends[0].drain();
        pair.ends[0].take_sent().remove(0).1
    };
    // Each timestamp is newer, as the clock of the test goes on.
    for time in [0, 19, 20, 40] {
        pair.now = at(1000) + millis(time);
        let datagram = initiation(&mut pair);
        taken.push(pair.ends[1].receive(pair.now, support::path(support::outer(1)), &datagram).is_ok());
    }
    assert_eq!(taken, [true, false, true, true]);
}

#[test]
fn the_table_of_peers_is_not_touched_by_a_peer_that_is_added_twice() {
    let mut pair = Pair::new();
    pair.connect();
    let changes = Changes { peers: vec![peer(2, None)], ..Changes::default() };
    pair.ends[0].configure(pair.now, changes);
    assert!(pair.passes(0), "its endpoint and session stay");
}

/// The driver's number of a local address that the peer wrote to.
const LOCAL: u32 = 40;

/// Two ends after a handshake; end 0 was written to at that local address.
fn with_source() -> Pair {
    let mut pair = Pair::new();
    pair.packet(0);
    for (_, datagram) in pair.ends[0].take_sent() {
        pair.ends[1].receive(pair.now, support::path(support::outer(1)), &datagram).expect("taken");
    }
    let local = Path::Udp { socket: LOCAL, remote: support::outer(2) };
    for (_, datagram) in pair.ends[1].take_sent() {
        pair.ends[0].receive(pair.now, local, &datagram).expect("taken");
    }
    assert!(sockets_of(&mut pair).iter().all(|(_, socket)| *socket == LOCAL));
    pair
}

/// The types of what end 0 sent, and by which socket.
fn sockets_of(pair: &mut Pair) -> Vec<(u8, u32)> {
    let sent = pair.ends[0].take_sent();
    let socket = |path| match path {
        Path::Udp { socket, .. } => socket,
        Path::Tcp { .. } | Path::Ip { .. } => u32::MAX,
    };
    sent.into_iter().map(|(path, datagram)| (datagram.kind(), socket(path))).collect()
}

/// Linux: `wg_expired_retransmit_handshake`.
#[test]
fn a_retry_forgets_the_source_address() {
    let mut pair = with_source();
    let id = pair.ends[0].id(2);
    pair.now += seconds(6);
    pair.ends[0].machine.handle_command(pair.now, Command::Rekey { peer: id });
    pair.ends[0].drain();
    assert_eq!(sockets_of(&mut pair), [(1, LOCAL)], "the first initiation keeps it");
    pair.pass(millis(5400));
    assert_eq!(sockets_of(&mut pair), [(1, support::SOCKET)]);
    pair.packet(0);
    assert_eq!(sockets_of(&mut pair), [(4, support::SOCKET)], "and data leaves from elsewhere, too");
}

/// Linux: `send4` in socket.c, when the route's device is not the one at which the peer's datagrams arrive.
#[test]
fn another_route_forgets_the_source_address() {
    let mut pair = with_source();
    let (peer, remote) = (pair.ends[0].id(2), support::outer(2));
    let mut change = |socket| {
        let path = Path::Udp { socket, remote };
        pair.ends[0].machine.handle_command(pair.now, Command::RouteChanged { peer, path });
        pair.ends[0].drain();
        pair.packet(0);
        sockets_of(&mut pair)
    };
    assert_eq!(change(LOCAL + 1), [(4, LOCAL)], "the peer's path was another by then");
    assert_eq!(change(LOCAL), [(4, support::SOCKET)]);
}

/// Linux: `wg_expired_new_handshake`.
#[test]
fn a_new_handshake_without_an_answer_forgets_the_source_address() {
    let mut pair = with_source();
    pair.pass(seconds(1));
    pair.packet(0);
    assert_eq!(sockets_of(&mut pair), [(4, LOCAL)]);
    pair.pass(seconds(17));
    assert_eq!(sockets_of(&mut pair), [(1, support::SOCKET)]);
}
