//! Messages of the post-quantum key exchange, as an authenticated peer may send them in any order: reading and writing agree,
//! and an end that takes them neither panics nor sends what could be taken for a packet; packets pass as before.
#![no_main]

#[path = "../../crates/wireguard/protocol/tests/support/mod.rs"]
mod support;

use std::time::Duration;

use adit_core::{Notice, Protocol};
use adit_wireguard::PostQuantum;
use adit_wireguard::inner::Inner;
use libfuzzer_sys::fuzz_target;
use support::Pair;

/// The first byte says to which end it goes, and whether both wait before.
fn give(pair: &mut Pair, head: u8, payload: &[u8]) {
    if let Some(message) = Inner::parse(payload) {
        let written = message.write();
        assert_eq!(written, payload[..written.len()]);
        assert_eq!(Inner::parse(&written), Some(message));
    }
    let end = &mut pair.ends[usize::from(head & 1)];
    let Some((&peer, found)) = end.plane.peers.iter().next() else { return };
    let Some(session) = found.active else { return };
    end.machine.handle_notice(pair.now, Notice::Message { peer, session, payload: payload.to_vec() });
    end.drain();
    match head & 2 {
        0 => pair.settle(),
        _ => pair.pass(Duration::from_millis(u64::from(head) * 8)),
    }
}

fuzz_target!(|data: &[u8]| {
    let mut pair = Pair::with(|params| {
        params.configuration.peers.iter_mut().for_each(|peer| peer.post_quantum = Some(PostQuantum::On));
    });
    pair.packet(0);
    // As far as the input says: before the offer, the answer, the proof, or after.
    let [steps, rest @ ..] = data else { return };
    for _ in 0..steps % 8 {
        let sent = [0, 1].map(|end: usize| pair.ends[end].take_sent());
        for (from, datagrams) in sent.into_iter().enumerate() {
            for (_, datagram) in datagrams {
                let path = support::path(support::outer(from as u8 + 1));
                let _ = pair.ends[1 - from].receive(pair.now, path, &datagram);
            }
        }
    }
    let mut rest = rest;
    for _ in 0..4 {
        let [head, low, high, after @ ..] = rest else { break };
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (payload, next) = after.split_at(len);
        give(&mut pair, *head, payload);
        rest = next;
    }
    pair.settle();
    assert!(pair.passes(0) && pair.passes(1));
});
