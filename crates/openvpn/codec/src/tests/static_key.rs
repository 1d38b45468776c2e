//! Tunnels with a static key: the same keys at every start, and no handshake that says which peer it is.

use adit_core::{Cipher, DataEvent, Notice, Path, PeerId, ReplayWindow, SessionId};
use adit_dataplane::aead::aws_lc;
use adit_dataplane::testing::batches::Keys;
use adit_dataplane::testing::packets::Flow;
use adit_dataplane::testing::world::{End, tcp, udp};
use adit_dataplane::{DropReason, Offload};
use adit_openvpn::codec::{MacKey, session_id};

use crate::testing::{self, OpenVpnEnd, codec, key, static_key};
use crate::{opener, session_with};

const CIPHER: Cipher = Cipher::Aes256Cbc;
const SESSION: SessionId = session_id(PeerId::SERVER, 0);
/// Some autumn.
const TODAY: u32 = 1_790_000_000;

/// The bytes of which the keys of an end are made.
#[derive(Clone, Copy)]
struct StaticKeys {
    data: Keys,
    /// The key with which the end makes IVs.
    ivs: u8,
}

/// One key both ways.
const fn one_key(ivs: u8) -> StaticKeys {
    StaticKeys { data: Keys { seal: 1, open: 1 }, ivs }
}

/// Installs a session that began at that time.
fn begin(end: &mut End, began: u32, keys: StaticKeys) {
    let with_ivs = |seed| {
        let mut key = key(CIPHER, seed);
        key.mac = key.mac.map(|mac| MacKey { iv_key: [keys.ivs; 16].into(), ..mac });
        key
    };
    let peer = PeerId::SERVER;
    let codec = codec(static_key(began), CIPHER, with_ivs(keys.data.seal), with_ivs(keys.data.open));
    end.install_codec(peer, SESSION, session_with(aws_lc, &codec).expect("the keys fit"));
    end.apply(DataEvent::Activate { peer, session: SESSION });
}

fn end(began: u32, keys: StaticKeys) -> End {
    let mut end = End::new(testing::all_data(), false);
    end.add_peer(PeerId::SERVER, udp(9), &["0.0.0.0/0", "::/0"], None);
    begin(&mut end, began, keys);
    end
}

/// Two ends that use one key both ways.
fn both_ways() -> [End; 2] {
    [end(TODAY, one_key(0x10)), end(TODAY + 5, one_key(0x20))]
}

#[test]
fn every_datagram_is_data() {
    let [mut west, mut east] = [
        end(TODAY, StaticKeys { data: Keys { seal: 1, open: 2 }, ivs: 0x10 }),
        end(TODAY, StaticKeys { data: Keys { seal: 2, open: 1 }, ivs: 0x20 }),
    ];
    let packet = Flow::default().udp(b"hello");
    let sealed = west.send_one(&packet);
    let arrived = east.receive(udp(9), &sealed, sealed.len());
    assert_eq!(arrived.packets, [packet]);
    assert_eq!(arrived.notices, [Notice::FirstOpened { peer: PeerId::SERVER, session: SESSION }]);
    for opcode in 0..=255u8 {
        let arrived = east.receive(udp(1), &[opcode; 90], 90);
        assert!(arrived.control.is_empty() && arrived.packets.is_empty() && arrived.notices.is_empty());
    }
    assert_eq!(east.dropped_in(DropReason::Malformed) + east.dropped_in(DropReason::BadTag), 256);
}

#[test]
fn what_was_taken_is_not_taken_again_in_the_next_session() {
    let [mut west, mut east] = both_ways();
    let packet = Flow::default().udp(b"once");
    let sealed = west.send_one(&packet);
    assert_eq!(east.receive(udp(9), &sealed, sealed.len()).packets.len(), 1);
    begin(&mut east, TODAY + 60, one_key(0x20));
    assert!(east.receive(udp(9), &sealed, sealed.len()).packets.is_empty());
    assert_eq!(east.dropped_in(DropReason::Replay), 1);
    let next = west.send_one(&packet);
    assert_eq!(east.receive(udp(9), &next, next.len()).packets.len(), 1);
}

#[test]
fn a_later_start_ends_what_was_before() {
    let [mut west, mut east] = both_ways();
    let packet = Flow::default().udp(b"x");
    let kept = west.send_one(&packet);
    let sealed = west.send_one(&packet);
    assert_eq!(east.receive(udp(9), &sealed, sealed.len()).packets.len(), 1);
    begin(&mut west, TODAY + 100, one_key(0x11));
    let sealed = west.send_one(&packet);
    assert_eq!(east.receive(udp(9), &sealed, sealed.len()).packets.len(), 1, "from 1, and later");
    assert!(east.receive(udp(9), &kept, kept.len()).packets.is_empty(), "of an earlier start");
    begin(&mut west, TODAY + 50, one_key(0x11));
    let sealed = west.send_one(&packet);
    assert!(east.receive(udp(9), &sealed, sealed.len()).packets.is_empty(), "a clock that went back");
}

#[test]
fn what_is_thrown_back_is_refused() {
    let [mut west, mut east] = both_ways();
    let packet = Flow::default().udp(b"x");
    let sealed = west.send_one(&packet);
    let arrived = west.receive(udp(77), &sealed, sealed.len());
    assert!(arrived.packets.is_empty() && arrived.notices.is_empty());
    // The datagram is refused after a new start within one run, too.
    begin(&mut west, TODAY + 100, one_key(0x10));
    assert!(west.receive(udp(77), &sealed, sealed.len()).packets.is_empty());
    assert_eq!(west.dropped_in(DropReason::Replay), 2);
    assert_eq!(east.receive(udp(9), &sealed, sealed.len()).packets.len(), 1);
    let answer = east.send_one(&packet);
    assert_eq!(west.receive(udp(9), &answer, answer.len()).packets.len(), 1, "it does not push out the peer");
}

#[test]
fn the_peer_is_where_its_key_is() {
    let [mut west, mut east] = both_ways();
    let packet = Flow::default().udp(b"x");
    west.add_peer(PeerId::SERVER, tcp(9), &["0.0.0.0/0", "::/0"], None);
    for (path, told) in [(udp(3), true), (tcp(4), true), (tcp(4), false)] {
        let mut sealed = east.send_one(&packet);
        if matches!(path, Path::Tcp { .. }) {
            sealed.splice(0..0, (sealed.len() as u16).to_be_bytes());
        }
        let arrived = west.receive(path, &sealed, sealed.len());
        assert_eq!(arrived.packets.len(), 1);
        let moved = arrived.notices.contains(&Notice::Moved { peer: PeerId::SERVER, path });
        assert_eq!(moved, told, "{path}");
        assert_eq!(
            west.send(Offload::NONE, &packet)[0].0,
            path,
            "the answer goes where the packet came from"
        );
    }
}

/// Unauthenticated peers could end the tunnel otherwise: there are no other keys to go on to.
#[test]
fn no_number_of_forged_datagrams_wears_the_key_out() {
    let (framing, replay) = (static_key(TODAY), ReplayWindow::default());
    let mut open = opener(aws_lc, framing, CIPHER, &key(CIPHER, 1), replay).expect("the key fits");
    for _ in 0..3 {
        assert_eq!(open.open(&mut [0; 96]), Err(DropReason::BadTag));
    }
    assert!(!open.limit_near());
}

#[test]
fn an_aead_is_no_cipher_for_it() {
    let mut end = End::new(testing::all_data(), false);
    end.add_peer(PeerId::SERVER, udp(9), &["0.0.0.0/0"], None);
    end.install(PeerId::SERVER, SESSION, static_key(1), Cipher::Aes256Gcm, Keys { seal: 1, open: 1 });
    assert!(end.send(Offload::NONE, &Flow::default().udp(b"x")).is_empty());
}
