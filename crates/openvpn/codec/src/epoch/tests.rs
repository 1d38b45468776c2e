use adit_core::ReplayWindow;
use adit_dataplane::codec::{FAILED_TAGS_MAX, FAILED_TAGS_WARN, Opened, Opener as _};
use adit_openvpn::codec::DataHeader;
use proptest::prelude::*;
use zeroize::Zeroizing;

use super::opener::{FUTURE, LAST_EPOCH};
use super::*;

const PLAIN: &[u8] = b"The quick little fox jumps over the bureaucratic hurdles";

fn framing() -> DataFraming {
    let header = DataHeader::V2 { peer_id: 23 };
    DataFraming { header, key_id: 0, compression: Compression::None }
}

fn key(byte: u8) -> DirectionKey {
    let mut secret = Zeroizing::new(vec![0; 32]);
    secret[0] = byte;
    DirectionKey::aead(secret, [0; 8])
}

/// The fate of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Newest,
    Late,
    Dropped(DropReason),
}

/// Two ends: each opens the packets that the other seals.
struct End {
    sealer: Sealer,
    opener: Opener,
}

impl End {
    fn new(cipher: Cipher, seal: u8, open: u8) -> Self {
        let opener = Opener::new(framing(), cipher, &key(open), ReplayWindow::default()).expect("fits");
        let mut sealer = Sealer::new(framing(), cipher, &key(seal)).expect("fits");
        sealer.follow(&opener);
        End { sealer, opener }
    }

    fn try_seal(&mut self) -> Option<Vec<u8>> {
        let layout = self.sealer.layout(PLAIN.first().copied(), PLAIN.len());
        let mut datagram = vec![0xaa; layout.datagram];
        self.sealer.seal_at(PLAIN, &mut datagram, layout.payload)?;
        Some(datagram)
    }

    fn seal(&mut self) -> Vec<u8> {
        self.try_seal().expect("seals")
    }

    fn open(&mut self, mut datagram: Vec<u8>) -> Fate {
        match self.opener.open(&mut datagram) {
            Ok(Opened { payload, newest }) => {
                assert_eq!(datagram[payload.expect("not compressed")], *PLAIN);
                if newest { Fate::Newest } else { Fate::Late }
            }
            Err(reason) => Fate::Dropped(reason),
        }
    }

    /// A packet of that epoch.
    fn seal_in(&mut self, epoch: u16) -> Vec<u8> {
        self.sealer.wear(epoch, 1, 0);
        let datagram = self.seal();
        assert_eq!(epoch_of(&datagram), epoch);
        datagram
    }

    fn current(&self) -> u16 {
        self.opener.epochs().0
    }
}

fn epoch_of(datagram: &[u8]) -> u16 {
    u16::from_be_bytes([datagram[4], datagram[5]])
}

fn pair() -> (End, End) {
    let cipher = Cipher::Aes128Gcm;
    (End::new(cipher, 0x23, 0x27), End::new(cipher, 0x27, 0x23))
}

/// OpenVPN's tests/unit_tests/openvpn/test_ssl.c, `test_data_channel_known_vectors_epoch`: in epoch 4, and with
/// header bytes that are no `DATA_V2`, which the AEAD does not mind.
#[test]
fn openvpn_known_vector() {
    let text = b"abcdefgh01234567ABCDEFGHjkuchenl";
    let material: Vec<u8> = (0..32u8).map(|i| text[usize::from(i)] ^ i).collect();
    let key = DirectionKey::aead(Zeroizing::new(material), [0; 8]);
    let mut sealer = Sealer::new(framing(), Cipher::Aes256Gcm, &key).expect("fits");
    sealer.wear(4, 1, 0);
    sealer.header = [7, 0, 0, 23];
    let layout = sealer.layout(PLAIN.first().copied(), PLAIN.len());
    assert_eq!(layout, Layout { payload: 12, datagram: 28 + PLAIN.len() });
    let mut datagram = vec![0xaa; layout.datagram];
    sealer.seal_at(PLAIN, &mut datagram, layout.payload).expect("seals");
    assert_eq!(datagram[..12], [7, 0, 0, 23, 0, 4, 0, 0, 0, 0, 0, 1]);
    assert_eq!(datagram[18..24], [0x36, 0xaa, 0xb4, 0xd4, 0x9c, 0xe6]);
    let tag =
        [0x0f, 0xff, 0xf5, 0x91, 0x3d, 0x39, 0xd7, 0x5b, 0x18, 0x57, 0x3b, 0x57, 0x48, 0x58, 0x9a, 0x7d];
    assert_eq!(datagram[datagram.len() - 16..], tag);
    // The other way of sealing, in place, gives the same.
    let mut in_place = vec![0; PLAIN.len()];
    in_place.copy_from_slice(PLAIN);
    let nonce = sealer.key.nonce(4 << COUNTER_BITS | 1);
    assert_eq!(sealer.key.aead.seal(nonce, &datagram[..12], &mut in_place), Ok(tag));

    let mut opener = Opener::new(framing(), Cipher::Aes256Gcm, &key, ReplayWindow::default()).expect("fits");
    let opened = opener.open(&mut datagram).expect("opens");
    assert_eq!((opened.newest, &datagram[opened.payload.expect("not compressed")]), (true, PLAIN));
}

#[test]
fn what_has_no_epochs_is_refused() {
    let (cipher, key) = (Cipher::Aes256Gcm, key(1));
    let v1 = DataFraming { header: DataHeader::V1, ..framing() };
    assert!(Sealer::new(v1, cipher, &key).is_err());
    assert!(Sealer::new(framing(), Cipher::Aes256Cbc, &key).is_err());
    assert!(Opener::new(framing(), Cipher::Aes256Cbc, &key, ReplayWindow::default()).is_err());
}

/// As `crypto_test_epoch_key_receive_lookup` of OpenVPN's test_crypto.c, with the 4 coming epochs that it has in use.
#[test]
fn only_near_epochs_are_opened() {
    let (mut east, mut west) = pair();
    let there = |end: &mut End, epochs: &[u16]| -> Vec<u16> {
        epochs.iter().copied().filter(|epoch| end.opener.find(*epoch).is_some()).collect()
    };
    assert_eq!(there(&mut east, &[0, 1, 2, 5, 6, 2000, 0xefff, 0xffff]), [1, 2, 5]);
    assert_eq!(east.open(west.seal()), Fate::Newest);
    assert_eq!(east.open(west.seal_in(4)), Fate::Newest);
    assert_eq!(there(&mut east, &[0, 1, 2, 3, 4, 5, 8, 9]), [1, 4, 5, 8]);
    assert_eq!(east.open(west.seal_in(5)), Fate::Newest);
    assert_eq!(there(&mut east, &[1, 3, 4, 5, 9, 10]), [4, 5, 9]);
    let far = west.seal_in(10);
    assert_eq!(east.open(far), Fate::Dropped(DropReason::NoSession));
}

/// A packet of the very last epoch that there is a key for.
#[test]
fn a_jump_over_exactly_all_coming_epochs() {
    let (mut east, mut west) = pair();
    for jump in 1..=FUTURE {
        let target = east.current() + jump;
        assert_eq!(east.open(west.seal_in(target)), Fate::Newest, "{jump} further");
        assert_eq!(east.opener.epochs(), (target, vec![]));
        assert_eq!(east.open(west.seal()), Fate::Newest);
    }
    let too_far = east.current() + FUTURE + 1;
    assert_eq!(east.open(west.seal_in(too_far)), Fate::Dropped(DropReason::NoSession));
}

/// Keys of coming epochs are made when a packet names one, and once, whether the packet is genuine or forged.
#[test]
fn keys_of_coming_epochs_are_made_once() {
    let (mut east, mut west) = pair();
    assert_eq!(east.open(west.seal()), Fate::Newest);
    assert_eq!(east.opener.epochs(), (1, vec![]));
    let mut forged = west.seal_in(4);
    forged[30] ^= 1;
    let far = west.seal_in(6);
    for _ in 0..3 {
        assert_eq!(east.open(forged.clone()), Fate::Dropped(DropReason::BadTag));
        assert_eq!(east.open(far.clone()), Fate::Dropped(DropReason::NoSession));
        assert_eq!(east.opener.epochs(), (1, vec![2, 3, 4]));
    }
    forged[30] ^= 1;
    assert_eq!(east.open(forged), Fate::Newest);
    assert_eq!(east.opener.epochs(), (4, vec![]));
}

#[test]
fn the_sealing_half_follows_the_peer() {
    let (mut east, mut west) = pair();
    assert_eq!(east.open(west.seal_in(4)), Fate::Newest);
    let answer = east.seal();
    assert_eq!(answer[4..12], [0, 4, 0, 0, 0, 0, 0, 1]);
    assert_eq!(west.open(answer), Fate::Newest);
    // One that is ahead stays there.
    let ahead = east.seal_in(7);
    assert_eq!(east.open(west.seal_in(5)), Fate::Newest);
    assert_eq!(epoch_of(&east.seal()), 7);
    assert_eq!(west.open(ahead), Fate::Newest);
    assert_eq!(epoch_of(&west.seal()), 7);
}

#[test]
fn each_epoch_has_its_own_window() {
    let (mut east, mut west) = pair();
    let early: Vec<Vec<u8>> = (0..3).map(|_| west.seal()).collect();
    assert_eq!(east.open(early[0].clone()), Fate::Newest);
    let turned = west.seal_in(2);
    assert_eq!(east.open(turned.clone()), Fate::Newest);
    // Late ones of the epoch before, in any order, once each.
    assert_eq!(east.open(early[2].clone()), Fate::Late);
    assert_eq!(east.open(early[1].clone()), Fate::Late);
    for datagram in early.iter().chain([&turned]) {
        assert_eq!(east.open(datagram.clone()), Fate::Dropped(DropReason::Replay));
    }
    assert_eq!(east.open(west.seal_in(3)), Fate::Newest);
    assert_eq!(
        east.open(early[0].clone()),
        Fate::Dropped(DropReason::NoSession),
        "two epochs back there is no key"
    );
    assert_eq!(east.open(turned), Fate::Dropped(DropReason::Replay), "what retires remembers what it saw");
}

#[test]
fn what_is_not_authentic_changes_nothing() {
    let (mut east, mut west) = pair();
    let good = west.seal_in(4);
    for index in 0..good.len() {
        let mut bad = good.clone();
        bad[index] ^= 0x10;
        assert!(matches!(east.open(bad), Fate::Dropped(_)), "byte {index}");
        assert_eq!((east.current(), epoch_of(&east.seal())), (1, 1));
    }
    for len in 0..good.len() {
        assert!(matches!(east.open(good[..len].to_vec()), Fate::Dropped(_)));
    }
    assert_eq!(east.open(good), Fate::Newest);
}

#[test]
fn a_used_up_key_makes_way_for_the_next_epoch() {
    let (mut east, mut west) = pair();
    let cost = blocks(28 + PLAIN.len());
    west.sealer.wear(1, 5, GCM_MAX - cost);
    assert_eq!(west.seal()[4..12], [0, 1, 0, 0, 0, 0, 0, 5], "the last one that fits");
    assert_eq!(west.sealer.used, GCM_MAX);
    let next = west.seal();
    assert_eq!(next[4..12], [0, 2, 0, 0, 0, 0, 0, 1], "counters begin anew");
    assert_eq!(west.sealer.used, cost);
    assert_eq!(east.open(next), Fate::Newest);
    west.sealer.wear(2, COUNTER_MAX, 0);
    assert_eq!(west.seal()[4..12], [0, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(west.seal()[4..12], [0, 3, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn chacha20_ends_by_counters_alone() {
    let mut end = End::new(Cipher::ChaCha20Poly1305, 1, 2);
    end.sealer.wear(1, 5, GCM_MAX);
    assert_eq!(epoch_of(&end.seal()), 1);
}

/// As `epoch_check_send_iterate` of OpenVPN's crypto_epoch.c: a peer that overdoes it is shown the way.
#[test]
fn a_peer_that_overuses_its_key_is_asked_on() {
    let cost = blocks(28 + PLAIN.len());
    for (used, failed_tags, forged) in [(GCM_MAX - cost, 0, false), (0, FAILED_TAGS_WARN - 1, true)] {
        let (mut east, mut west) = pair();
        assert_eq!(east.open(west.seal()), Fate::Newest);
        east.opener.wear(used, failed_tags);
        assert_eq!(east.open(west.seal()), Fate::Newest);
        assert_eq!(epoch_of(&east.seal()), 1, "not yet");
        let mut last = west.seal();
        last[30] ^= u8::from(forged);
        east.open(last);
        for _ in 0..3 {
            let answer = east.seal();
            assert_eq!(epoch_of(&answer), 2, "one further, and no more");
            west.open(answer);
        }
        assert_eq!(epoch_of(&west.seal()), 2, "the peer follows");
    }
}

#[test]
fn failed_tags_end_an_epoch_and_not_the_session() {
    let (mut east, mut west) = pair();
    east.opener.wear(0, FAILED_TAGS_MAX - 1);
    let mut bad = west.seal();
    bad[30] ^= 1;
    assert_eq!(east.open(bad), Fate::Dropped(DropReason::BadTag));
    assert_eq!(east.open(west.seal()), Fate::Dropped(DropReason::Exhausted));
    assert_eq!(east.open(west.seal_in(2)), Fate::Newest);
}

/// As `crypto_test_epoch_key_overflow` of OpenVPN's test_crypto.c.
#[test]
fn epochs_run_out() {
    let (mut east, mut west) = pair();
    let mut epoch = 1;
    while epoch < LAST_EPOCH {
        epoch = (epoch + FUTURE).min(LAST_EPOCH);
        assert_eq!(east.open(west.seal_in(epoch)), Fate::Newest);
        assert_eq!(west.sealer.is_near_end(), epoch >= 0xf000);
    }
    assert_eq!(east.open(west.seal_in(LAST_EPOCH + 1)), Fate::Dropped(DropReason::NoSession));
    west.seal_in(u16::MAX);
    west.sealer.wear(u16::MAX, 7, GCM_MAX);
    assert_eq!(west.try_seal(), None, "nothing is sealed with a key that is used up");
    west.sealer.wear(u16::MAX, COUNTER_MAX + 1, 0);
    assert_eq!(west.try_seal(), None, "and no counter goes round");
}

proptest! {
    /// Two ends seal, turn, lose, reorder and repeat: nothing is opened twice, ids only rise, and a packet that is at
    /// most an epoch and a window late is opened.
    #[test]
    fn no_packet_is_opened_twice(steps in proptest::collection::vec((0u8..6, any::<prop::sample::Index>()), 1..200)) {
        let (mut east, mut west) = pair();
        let mut sent: Vec<Vec<u8>> = Vec::new();
        let mut opened = std::collections::BTreeSet::new();
        let mut last = 0;
        for (step, index) in steps {
            match step {
                0 if west.sealer.epoch.number < east.current() + FUTURE => {
                    let next = west.sealer.epoch.number + 1;
                    west.sealer.wear(next, 1, 0);
                }
                1 => west.sealer.used = GCM_MAX - index.index(40) as u64,
                0..=3 if west.sealer.epoch.number < east.current() + FUTURE => {
                    let datagram = west.seal();
                    let id = u64::from_be_bytes(*datagram[4..].first_chunk().expect("whole"));
                    prop_assert!(id > last);
                    last = id;
                    sent.push(datagram);
                }
                _ if sent.is_empty() => {}
                _ => {
                    let which = index.index(sent.len());
                    let before = east.current();
                    match east.open(sent[which].clone()) {
                        Fate::Dropped(DropReason::Replay) => prop_assert!(epoch_of(&sent[which]) <= before),
                        Fate::Dropped(reason) => {
                            prop_assert_eq!(reason, DropReason::NoSession);
                            prop_assert!(epoch_of(&sent[which]) < before, "a key that is needed is there");
                        }
                        _ => prop_assert!(opened.insert(which), "opened twice"),
                    }
                    prop_assert!(east.current() >= before);
                }
            }
        }
    }
}
