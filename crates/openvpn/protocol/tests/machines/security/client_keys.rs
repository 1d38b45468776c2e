//! Wrapped keys of clients (tls-crypt-v2) that come again, are damaged, or have lengths that no key has.

use adit_core::{Protocol, Rejected};
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wire::{Header, Opcode};
use adit_openvpn::wrap::v2::{ClientKey, Metadata};

use super::{Ends, client_key, here, seconds, server_key};

const WRONG_LENGTH: Rejected = Rejected::Malformed("the length of the tls-crypt-v2 client key");

/// The wrapped part of that key.
fn wrapped(key: &ClientKey) -> Vec<u8> {
    key.to_bytes()[256..].to_vec()
}

#[test]
fn cve_2025_2704_a_client_key_that_comes_again_is_taken_off_unread() {
    let mut ends = Ends::v2();
    let reset = ends.client_says().remove(0);
    let taken_off = "the client key at its end is taken off before a packet is opened";
    assert_eq!(ends.tell_server(&reset), Ok(()), "{taken_off}");
    let third = ends.third();
    assert_eq!(third[0] >> 3, Opcode::ControlWkc as u8);
    let with = |key: &[u8]| [&third[..third.len() - key.len()], key].concat();
    let other = wrapped(&client_key(8));
    assert!(ends.tell_server(&with(&other)).is_err(), "sealed with another key than it brings");
    assert_eq!(ends.server.half_open(), 0);
    assert_eq!(ends.tell_server(&third), Ok(()), "{taken_off}");
    assert_eq!(ends.server.half_open(), 1);
    let _ = ends.server_says();
    // Its acknowledgement was lost. Whatever it brings now changes nothing.
    let mut damaged = wrapped(&client_key(7));
    damaged[40] ^= 1;
    for again in [third.clone(), with(&other), with(&damaged)] {
        assert_eq!(ends.tell_server(&again), Err(Rejected::Replayed), "the client's key opened it");
    }
    ends.client.handle_timeout(ends.now + seconds(3));
    ends.now += seconds(3);
    let retransmitted = ends.client_says();
    assert_eq!(retransmitted[0][0] >> 3, Opcode::ControlWkc as u8);
    for datagram in retransmitted {
        ends.tell_server(&datagram).unwrap();
    }
    // The packets that were lost are sent again.
    for _ in 0..20 {
        ends.run();
        ends.now += seconds(1);
        ends.client.handle_timeout(ends.now);
        ends.server.handle_timeout(ends.now);
    }
    assert!(ends.is_up());
}

#[test]
fn cve_2026_13698_and_2026_12932_a_client_key_that_fails_leaves_nothing() {
    let mut ends = Ends::v2();
    let reset = ends.client_says().remove(0);
    let start = reset.len() - wrapped(&client_key(7)).len();
    // Damage to the metadata leaves the key in front of it as it was: only the tag tells.
    let forgeries: Vec<Vec<u8>> = (start..reset.len() - 2)
        .map(|at| {
            let mut forged = reset.clone();
            forged[at] ^= 1;
            forged
        })
        .collect();
    let server = &mut ends.server;
    let now = ends.now;
    // The log names some of them, from a table that has a limit.
    for forged in &forgeries {
        assert!(server.handle_datagram(now, here(), forged).is_err());
    }
    while server.poll_event().is_some() {}
    let left = allocation_counter::measure(|| {
        for forged in &forgeries {
            assert!(matches!(server.handle_datagram(now, here(), forged), Err(Rejected::Unauthentic(_))));
        }
    });
    assert_eq!((server.half_open(), left.bytes_current), (0, 0));
    assert!(server.poll_transmit(&mut Vec::new()).is_none() && server.poll_event().is_none());
}

#[test]
fn cve_2026_35058_the_opcode_is_no_part_of_a_client_key() {
    let mut ends = Ends::v2();
    // A wrapped key that begins, by chance, like the packet that brings one.
    let first = Header { opcode: Opcode::HardResetClientV3, key_id: 0 }.to_byte();
    let key = (0u16..)
        .map(|number| {
            let made = Metadata::User([&number.to_be_bytes()[..], &[1; 20]].concat());
            wrapped(&server_key().wrap(&StaticKey::from_bytes(&[7; 256]), &made).unwrap())
        })
        .find(|key| key[0] == first)
        .unwrap();
    let mut damaged = key.clone();
    damaged[40] ^= 1;
    // Nor is the session id. A key that reaches into them is not even unwrapped: else the server would say of the damaged
    // one that it is not authentic.
    for key in [key, damaged] {
        for front in 0..=9 {
            let datagram = [&vec![first; front][..], &key].concat();
            let refused = ends.tell_server(&datagram).unwrap_err();
            assert_eq!(refused == WRONG_LENGTH, front < 9, "{front} bytes in front: {refused}");
        }
    }
    assert_eq!((ends.server.half_open(), ends.server_says().len()), (0, 0));
}

#[test]
fn the_length_of_a_client_key_is_bounded() {
    let mut ends = Ends::v2();
    let reset = ends.client_says().remove(0);
    let end = reset.len() - 2;
    let real = u16::from_be_bytes([reset[end], reset[end + 1]]);
    for length in [0, 1, 2, 31, 289, real - 1, real + 1, 1025, 0x7fff, 0xffff] {
        let mut wrong = reset.clone();
        wrong[end..].copy_from_slice(&length.to_be_bytes());
        assert!(ends.tell_server(&wrong).is_err(), "{length}");
    }
    let long = [&reset[..end], &[0; 1000], &(real + 1000).to_be_bytes()[..]].concat();
    assert_eq!(ends.tell_server(&long), Err(WRONG_LENGTH), "longer than any");
    assert_eq!(server_key().unwrap(&long), Err(WRONG_LENGTH));
    assert_eq!((ends.server.half_open(), ends.server_says().len()), (0, 0));
    ends.tell_server(&reset).unwrap();
}

#[test]
fn a_client_without_a_key_of_its_own_may_be_asked_for_one() {
    let mut ends = Ends::plain();
    let reset = ends.client_says().remove(0);
    ends.tell_server(&reset).unwrap();
    let mut answer = ends.server_says().remove(0);
    // Early negotiation, type 1: the client shall send its wrapped key.
    answer.extend_from_slice(&[0, 1, 0, 2, 0, 1]);
    ends.tell_client(&answer).unwrap();
    ends.run();
    assert!(ends.is_up());
}
