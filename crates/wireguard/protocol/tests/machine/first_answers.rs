//! The answer to a peer's first packet is sealed before the machine is notified of that packet.

use std::time::Duration;

use adit_core::Notice;
use adit_wireguard::{Changes, PeerChange, PostQuantum};

use crate::support::{Datagram, End, Pair, inner, outer, params, path, peer, public};

/// An end lost all that it had.
fn restart(pair: &mut Pair, index: usize, seed: u8) {
    let (n, other) = [(1, 2), (2, 1)][index];
    let params = params(n, pair.now, vec![peer(other, Some(outer(other)))]);
    pair.ends[index] = End::new(params, pair.now, [seed; 32], &pair.ledger);
}

/// Delivers the datagrams of end `from` to the other end's data plane, or to its machine. Gives the notices for its
/// machine.
fn deliver(pair: &mut Pair, from: usize) -> Vec<Notice> {
    let source = path(outer(from as u8 + 1));
    let mut notices = Vec::new();
    for (_, datagram) in pair.ends[from].take_sent() {
        let to = &mut pair.ends[1 - from];
        match datagram {
            Datagram::Control(_) => drop(to.receive(pair.now, source, &datagram)),
            Datagram::Data(sealed) => notices.extend(to.plane.receive(pair.now, source, &sealed).1),
        }
    }
    notices
}

/// End `from` answers, and the machine of neither end gets a notice. Whether the other end opens the answer.
fn is_answered(pair: &mut Pair, from: usize) -> bool {
    let (to, number) = (1 - from, 1_000_000);
    let (sealed, _) = pair.ends[from].plane.send(pair.now, inner(to as u8 + 1), number);
    let Some((_, sealed)) = sealed else { return false };
    let (packet, _) = pair.ends[to].plane.receive(pair.now, path(outer(from as u8 + 1)), &sealed);
    packet.is_some_and(|(_, arrived)| arrived == number)
}

#[test]
fn the_first_packet_after_a_restart_is_answered() {
    for restarted in [0, 1] {
        let mut pair = Pair::new();
        pair.connect();
        for round in 0..4 {
            pair.now += Duration::from_secs(if round % 2 == 0 { 1 } else { 6 });
            restart(&mut pair, restarted, 100 + 2 * round + restarted as u8);
            pair.packet(restarted);
            deliver(&mut pair, restarted);
            deliver(&mut pair, 1 - restarted);
            let notices = deliver(&mut pair, restarted);
            assert!(notices.iter().any(|notice| matches!(notice, Notice::FirstOpened { .. })));
            assert!(is_answered(&mut pair, 1 - restarted), "end {restarted}, round {round}");
            for notice in notices {
                let end = &mut pair.ends[1 - restarted];
                adit_core::Protocol::handle_notice(&mut end.machine, pair.now, notice);
                end.drain();
            }
            assert!(pair.passes(restarted) && pair.passes(1 - restarted));
        }
    }
}

/// An initiation may overtake packets of the session before it. The answer to them is sent in their session, which the
/// machine then takes for the current one.
#[test]
fn a_packet_of_a_session_that_another_handshake_followed_is_answered() {
    let mut pair = Pair::new();
    pair.connect();
    pair.now += Duration::from_secs(6);
    restart(&mut pair, 0, 100);
    pair.packet(0);
    deliver(&mut pair, 0);
    deliver(&mut pair, 1);
    let first = pair.ends[0].take_sent();
    restart(&mut pair, 0, 102);
    pair.now += Duration::from_secs(1);
    pair.packet(0);
    let initiation = pair.ends[0].take_sent();
    pair.ends[1].receive(pair.now, path(outer(1)), &initiation[0].1).expect("taken");
    assert!(pair.ends[1].take_kinds() == [2], "the response is lost");
    let id = pair.ends[1].id(1);
    let Datagram::Data(sealed) = &first[0].1 else { panic!("data") };
    let (packet, notices) = pair.ends[1].plane.receive(pair.now, path(outer(1)), sealed);
    assert!(packet.is_some());
    let used = pair.ends[1].plane.peers[&id].active;
    assert_eq!(used, Some(adit_core::SessionId(sealed.receiver.into())));
    for notice in notices {
        adit_core::Protocol::handle_notice(&mut pair.ends[1].machine, pair.now, notice);
        pair.ends[1].drain();
    }
    assert_eq!(pair.ends[1].plane.peers[&id].active, used);
    // The session of the second handshake takes over when it is used.
    pair.now += Duration::from_secs(6);
    pair.ends[0].wake(pair.now);
    pair.settle();
    assert!(pair.passes(0) && pair.passes(1));
}

/// Where packets need a session with a post-quantum key, the answer is not sealed with the session before, either.
#[test]
fn an_answer_waits_where_post_quantum_keys_are_required() {
    let mut pair = Pair::new();
    pair.connect();
    pair.now += Duration::from_secs(6);
    let change = PeerChange { post_quantum: Some(PostQuantum::Required), ..PeerChange::new(public(1)) };
    pair.ends[1].configure(pair.now, Changes { peers: vec![change], ..Changes::default() });
    pair.settle();
    restart(&mut pair, 0, 100);
    pair.packet(0);
    deliver(&mut pair, 0);
    deliver(&mut pair, 1);
    deliver(&mut pair, 0);
    let (sealed, _) = pair.ends[1].plane.send(pair.now, inner(1), 7);
    assert!(sealed.is_none());
}
