//! Floods of those who have no key: each datagram costs bounded work, and leaves no memory behind.

use crate::support::{Datagram, End, Pair, at, inner, outer, params, path, peer};
use adit_core::{Protocol, Rejected};
use adit_wireguard::Reply;

/// Bytes that the machine holds more of after `run`, which is called often enough for queues to have grown.
fn kept(mut run: impl FnMut(u32)) -> i64 {
    (0..100).for_each(&mut run);
    let info = allocation_counter::measure(|| (100..2100).for_each(&mut run));
    info.bytes_current
}

fn drain(end: &mut End) {
    let mut datagram = Vec::with_capacity(200);
    while end.machine.poll_transmit(&mut datagram).is_some() {
        datagram.clear();
    }
    while end.machine.poll_event().is_some() {}
}

#[test]
fn forged_initiations_leave_nothing() {
    let mut pair = Pair::new();
    let mut third =
        End::new(params(3, at(1000), vec![peer(2, Some(outer(2)))]), at(1000), [3; 32], &pair.ledger);
    third.send(at(1000), inner(2), 1);
    let Datagram::Control(foreign) = third.take_sent().remove(0).1 else { panic!("an initiation") };
    let now = pair.now;
    let end = &mut pair.ends[1];
    let from = |number: u32| path((number.to_be_bytes(), number as u16).into());
    // The first round lets the queue of answers grow.
    for (round, loaded) in [true, false, true].into_iter().enumerate() {
        end.reply(now, Reply::UnderLoad(loaded));
        // Datagrams without mac1, and with a right mac1 but of a key that no peer has; each from its own
        // address.
        let without_mac1 = [foreign[..116].to_vec(), vec![0; 32]].concat();
        for datagram in [&foreign, &without_mac1] {
            let bytes = kept(|number| {
                assert!(end.machine.handle_datagram(now, from(number), datagram).is_err());
                drain(end);
            });
            assert!(bytes == 0 || round == 0, "under load: {loaded}; {bytes} bytes");
        }
    }
}

#[test]
fn replayed_initiations_leave_nothing() {
    let mut pair = Pair::new();
    pair.packet(0);
    let Datagram::Control(initiation) = pair.ends[0].take_sent().remove(0).1 else { panic!("an initiation") };
    let now = pair.now;
    let end = &mut pair.ends[1];
    end.receive(now, path(outer(1)), &Datagram::Control(initiation.clone())).expect("new");
    let status = end.machine.status();
    let bytes = kept(|_| {
        let taken = end.machine.handle_datagram(now, path(outer(1)), &initiation);
        assert!(matches!(taken, Err(Rejected::Replayed | Rejected::Limited(_))));
        drain(end);
    });
    assert_eq!(bytes, 0);
    assert_eq!(end.machine.status(), status);
}

#[test]
fn forged_responses_and_cookies_leave_nothing() {
    let mut pair = Pair::new();
    pair.packet(0);
    let Datagram::Control(initiation) = pair.ends[0].take_sent().remove(0).1 else { panic!("an initiation") };
    let index = &initiation[4..8];
    let response = [&[2, 0, 0, 0, 9, 9, 9, 9][..], index, &[7; 80]].concat();
    let cookie = [&[3, 0, 0, 0][..], index, &[7; 56]].concat();
    let now = pair.now;
    let end = &mut pair.ends[0];
    for datagram in [response, cookie] {
        let bytes = kept(|_| {
            assert!(end.machine.handle_datagram(now, path(outer(9)), &datagram).is_err());
            drain(end);
        });
        assert_eq!(bytes, 0);
    }
}

/// A cookie reply is no longer than what it answers: the flood is not amplified.
#[test]
fn answers_to_unproven_addresses_are_shorter_than_questions() {
    let mut pair = Pair::new();
    pair.ends[1].reply(pair.now, Reply::UnderLoad(true));
    pair.packet(0);
    let sent = pair.ends[0].take_sent();
    let _ = pair.ends[1].receive(pair.now, path(outer(1)), &sent[0].1);
    let answers = pair.ends[1].take_sent();
    assert_eq!(answers.len(), 1);
    let lengths = [&sent[0].1, &answers[0].1].map(|datagram| match datagram {
        Datagram::Control(bytes) => bytes.len(),
        Datagram::Data(_) => panic!("a handshake message"),
    });
    assert_eq!(lengths, [148, 64]);
}
