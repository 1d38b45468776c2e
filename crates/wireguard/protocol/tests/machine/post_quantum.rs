//! Post-quantum preshared keys between two ends: agreed on within a session, used by the next handshake.

use std::time::Duration;

use crate::support::{Datagram, End, Pair, millis, outer, params, path, peer, public};
use adit_core::{Command, Protocol};
use adit_wireguard::{Changes, Params, PeerChange, PostQuantum, PresharedKey};

const OFFER: u8 = 1;
const ANSWER: u8 = 2;
const DONE: u8 = 3;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn enable(params: &mut Params) {
    params.configuration.peers.iter_mut().for_each(|peer| peer.post_quantum = Some(PostQuantum::On));
}

/// The post-quantum state of the ends' current sessions.
fn shown(pair: &Pair) -> [Option<bool>; 2] {
    [(0, 2), (1, 1)]
        .map(|(end, other)| pair.ends[end].machine.peer(&public(other)).expect("a peer").post_quantum)
}

/// The type of a message of the exchange.
fn kind(datagram: &Datagram) -> Option<u8> {
    match datagram {
        Datagram::Data(sealed) => sealed.message.get(2).copied(),
        Datagram::Control(_) => None,
    }
}

/// The type of a datagram (1, 2, 4), or of its message of the exchange (11, 12, 13).
fn name(datagram: &Datagram) -> u8 {
    kind(datagram).map_or(datagram.kind(), |kind| 10 + kind)
}

/// Delivers what is on its way, but for what `drop` says; gives the names of all as they were sent.
fn settle(pair: &mut Pair, mut drop: impl FnMut(&Datagram) -> bool) -> Vec<u8> {
    let mut kinds = Vec::new();
    loop {
        let sent = [0, 1].map(|end: usize| pair.ends[end].take_sent());
        if sent.iter().all(Vec::is_empty) {
            return kinds;
        }
        for (from, datagrams) in sent.into_iter().enumerate() {
            for (_, datagram) in datagrams {
                kinds.push(name(&datagram));
                if !drop(&datagram) {
                    let from_path = path(outer(from as u8 + 1));
                    let _ = pair.ends[1 - from].receive(pair.now, from_path, &datagram);
                }
            }
        }
    }
}

/// Lets time pass in steps of 50 ms, dropping what `drop` says.
fn run(pair: &mut Pair, time: Duration, mut drop: impl FnMut(&Datagram) -> bool) -> Vec<u8> {
    let end = pair.now + time;
    let mut kinds = settle(pair, &mut drop);
    for step in 1.. {
        if pair.now >= end {
            break;
        }
        pair.pass(millis(50));
        if step % 20 == 0 {
            pair.tick();
        }
        kinds.extend(settle(pair, &mut drop));
    }
    kinds
}

fn count(kinds: &[u8], kind: u8) -> usize {
    kinds.iter().filter(|each| **each == kind).count()
}

#[test]
fn the_second_handshake_uses_the_key_and_begins_at_once() {
    let mut pair = Pair::with(enable);
    pair.packet(0);
    let first = settle(&mut pair, |_| false);
    assert_eq!(first, [1, 2, 4, 4, 11, 12, 13], "handshake, packet, keepalive, exchange");
    assert_eq!(shown(&pair), [Some(false); 2]);
    let second = run(&mut pair, seconds(1), |_| false);
    assert_eq!(second, [1, 2, 4, 11, 12, 13]);
    assert_eq!(shown(&pair), [Some(true); 2]);
    assert_eq!(run(&mut pair, seconds(8), |_| false), [] as [u8; 0], "and that is all");
    assert!(pair.passes(0) && pair.passes(1));
}

#[test]
fn each_rekey_uses_another_key() {
    let mut pair = Pair::with(enable);
    pair.connect();
    let mut offers = 0;
    for _ in 0..400 {
        pair.packet(0);
        let kinds = run(&mut pair, seconds(1), |_| false);
        offers += count(&kinds, 10 + OFFER);
        assert_eq!(shown(&pair), [Some(true); 2], "from the first second on");
    }
    // One after the first handshake went by before.
    assert_eq!(offers, 1 + 3, "400 s have three rekeys");
}

/// Nothing that is not WireGuard goes to an end that does not take part.
#[test]
fn an_end_that_has_it_off_sees_nothing() {
    for on in [0, 1] {
        let mut pair = Pair::with(|_| {});
        let change =
            PeerChange { post_quantum: Some(PostQuantum::On), ..PeerChange::new(public(2 - on as u8)) };
        let now = pair.now;
        pair.ends[on].configure(now, Changes { peers: vec![change], ..Changes::default() });
        pair.packet(0);
        let mut kinds = run(&mut pair, seconds(1), |_| false);
        for _ in 0..300 {
            pair.packet(0);
            pair.packet(1);
            kinds.extend(run(&mut pair, seconds(1), |_| false));
        }
        assert!(kinds.iter().all(|kind| matches!(kind, 1 | 2 | 4)), "{kinds:?}");
        assert_eq!(count(&kinds, 1), 3, "the first handshake and two rekeys");
        let mut expected = [None; 2];
        expected[on] = Some(false);
        assert_eq!(shown(&pair), expected);
    }
}

/// Each message of the exchange and of the second handshake is lost so often.
#[test]
fn what_is_lost_is_sent_again() {
    for (lost, passes, times) in
        [(11, 0, 1), (12, 0, 1), (13, 0, 1), (11, 0, 3), (12, 0, 3), (13, 0, 3), (1, 1, 1), (2, 1, 1)]
    {
        let mut pair = Pair::with(enable);
        pair.packet(0);
        let mut seen = 0;
        let drop = |datagram: &Datagram| {
            let is_named = name(datagram) == lost;
            seen += u32::from(is_named);
            is_named && (passes + 1..=passes + times).contains(&seen)
        };
        run(&mut pair, seconds(20), drop);
        assert!(seen > passes + times, "{lost} was lost, and sent again");
        assert_eq!(shown(&pair), [Some(true); 2], "{lost} was lost {times} times");
        assert!(pair.passes(0) && pair.passes(1));
    }
}

/// An attacker who drops all of it gets a tunnel as it was before, and not none; the keys come when it ends.
#[test]
fn dropping_the_exchange_leaves_the_tunnel() {
    for dropped in [OFFER, ANSWER, DONE] {
        let mut pair = Pair::with(enable);
        for _ in 0..130 {
            pair.packet(0);
            run(&mut pair, seconds(1), |datagram| kind(datagram) == Some(dropped));
            assert_eq!(shown(&pair), [Some(false); 2]);
        }
        assert_eq!(pair.ends[1].delivered.len(), 130);
        let reports = pair.ends.iter().flat_map(|end| &end.reports);
        assert!(reports.into_iter().any(|text| text.contains("was not answered")), "{dropped}");
        run(&mut pair, seconds(20), |_| false);
        assert_eq!(shown(&pair), [Some(true); 2], "{dropped}");
    }
}

/// An exchange is dropped once there are keys: each rekey uses the last key that both ends have.
#[test]
fn dropping_later_exchanges_leaves_the_last_key() {
    for dropped in [OFFER, ANSWER, DONE] {
        let mut pair = Pair::with(enable);
        pair.connect();
        run(&mut pair, seconds(1), |_| false);
        for second in 0..400 {
            pair.packet(second % 2);
            run(&mut pair, seconds(1), |datagram| kind(datagram) == Some(dropped));
            assert_eq!(shown(&pair), [Some(true); 2], "{dropped} dropped, {second} s");
        }
        assert_eq!(pair.ends.each_ref().map(|end| end.delivered.len()), [200, 201]);
    }
}

fn restart(pair: &mut Pair, index: usize) {
    let (n, other) = [(1, 2), (2, 1)][index];
    let mut params = params(n, pair.now, vec![peer(other, Some(outer(other)))]);
    enable(&mut params);
    pair.ends[index] = End::new(params, pair.now, [77; 32], &pair.ledger);
}

#[test]
fn an_end_that_lost_its_keys_gets_others() {
    for (restarted, sender) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mut pair = Pair::with(enable);
        pair.connect();
        run(&mut pair, seconds(10), |_| false);
        assert_eq!(shown(&pair), [Some(true); 2]);
        restart(&mut pair, restarted);
        for _ in 0..25 {
            pair.packet(sender);
            run(&mut pair, seconds(1), |_| false);
        }
        assert_eq!(shown(&pair), [Some(true); 2], "end {restarted} restarted, end {sender} sent");
        assert!(pair.passes(0) && pair.passes(1));
    }
}

/// The peer had it on, has it off now: one initiation more than usual, and then nothing but WireGuard.
#[test]
fn a_peer_that_turns_it_off_is_left_alone() {
    let mut pair = Pair::with(enable);
    pair.connect();
    run(&mut pair, seconds(10), |_| false);
    let off = PeerChange { post_quantum: Some(PostQuantum::Off), ..PeerChange::new(public(1)) };
    let now = pair.now;
    pair.ends[1].configure(now, Changes { peers: vec![off], ..Changes::default() });
    let mut kinds = Vec::new();
    for _ in 0..300 {
        pair.packet(0);
        kinds.extend(run(&mut pair, seconds(1), |_| false));
    }
    assert!(kinds.iter().all(|kind| matches!(kind, 1 | 2 | 4)), "{kinds:?}");
    assert_eq!(count(&kinds, 1), 2 + 1, "two rekeys, and one initiation that names no key");
    assert_eq!(shown(&pair), [Some(false), None]);
}

#[test]
fn both_ends_begin_at_once() {
    for seed in 0..20 {
        let mut pair = Pair::seeded(seed, enable);
        pair.packet(0);
        pair.packet(1);
        run(&mut pair, seconds(20), |_| false);
        assert_eq!(shown(&pair), [Some(true); 2], "seed {seed}");
        assert!(pair.passes(0) && pair.passes(1));
    }
}

fn rekey(pair: &mut Pair, end: usize) {
    let end = &mut pair.ends[end];
    let peer = end.machine.peers()[0].0;
    end.machine.handle_command(pair.now, Command::Rekey { peer });
    end.drain();
}

/// One end names the newest key while the other, which does not know yet that it may, names the one before. Both keys are
/// known to both ends afterwards, also if no other is agreed on.
#[test]
fn initiations_that_name_different_keys_may_cross() {
    let mut pair = Pair::with(enable);
    pair.connect();
    run(&mut pair, seconds(8), |_| false);
    let no_exchange = |datagram: &Datagram| kind(datagram).is_some();
    (0..2).for_each(|end| rekey(&mut pair, end));
    run(&mut pair, seconds(8), no_exchange);
    for end in [0, 1, 0] {
        rekey(&mut pair, end);
        let kinds = run(&mut pair, seconds(8), no_exchange);
        assert_eq!(
            (count(&kinds, 1), shown(&pair)),
            (1, [Some(true); 2]),
            "end {end} names a key that is known"
        );
    }
    assert!(pair.passes(0) && pair.passes(1));
}

/// An end offers a key, and before the other names it, it gets another by answering an offer: the older one, named later,
/// does not take the place of the newer one. (Seed 2621 of `adit-sim --wireguard`.)
#[test]
fn a_key_that_is_named_late_takes_the_place_of_none_that_is_newer() {
    for first in [0, 1] {
        let mut pair = Pair::with(enable);
        pair.connect();
        run(&mut pair, seconds(8), |_| false);
        for end in [first, 1 - first] {
            rekey(&mut pair, end);
            run(&mut pair, seconds(8), |_| false);
        }
        (0..2).for_each(|end| rekey(&mut pair, end));
        run(&mut pair, seconds(8), |_| false);
        for end in [first, 1 - first, first] {
            rekey(&mut pair, end);
            let kinds = run(&mut pair, seconds(8), |_| false);
            assert_eq!((count(&kinds, 1), shown(&pair)), (1, [Some(true); 2]), "{first} first, end {end}");
        }
    }
}

/// An initiation of before the first exchange that comes when both ends have a key does not make an end forget it.
#[test]
fn an_initiation_that_was_held_back_takes_no_key_away() {
    let mut pair = Pair::with(enable);
    pair.packet(0);
    let held = pair.ends[0].take_sent();
    pair.packet(1);
    run(&mut pair, seconds(8), |_| false);
    assert_eq!(shown(&pair), [Some(true); 2]);
    let now = pair.now;
    for (_, initiation) in &held {
        pair.ends[1].receive(now, path(outer(1)), initiation).expect("the first of that end");
    }
    let no_exchange = |datagram: &Datagram| kind(datagram).is_some();
    run(&mut pair, seconds(8), no_exchange);
    rekey(&mut pair, 1);
    run(&mut pair, seconds(8), no_exchange);
    assert_eq!(shown(&pair), [Some(true); 2]);
    assert!(pair.passes(0) && pair.passes(1));
}

/// A proof that comes when the next handshake has begun is not taken: the offerer would forget the key that it proves.
#[test]
fn a_proof_that_was_held_back_makes_no_key_that_one_end_forgets() {
    let mut pair = Pair::with(enable);
    pair.connect();
    run(&mut pair, seconds(8), |_| false);
    rekey(&mut pair, 0);
    let mut held = Vec::new();
    run(&mut pair, seconds(8), |datagram| {
        let is_done = kind(datagram) == Some(DONE);
        held.extend(is_done.then(|| datagram.clone()));
        is_done
    });
    rekey(&mut pair, 0);
    let (now, sent) = (pair.now, pair.ends[0].take_sent());
    let proof = held.last().expect("a proof");
    pair.ends[0].receive(now, path(outer(2)), proof).expect("data");
    for (_, initiation) in &sent {
        pair.ends[1].receive(now, path(outer(1)), initiation).expect("an initiation");
    }
    let no_proof = |datagram: &Datagram| kind(datagram) == Some(DONE);
    run(&mut pair, seconds(8), no_proof);
    rekey(&mut pair, 0);
    run(&mut pair, seconds(8), no_proof);
    assert_eq!(shown(&pair), [Some(true); 2]);
    assert!(pair.passes(0) && pair.passes(1));
}

fn set_preshared(pair: &mut Pair, end: usize, preshared: [u8; 32]) {
    let other = public(2 - end as u8);
    let change = PeerChange { preshared_key: Some(PresharedKey::new(preshared)), ..PeerChange::new(other) };
    let now = pair.now;
    pair.ends[end].configure(now, Changes { peers: vec![change], ..Changes::default() });
}

/// The configured key is mixed in: it must agree as before, and a new one counts from the next handshake on.
#[test]
fn the_configured_key_still_decides() {
    let mut pair = Pair::with(|params| {
        enable(params);
        params.configuration.peers[0].preshared_key = Some(PresharedKey::new([5; 32]));
    });
    pair.connect();
    run(&mut pair, seconds(10), |_| false);
    assert_eq!(shown(&pair), [Some(true); 2]);
    let status = pair.ends[0].machine.status();
    assert_eq!(status.peers[0].preshared_key, PresharedKey::new([5; 32]), "what wg shows");
    set_preshared(&mut pair, 0, [6; 32]);
    for _ in 0..200 {
        pair.packet(0);
        run(&mut pair, seconds(1), |_| false);
    }
    pair.ends[1].delivered.clear();
    assert!(!pair.passes(0), "the session is over, and the configured keys differ");
    set_preshared(&mut pair, 1, [6; 32]);
    run(&mut pair, seconds(12), |_| false);
    assert_eq!(shown(&pair), [Some(true); 2]);
    assert!(pair.passes(0) && pair.passes(1));
}

/// Sessions and their keys go after 540 s; the key of the next handshake was never used, and stays.
#[test]
fn the_first_handshake_after_a_long_silence_has_a_key() {
    let mut pair = Pair::with(enable);
    pair.connect();
    run(&mut pair, seconds(1), |_| false);
    run(&mut pair, seconds(600), |_| false);
    assert_eq!(shown(&pair), [Some(false); 2], "there is no session");
    pair.packet(1);
    assert_eq!(settle(&mut pair, |_| false)[..3], [1, 2, 4]);
    assert_eq!(shown(&pair), [Some(true); 2]);
}

/// Whatever comes in a session, the exchange is completed by what belongs to it.
#[test]
fn other_messages_change_nothing() {
    let mut pair = Pair::with(enable);
    pair.packet(0);
    let mut held = Vec::new();
    settle(&mut pair, |datagram| {
        let is_done = kind(datagram) == Some(DONE);
        held.extend(is_done.then(|| datagram.clone()));
        is_done
    });
    let Datagram::Data(good) = &held[0] else { panic!("a data message") };
    let now = pair.now;
    for (number, at) in [0, 1, 2, 3, 4, 20, 35, 36, 51].into_iter().enumerate() {
        let mut bad = good.clone();
        bad.message[at] ^= 0x20;
        bad.counter += 1000 + number as u64;
        let _ = pair.ends[0].receive(now, path(outer(2)), &Datagram::Data(bad));
    }
    let mut replayed = good.clone();
    replayed.counter += 2000;
    run(&mut pair, millis(300), |_| false);
    assert_eq!(shown(&pair), [Some(false); 2], "nothing of it was taken");
    let _ = pair.ends[0].receive(pair.now, path(outer(2)), &Datagram::Data(replayed.clone()));
    run(&mut pair, seconds(1), |_| false);
    assert_eq!(shown(&pair), [Some(true); 2]);
    // In the next session it is of no use.
    let Some(current) = pair.ends[0].plane.peers.values().next().and_then(|peer| peer.active) else {
        panic!()
    };
    let codec = &pair.ends[0].plane.peers.values().next().expect("a peer").sessions[&current].codec;
    (replayed.receiver, replayed.key, replayed.counter) = (current.0 as u32, *codec.open, 9999);
    let _ = pair.ends[0].receive(pair.now, path(outer(2)), &Datagram::Data(replayed));
    assert!(pair.passes(0) && pair.passes(1));
}

fn set_mode(pair: &mut Pair, end: usize, mode: PostQuantum) {
    let change = PeerChange { post_quantum: Some(mode), ..PeerChange::new(public(2 - end as u8)) };
    let now = pair.now;
    pair.ends[end].configure(now, Changes { peers: vec![change], ..Changes::default() });
}

/// Whether a packet is in a datagram.
fn has_packet(datagram: &Datagram) -> bool {
    matches!(datagram, Datagram::Data(sealed) if sealed.packet.is_some())
}

#[test]
fn packets_wait_for_the_key_where_it_is_required() {
    for modes in [[PostQuantum::Required; 2], [PostQuantum::Required, PostQuantum::On]] {
        let mut pair = Pair::new();
        set_mode(&mut pair, 0, modes[0]);
        set_mode(&mut pair, 1, modes[1]);
        pair.packet(0);
        let first = settle(&mut pair, |datagram| {
            assert!(!has_packet(datagram), "a packet without the key");
            false
        });
        assert_eq!(first, [1, 2, 4, 11, 12, 13], "the keepalive confirms the session");
        assert!(pair.ends[1].delivered.is_empty());
        assert_eq!(run(&mut pair, millis(150), |_| false)[..3], [1, 2, 4]);
        assert_eq!((pair.ends[1].delivered.len(), shown(&pair)), (1, [Some(true); 2]));
        assert!(pair.passes(0) && pair.passes(1));
        for second in 0..400 {
            pair.packet(second % 2);
            run(&mut pair, seconds(1), |_| false);
        }
        assert_eq!(pair.ends.each_ref().map(|end| end.delivered.len()), [201, 202], "through rekeys");
    }
}

#[test]
fn no_packet_goes_without_the_key_where_it_is_required() {
    let mut pair = Pair::new();
    set_mode(&mut pair, 0, PostQuantum::Required);
    let mut kinds = Vec::new();
    for _ in 0..300 {
        pair.packet(0);
        kinds.extend(run(&mut pair, seconds(1), |datagram| {
            assert!(!has_packet(datagram));
            false
        }));
    }
    assert!(kinds.iter().all(|kind| matches!(kind, 1 | 2 | 4)), "{kinds:?}");
    assert!((10..=16).contains(&count(&kinds, 1)), "one each 20 s: {}", count(&kinds, 1));
    // Packets of the other end are taken; and the packets that wait pass when the key is not required any
    // more.
    assert!(pair.passes(1));
    set_mode(&mut pair, 0, PostQuantum::On);
    run(&mut pair, seconds(1), |_| false);
    assert!(pair.ends[1].delivered.len() >= 100, "those that waited");
    assert!(pair.passes(0));
    set_mode(&mut pair, 0, PostQuantum::Required);
    assert!(!pair.passes(0), "the session has ended");
}

/// Nothing is sealed with the session before, which the other end has lost.
#[test]
fn packets_wait_for_the_key_of_an_end_that_restarted() {
    let mut pair = Pair::new();
    (0..2).for_each(|end| set_mode(&mut pair, end, PostQuantum::Required));
    pair.packet(0);
    run(&mut pair, seconds(1), |_| false);
    assert_eq!(shown(&pair), [Some(true); 2]);
    restart(&mut pair, 1);
    set_mode(&mut pair, 1, PostQuantum::Required);
    pair.packet(1);
    run(&mut pair, seconds(1), |datagram| kind(datagram).is_some());
    assert_eq!(shown(&pair), [Some(false); 2], "the exchange is dropped");
    pair.packet(0);
    run(&mut pair, seconds(1), |datagram| {
        assert!(!has_packet(datagram), "a packet without the key");
        kind(datagram).is_some()
    });
    run(&mut pair, seconds(20), |_| false);
    assert_eq!((shown(&pair), pair.ends[1].delivered.len()), ([Some(true); 2], 1));
    assert!(pair.passes(0) && pair.passes(1));
}

/// Either end restarts, and each message may be lost once: packets pass soon after.
#[test]
fn what_is_required_comes_back_after_a_restart_and_loss() {
    for (restarted, lost) in [(0, 11), (0, 12), (1, 13), (1, 1), (1, 2), (1, 4)] {
        let mut pair = Pair::new();
        (0..2).for_each(|end| set_mode(&mut pair, end, PostQuantum::Required));
        pair.packet(0);
        run(&mut pair, seconds(1), |_| false);
        restart(&mut pair, restarted);
        set_mode(&mut pair, restarted, PostQuantum::Required);
        let mut left = 1;
        for _ in 0..45 {
            pair.packet(0);
            run(&mut pair, seconds(1), |datagram| {
                let is_lost = name(datagram) == lost && left > 0;
                left -= u32::from(is_lost);
                is_lost
            });
        }
        assert_eq!((left, shown(&pair)), (0, [Some(true); 2]), "end {restarted}, {lost}");
        assert!(pair.passes(0) && pair.passes(1));
    }
}
