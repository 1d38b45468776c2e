//! Faults that OpenVPN had in its data channel, each with a test that fails if adit had it too.

use adit_core::{Cipher, DataEvent, Notice, PeerId, SessionId};
use adit_dataplane::testing::batches::Keys;
use adit_dataplane::testing::packets::Flow;
use adit_dataplane::testing::world::{End, udp};
use adit_dataplane::{DropReason, Offload};
use adit_openvpn::codec::{Framing, session_id};

use crate::testing::{self, OpenVpnEnd, client, sealer_in_epoch, three, v2, with_epochs};

const CIPHER: Cipher = Cipher::Aes256Gcm;
const SESSION: SessionId = session_id(PeerId::SERVER, 0);

/// A client whose session has sealed much already.
fn worn(counter: u64, used: u64) -> End {
    let mut end = client(1, udp(9), CIPHER);
    let peer = PeerId::SERVER;
    end.install_codec(peer, SESSION, testing::worn(counter, used));
    end.apply(DataEvent::Activate { peer, session: SESSION });
    end
}

/// The client seals in that epoch from now on.
fn go_to(end: &mut End, session: SessionId, framing: Framing, epoch: u16) {
    let peer = PeerId::SERVER;
    end.install_codec(peer, session, sealer_in_epoch(framing, epoch));
    end.apply(DataEvent::Activate { peer, session });
}

#[test]
fn cve_2017_7479_packet_ids_that_run_out_drop_packets_and_nothing_else() {
    let mut end = worn(0xffff_fffe, 0);
    let packet = Flow::default().udp(b"x");
    let ids: Vec<Vec<u8>> = (0..2).map(|_| end.send_one(&packet)[4..8].to_vec()).collect();
    assert_eq!(ids, [[0xff, 0xff, 0xff, 0xfe], [0xff; 4]]);
    for dropped in 1..=3 {
        assert!(end.send(Offload::NONE, &packet).is_empty(), "no packet id comes twice");
        assert_eq!(end.dropped_out(DropReason::Exhausted), dropped);
    }
    // New keys, and it goes on.
    end.install(
        PeerId::SERVER,
        session_id(PeerId::SERVER, 1),
        v2(1, 1),
        CIPHER,
        Keys { seal: 1, open: 0x81 },
    );
    assert_eq!(end.send_one(&packet)[4..8], [0, 0, 0, 1]);
}

#[test]
fn cve_2017_7508_malformed_ipv6_packets_pass_or_are_dropped() {
    let (mut server, _, _) = three(false);
    let mut end = client(1, udp(9), CIPHER);
    end.add_peer(PeerId::SERVER, udp(9), &["0.0.0.0/0", "::/0"], Some(1300));
    server.add_peer(PeerId(1), udp(1), &["10.0.0.1/32", "fd00::1/128"], Some(1300));
    let flow = Flow { v6: true, source: 1, destination: 77, options: vec![2, 4, 5, 0xb4], ..Flow::default() };
    let syn = flow.tcp(1, 0x02, b"payload");
    let mut through = 0;
    for length in 0..=syn.len() {
        // Lengths, next headers (extensions among them) and TCP's data offset that are not true.
        for (at, values) in [(5, 0..=255), (6, 0..=255), (52, 0..=255), (61, 0..=255)] {
            for value in values.step_by(5) {
                let mut packet = syn[..length].to_vec();
                packet.get_mut(at).into_iter().for_each(|byte| *byte = value);
                for (_, segment, bytes) in end.send(Offload::NONE, &packet) {
                    through += server.receive(udp(1), &bytes, segment).packets.len();
                }
            }
        }
    }
    assert!(through > 100, "what is sound goes through");
    // TCP options that end in the middle of an MSS: what follows them is none of it.
    for payload in [&[4][..], &[4, 0xff], &[4, 0xff, 0xff, 0xff]] {
        let syn = Flow { options: vec![1, 1, 1, 2], ..flow.clone() }.tcp(1, 0x02, payload);
        let sealed = end.send_one(&syn);
        assert_eq!(server.receive(udp(1), &sealed, sealed.len()).packets, [syn]);
    }
}

/// A jump over exactly as many epochs as there are keys for ends at a key that is the last one, and leaves none: new
/// ones must be there for the next jump.
#[test]
fn cve_2025_15497_a_jump_over_all_epochs_that_have_keys() {
    let framing = with_epochs(v2(1, 1));
    let (mut server, mut end, _) = three(false);
    server.install(PeerId(1), session_id(PeerId(1), 1), framing, CIPHER, Keys { seal: 2, open: 1 });
    let mut epoch = 1;
    let mut arrives = |server: &mut End, jump: u16| {
        epoch += jump;
        go_to(&mut end, session_id(PeerId::SERVER, 1), framing, epoch);
        let sealed = end.send_one(&Flow { source: 1, ..Flow::default() }.udp(b"x"));
        assert_eq!(sealed[4..6], epoch.to_be_bytes());
        server.receive(udp(1), &sealed, sealed.len()).packets.len()
    };
    for jump in [4, 4, 3, 4, 1, 4] {
        assert_eq!(arrives(&mut server, jump), 1, "{jump} further");
    }
    assert_eq!(arrives(&mut server, 5), 0, "no key is made for what comes from further");
    assert_eq!(server.dropped_in(DropReason::NoSession), 1);
}

/// Epochs end too: new keys are asked for long before, and once.
#[test]
fn epochs_that_run_out_ask_for_new_keys() {
    let packet = Flow::default().udp(b"x");
    for (epoch, due) in [(0xefffu16, 0), (0xf000, 1)] {
        let mut end = client(1, udp(9), CIPHER);
        go_to(&mut end, SESSION, with_epochs(v2(1, 0)), epoch);
        for _ in 0..3 {
            assert_eq!(end.send_one(&packet)[4..6], epoch.to_be_bytes());
        }
        let near = vec![Notice::LimitNear { peer: PeerId::SERVER, session: SESSION }; due];
        assert_eq!(end.egress.take_notices(), near, "{epoch:#x}");
    }
}

/// The limit of a key is never exceeded, whether the key is renewed or not.
#[test]
fn nothing_is_sealed_beyond_what_a_key_bears() {
    let max = (1u64 << 36) - 1;
    let packet = Flow::default().udp(b"x");
    let cost = (packet.len() as u64 + 24).div_ceil(16) + 2;
    let mut end = worn(1, max - cost);
    end.send_one(&packet);
    assert!(end.send(Offload::NONE, &packet).is_empty());
    assert_eq!(end.dropped_out(DropReason::Exhausted), 1);
    let mut end = worn(1, max - cost + 1);
    assert!(end.send(Offload::NONE, &packet).is_empty());
}

#[test]
fn blocks_of_an_aead_are_counted_in_full() {
    // A packet takes as many blocks of 16 bytes as it begins, one for what is only authenticated, and itself counts
    // too. 2^36 - 1 of them are safe, and new keys are due after 7/8 of that.
    let limit = ((1u64 << 36) - 1) / 8 * 7;
    let due = [Notice::LimitNear { peer: PeerId::SERVER, session: SESSION }];
    for payload in [0, 1, 4, 5, 1000, 1400] {
        let packet = Flow::default().udp(&vec![0; payload]);
        let mut near = worn(1, limit - (packet.len() as u64).div_ceil(16) - 2);
        near.send_one(&packet);
        assert_eq!(near.egress.take_notices(), due, "{payload} bytes");
    }
}
