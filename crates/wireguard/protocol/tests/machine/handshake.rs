//! Handshakes: both ends at once, replays, roaming, keys that cannot be, restarts.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::support::plane::Ledger;
use crate::support::{
    Datagram, EPOCH, End, Pair, at, data, initiations, inner, millis, outer, params, path, peer, private,
    public,
};
use adit_core::{Command, Ended, Protocol, Rejected, SessionId};
use adit_wireguard::{Changes, PeerChange, PresharedKey, PublicKey, Reply, Request, WallClock};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn packets_that_waited_go_first_and_a_keepalive_confirms() {
    let mut pair = Pair::new();
    let numbers = [pair.packet(0), pair.packet(0)];
    let initiation = pair.ends[0].take_sent();
    assert_eq!(initiations(&initiation), 1);
    pair.ends[1].receive(pair.now, path(outer(1)), &initiation[0].1).expect("a valid initiation");
    assert!(pair.ends[1].up.is_empty(), "the initiator has not proved that it has the keys");
    let response = pair.ends[1].take_sent();
    pair.ends[0].receive(pair.now, path(outer(2)), &response[0].1).expect("a valid response");
    let sent = pair.ends[0].take_sent();
    assert_eq!(data(&sent), [Some(numbers[0]), Some(numbers[1]), None]);
    pair.ends[1].receive(pair.now, path(outer(1)), &sent[0].1).expect("data");
    assert_eq!(pair.ends[1].up.len(), 1);
    assert!(pair.passes(1));
}

#[test]
fn the_responder_seals_with_the_old_session_until_the_new_one_is_confirmed() {
    let mut pair = Pair::new();
    pair.connect();
    pair.now += seconds(130);
    pair.packet(0);
    pair.tick();
    // The old session's packet and the initiation arrive, the response is lost on its way.
    for (_, datagram) in pair.ends[0].take_sent() {
        let _ = pair.ends[1].receive(pair.now, path(outer(1)), &datagram);
    }
    assert_eq!(pair.ends[1].take_kinds(), [2]);
    pair.packet(1);
    let sent = pair.ends[1].take_sent();
    let Datagram::Data(sealed) = &sent[0].1 else { panic!("data") };
    let id = pair.ends[0].id(2);
    let current = pair.ends[0].plane.peers[&id].active;
    assert_eq!(current, Some(SessionId(sealed.receiver.into())), "the session that both have");
    assert!(pair.passes(1));
}

/// The end with the greater key, of two ends that begin at once, goes on with its handshake. In wireguard-go an
/// initiation that comes takes the place of one's own: such ends cross each other again with each retry, where
/// datagrams take longer than the jitter between them.
#[test]
fn both_at_once_need_no_retry() {
    let mut pair = Pair::new();
    let numbers = [pair.packet(0), pair.packet(1)];
    let sent = cross(&mut pair);
    assert_eq!(sent.map(|kinds| kinds == [2]), [true; 2], "both respond");
    pair.settle();
    for (from, sent) in numbers.into_iter().enumerate() {
        assert!(pair.ends[1 - from].delivered.iter().any(|(_, number)| *number == sent));
    }
    let active = [0, 1].map(|end: usize| {
        let peer = pair.ends[end].plane.peers.values().next().expect("a peer");
        &peer.sessions[&peer.active.expect("a session")].codec
    });
    assert_eq!(active[0].seal, active[1].open, "both use the same session");
    pair.tick();
    pair.ends.iter_mut().for_each(|end| drop(end.take_sent()));
    pair.run(seconds(8));
    let kinds = [0, 1].map(|end: usize| pair.ends[end].take_kinds());
    assert!(kinds.iter().flatten().all(|kind| *kind == 4), "nothing is tried again: {kinds:?}");
}

/// Delivers what both ends sent at once, and gives the types of what they answer, which stays on its way.
fn cross(pair: &mut Pair) -> [Vec<u8>; 2] {
    let sent = [0, 1].map(|end: usize| pair.ends[end].take_sent());
    for (from, datagrams) in sent.into_iter().enumerate() {
        for (_, datagram) in datagrams {
            pair.ends[1 - from].receive(pair.now, path(outer(from as u8 + 1)), &datagram).expect("taken");
        }
    }
    [0, 1].map(|end: usize| pair.ends[end].sent.iter().map(|(_, datagram)| datagram.kind()).collect())
}

/// Both ends rekey at once, and no response arrives. When one of them tries again, its peer seals with the session
/// before until it hears from it: packets on their way then are not lost.
#[test]
fn what_is_on_its_way_survives_handshakes_that_crossed() {
    let mut pair = Pair::new();
    pair.connect();
    pair.now += seconds(6);
    for end in 0..2 {
        let id = pair.ends[end].id(2 - end as u8);
        pair.ends[end].machine.handle_command(pair.now, Command::Rekey { peer: id });
        pair.ends[end].drain();
    }
    cross(&mut pair);
    pair.ends.iter_mut().for_each(|end| drop(end.take_sent()));
    pair.now += millis(5_334);
    pair.ends[0].wake(pair.now);
    let initiation = pair.ends[0].take_sent();
    assert_eq!(initiations(&initiation), 1);
    pair.ends[1].receive(pair.now, path(outer(1)), &initiation[0].1).expect("taken");
    let response = pair.ends[1].take_sent();
    let number = pair.packet(1);
    let packet = pair.ends[1].take_sent();
    pair.ends[0].receive(pair.now, path(outer(2)), &response[0].1).expect("taken");
    pair.ends[0].receive(pair.now, path(outer(2)), &packet[0].1).expect("data");
    assert!(pair.ends[0].delivered.iter().any(|(_, arrived)| *arrived == number));
}

#[test]
fn replayed_initiations_are_refused() {
    let mut pair = Pair::new();
    pair.packet(0);
    let sent = pair.ends[0].take_sent();
    let receive = |pair: &mut Pair| pair.ends[1].receive(pair.now, path(outer(1)), &sent[0].1);
    assert_eq!(receive(&mut pair), Ok(()));
    assert_eq!(pair.ends[1].take_kinds(), [2]);
    pair.now += seconds(1);
    assert_eq!(receive(&mut pair), Err(Rejected::Replayed));
    assert!(pair.ends[1].take_sent().is_empty());
}

/// The greatest timestamp of an earlier run refuses what was recorded then.
#[test]
fn replays_are_refused_over_a_restart_if_the_timestamp_was_kept() {
    let mut pair = Pair::new();
    pair.packet(0);
    let sent = pair.ends[0].take_sent();
    pair.ends[1].receive(pair.now, path(outer(1)), &sent[0].1).expect("new");
    let status = pair.ends[1].machine.status();
    let kept = status.peers[0].detail.last_timestamp;
    assert!(kept.is_some());
    for (last_timestamp, expected) in [(kept, Err(Rejected::Replayed)), (None, Ok(()))] {
        let one = PeerChange { last_timestamp, ..peer(1, None) };
        let mut again = End::new(params(2, pair.now, vec![one]), pair.now, [9; 32], &pair.ledger);
        assert_eq!(again.receive(pair.now, path(outer(1)), &sent[0].1), expected);
    }
}

/// A machine without a battery for its clock starts in 1970: its initiations must not be replays to its peers.
#[test]
fn a_clock_that_starts_in_1970_shuts_nobody_out() {
    let mut pair = Pair::new();
    pair.connect();
    let saved = pair.ends[0].requests.iter().filter_map(|request| match request {
        Request::SaveTimestamp(timestamp) => Some(*timestamp),
        _ => None,
    });
    let saved = saved.max();
    assert!(saved.is_some());
    for (floor, connects) in [(saved, true), (None, false)] {
        let mut params = params(1, pair.now, vec![peer(2, Some(outer(2)))]);
        params.clock = WallClock { at: pair.now, since_1970: Duration::ZERO };
        params.timestamp_floor = floor;
        pair.ends[0] = End::new(params, pair.now, [40; 32], &pair.ledger);
        pair.now += seconds(10);
        assert_eq!(pair.passes(0), connects, "floor {floor:?}");
        if !connects {
            let since_1970 = seconds(EPOCH + 100_000);
            let clock = WallClock { at: pair.now, since_1970 };
            pair.ends[0].reply(pair.now, Reply::Clock(clock));
            pair.run(seconds(10));
            assert!(pair.passes(0), "the clock was set");
        }
    }
}

#[test]
fn a_clock_that_is_set_back_a_year_changes_nothing() {
    let mut pair = Pair::new();
    pair.connect();
    let since_1970 = seconds(EPOCH - 31_536_000);
    pair.ends[0].reply(pair.now, Reply::Clock(WallClock { at: pair.now, since_1970 }));
    for _ in 0..5 {
        pair.run(seconds(100));
        assert!(pair.passes(0));
    }
    let last = pair.ends[0].machine.status().peers[0].detail.last_handshake.expect("a handshake");
    assert!(last < seconds(EPOCH), "the status shows the system's clock");
}

#[test]
fn a_peer_is_followed_by_handshakes_and_by_data() {
    let mut pair = Pair::new();
    pair.connect();
    let elsewhere = path(([198, 51, 100, 7], 999).into());
    pair.packet(0);
    let sent = pair.ends[0].take_sent();
    pair.ends[1].receive(pair.now, elsewhere, &sent[0].1).expect("data");
    pair.packet(1);
    assert_eq!(pair.ends[1].take_sent()[0].0, elsewhere);
    let id = pair.ends[1].id(1);
    assert_eq!(pair.ends[1].machine.peers()[0].1.path, elsewhere);
    // An initiation from a third address.
    pair.now += seconds(6);
    let third = path(([198, 51, 100, 8], 1).into());
    let other = pair.ends[0].id(2);
    pair.ends[0].machine.handle_command(pair.now, Command::Rekey { peer: other });
    pair.ends[0].drain();
    let sent = pair.ends[0].take_sent();
    pair.ends[1].receive(pair.now, third, &sent[0].1).expect("valid");
    let response = pair.ends[1].take_sent();
    assert_eq!(response[0].0, third, "the response goes there");
    assert_eq!(pair.ends[1].plane.peers[&id].path, Some(elsewhere), "it may answer what was recorded");
    pair.ends[0].receive(pair.now, path(outer(2)), &response[0].1).expect("valid");
    let sent = pair.ends[0].take_sent();
    pair.ends[1].receive(pair.now, third, &sent[0].1).expect("a keepalive");
    assert_eq!(pair.ends[1].plane.peers[&id].path, Some(third));
    assert_eq!(pair.ends[1].machine.peers()[0].1.path, third);
}

/// An end that restarts knows no timestamps, and takes an initiation that was recorded before. It answers it, and goes
/// on to look for the peer where it was configured to be: if both ends had restarted and followed such messages to
/// their sender, they would not find each other again. A seed of `adit-sim` did.
#[test]
fn a_recorded_initiation_leads_nobody_astray_after_a_restart() {
    let mut pair = Pair::new();
    let attacker = path(([203, 0, 113, 9], 9).into());
    let mut recorded = Vec::new();
    for from in [0, 1] {
        pair.now += seconds(200);
        pair.packet(from);
        let sent = pair.ends[from].take_sent();
        assert_eq!(initiations(&sent), 1);
        recorded.push(sent[0].1.clone());
        pair.ends[1 - from].receive(pair.now, path(outer(from as u8 + 1)), &sent[0].1).expect("new");
        pair.settle();
    }
    for end in 0..2 {
        let (n, other) = (end as u8 + 1, 2 - end as u8);
        let params = params(n, pair.now, vec![peer(other, Some(outer(other)))]);
        pair.ends[end] = End::new(params, pair.now, [77 + n; 32], &pair.ledger);
        pair.ends[end]
            .receive(pair.now, attacker, &recorded[1 - end])
            .expect("it cannot be told from a new one");
        assert_eq!(pair.ends[end].take_sent()[0].0, attacker, "the response");
    }
    pair.now += seconds(6);
    assert!(pair.passes(0) && pair.passes(1));
}

#[test]
fn forged_messages_change_nothing() {
    let mut pair = Pair::new();
    pair.connect();
    pair.now += seconds(6);
    let id = pair.ends[0].id(2);
    pair.ends[0].machine.handle_command(pair.now, Command::Rekey { peer: id });
    pair.ends[0].drain();
    let sent = pair.ends[0].take_sent();
    let Datagram::Control(initiation) = &sent[0].1 else { panic!("an initiation") };
    let before = pair.ends[1].machine.status();
    let elsewhere = path(([198, 51, 100, 7], 999).into());
    for byte in 0..initiation.len() - 16 {
        let mut forged = initiation.clone();
        forged[byte] ^= 0x40;
        let taken = pair.ends[1].receive(pair.now, elsewhere, &Datagram::Control(forged));
        assert!(taken.is_err(), "byte {byte}");
    }
    for length in 0..initiation.len() {
        let short = Datagram::Control(initiation[..length].to_vec());
        assert!(pair.ends[1].receive(pair.now, elsewhere, &short).is_err());
    }
    assert_eq!(pair.ends[1].machine.status(), before);
    assert!(pair.ends[1].take_sent().is_empty());
}

/// The trap of gotatun: a datagram longer than any message ended the receiver.
#[test]
fn datagrams_longer_than_messages_are_refused() {
    let mut pair = Pair::new();
    pair.connect();
    for kind in 0..=5 {
        for length in [0, 1, 3, 4, 63, 65, 91, 93, 147, 149, 1500, 65_507, 65_535] {
            let mut bytes = vec![0; length];
            bytes.iter_mut().take(1).for_each(|first| *first = kind);
            let taken = pair.ends[1].receive(pair.now, path(outer(1)), &Datagram::Control(bytes));
            assert!(taken.is_err(), "type {kind}, {length} bytes");
        }
    }
    assert!(pair.ends[1].take_sent().is_empty() && pair.passes(0));
}

/// The time of the last handshake in `wg show` is that of the system's clock at which it was complete at that end.
#[test]
fn the_last_handshake_is_shown_by_the_systems_clock() {
    let last = |pair: &Pair, end: usize| pair.ends[end].machine.status().peers[0].detail.last_handshake;
    let mut pair = Pair::new();
    assert_eq!((last(&pair, 0), last(&pair, 1)), (None, None));
    let start = seconds(EPOCH + 1000);
    pair.connect();
    assert_eq!((last(&pair, 0), last(&pair, 1)), (Some(start), Some(start)));
    pair.now += seconds(50);
    assert!(pair.passes(0) && pair.passes(1));
    assert_eq!((last(&pair, 0), last(&pair, 1)), (Some(start), Some(start)), "data are no handshake");
    pair.now += seconds(80);
    pair.packet(0);
    pair.tick();
    // The initiation and the response pass; what confirms the keys comes a second later.
    for from in [0, 1] {
        for (_, datagram) in pair.ends[from].take_sent() {
            let _ = pair.ends[1 - from].receive(pair.now, path(outer(from as u8 + 1)), &datagram);
        }
    }
    let rekeyed = start + seconds(130);
    assert_eq!((last(&pair, 0), last(&pair, 1)), (Some(rekeyed), Some(start)));
    pair.now += seconds(1);
    pair.settle();
    assert_eq!((last(&pair, 0), last(&pair, 1)), (Some(rekeyed), Some(rekeyed + seconds(1))));
}

/// An initiation of a key that is no peer's, as an attacker with our public key can make.
#[test]
fn keys_that_are_not_configured_get_no_answer() {
    let mut pair = Pair::new();
    let mut third =
        End::new(params(3, pair.now, vec![peer(2, Some(outer(2)))]), pair.now, [3; 32], &pair.ledger);
    third.send(pair.now, inner(2), 1);
    let sent = third.take_sent();
    let taken = pair.ends[1].receive(pair.now, path(outer(3)), &sent[0].1);
    assert_eq!(taken, Err(Rejected::Unauthentic("no peer has the sender's key")));
    assert!(pair.ends[1].take_sent().is_empty());
}

#[test]
fn preshared_keys_must_agree() {
    let preshared = |byte| Some(PresharedKey::new([byte; 32]));
    let mut pair = Pair::with(|params| params.configuration.peers[0].preshared_key = preshared(7));
    assert!(pair.passes(0));
    // A changed one leaves the session; the next handshake uses it.
    let change = PeerChange { preshared_key: preshared(8), ..PeerChange::new(public(2)) };
    pair.ends[0].configure(pair.now, Changes { peers: vec![change], ..Changes::default() });
    assert!(pair.passes(0));
    pair.run(seconds(200));
    assert!(!pair.passes(0));
    let change = PeerChange { preshared_key: preshared(8), ..PeerChange::new(public(1)) };
    pair.ends[1].configure(pair.now, Changes { peers: vec![change], ..Changes::default() });
    pair.run(seconds(12));
    assert!(pair.passes(0));
}

/// Seven points of low order as peers: nothing may be sent to them (the kernel's netns.sh).
#[test]
fn nothing_is_sent_to_points_of_low_order() {
    let mut points = vec![[0; 32]; 7];
    points[1][0] = 1;
    let hex = [
        (2, "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
        (3, "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
        (4, "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
        (5, "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
        (6, "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    ];
    for (index, text) in hex {
        for (place, digits) in points[index].iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).expect("ASCII");
            *place = u8::from_str_radix(digits, 16).expect("hex");
        }
    }
    let peers = points.into_iter().map(|point| PeerChange {
        persistent_keepalive: Some(1),
        endpoint: Some(outer(9)),
        ..PeerChange::new(PublicKey(point))
    });
    let ledger = Rc::new(RefCell::new(Ledger::default()));
    let mut end = End::new(params(1, at(1), peers.collect()), at(1), [1; 32], &ledger);
    for second in 1..30 {
        end.wake(at(second));
        assert!(end.take_sent().is_empty());
    }
}

#[test]
fn either_end_may_restart() {
    let mut pair = Pair::new();
    pair.connect();
    for restarted in [0, 1, 1, 0] {
        pair.now += seconds(10);
        let n = restarted as u8 + 1;
        let other = 3 - n;
        let seed = [(50 + pair.now.as_nanos() as u8) ^ n; 32];
        let params = params(n, pair.now, vec![peer(other, Some(outer(other)))]);
        pair.ends[restarted] = End::new(params, pair.now, seed, &pair.ledger);
        assert!(pair.passes(restarted), "it begins anew");
        assert!(pair.passes(1 - restarted));
    }
    // The other end notices after 15 s of silence.
    let params = params(1, pair.now, vec![peer(2, None)]);
    pair.ends[0] = End::new(params, pair.now, [99; 32], &pair.ledger);
    pair.now += seconds(10);
    assert!(!pair.passes(1));
    pair.tick();
    pair.run(seconds(16));
    assert!(pair.passes(1));
}

#[test]
fn after_its_end_it_says_nothing() {
    let mut pair = Pair::new();
    pair.connect();
    pair.ends[0].machine.handle_command(pair.now, Command::Shutdown);
    pair.ends[0].drain();
    assert_eq!(pair.ends[0].ended, Some(Ended::Shutdown));
    assert!(pair.ends[0].plane.peers.is_empty() && pair.ends[0].up.is_empty());
    assert!(pair.ends[0].machine.poll_timeout().is_none());
    assert!(pair.ends[0].machine.status().private_key.is_none());
    pair.packet(1);
    pair.settle();
    assert!(pair.ends[0].take_sent().is_empty());
}

#[test]
fn a_changed_private_key_ends_all_sessions() {
    let mut pair = Pair::new();
    pair.connect();
    pair.ends.iter_mut().for_each(|end| drop(end.take_sent()));
    let changes = Changes { private_key: Some(Some(private(5))), ..Changes::default() };
    pair.ends[0].configure(pair.now, changes);
    assert!(!pair.passes(0), "end 1 knows another key");
    pair.ends[1].configure(pair.now, Changes { peers: vec![peer(5, Some(outer(1)))], ..Changes::default() });
    pair.run(seconds(6));
    // Its inner address is still that of the old peer.
    let change = PeerChange { remove: true, ..PeerChange::new(public(1)) };
    pair.ends[1].configure(pair.now, Changes { peers: vec![change], ..Changes::default() });
    let mut moved = peer(5, None);
    moved.allowed_ips = peer(1, None).allowed_ips;
    pair.ends[1].configure(pair.now, Changes { peers: vec![moved], ..Changes::default() });
    assert!(pair.passes(0) && pair.passes(1));
}

#[test]
fn bytes_are_counted_with_handshakes() {
    let mut pair = Pair::new();
    pair.connect();
    let bytes = |end: &End| {
        let status = end.machine.status();
        (status.peers[0].detail.sent_bytes, status.peers[0].detail.received_bytes)
    };
    assert_eq!(bytes(&pair.ends[0]), (148 + 128 + 32, 92));
    assert_eq!(bytes(&pair.ends[1]), (92, 148 + 128 + 32));
}
