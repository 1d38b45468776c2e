//! Vectors, and refused datagrams.

use adit_core::Digest;
use adit_dataplane::testing::hex;
use adit_openvpn::codec::DataHeader;
use proptest::prelude::*;

use super::*;

const CBC: [Cipher; 3] = [Cipher::Aes128Cbc, Cipher::Aes192Cbc, Cipher::Aes256Cbc];
const V2: DataHeader = DataHeader::V2 { peer_id: 9 };

fn counting(from: u8, len: usize) -> Vec<u8> {
    (from..).take(len).collect()
}

fn key(cipher: Cipher, digest: Digest) -> DirectionKey {
    let iv_key = counting(0xc0, 16).try_into().expect("16 bytes");
    DirectionKey {
        key: counting(0, cipher.key_len()).into(),
        implicit_iv: [0; 8],
        mac: Some(MacKey { digest, key: counting(0x40, digest.output_len()).into(), iv_key: zeroed(iv_key) }),
    }
}

fn zeroed(bytes: [u8; 16]) -> zeroize::Zeroizing<[u8; 16]> {
    bytes.into()
}

fn pair(cipher: Cipher, digest: Digest, form: impl Into<Form>) -> (Sealer, Opener) {
    let (key, form) = (key(cipher, digest), form.into());
    let sealer = Sealer::new(form, cipher, &key).expect("the key fits");
    (sealer, Opener::new(form, cipher, &key).expect("the key fits"))
}

fn with_time(began: u32, compression: Compression) -> StaticFraming {
    StaticFraming { began, compression }
}

/// The other end of a tunnel whose both directions have that key: its own IVs are others.
fn other_end(cipher: Cipher, digest: Digest, framing: StaticFraming) -> Opener {
    let mut key = key(cipher, digest);
    if let Some(mac) = &mut key.mac {
        mac.iv_key = zeroed([7; 16]);
    }
    Opener::new(framing, cipher, &key).expect("the key fits")
}

fn framing(header: DataHeader, key_id: u8) -> DataFraming {
    DataFraming { header, key_id, compression: Compression::None }
}

fn sealed(sealer: &Sealer, counter: u64, payload: &[u8]) -> Vec<u8> {
    let layout = sealer.layout(payload.first().copied(), payload.len());
    // The earlier content of the buffer must not matter.
    let mut datagram = vec![0x50; layout.datagram];
    let place = layout.payload..layout.payload + payload.len();
    datagram[place.clone()].copy_from_slice(payload);
    sealer.seal(counter, &mut datagram, place).expect("seals");
    datagram
}

// Computed with the `openssl` program and Python's hmac from the description above. That OpenVPN agrees
// is shown by the interoperability tests.
#[test]
fn known_vectors() {
    let cases = [
        (
            Cipher::Aes128Cbc,
            Digest::Sha1,
            framing(DataHeader::V1, 5),
            &b"hello, old world"[..],
            "35d0f842db74fc52ed42c4b0b05be16dc9419762919b38b101a6650561aa875050e296961deedbcc4a1f85d01164\
             6643a202e94b616a41df758615f7cd8a3b77d4a253e98e",
        ),
        (
            Cipher::Aes192Cbc,
            Digest::Sha384,
            framing(DataHeader::V2 { peer_id: 0x12_3456 }, 1),
            b"12bytes fits",
            "49123456564a02800459d88a614c88be11b33ee5999a5b322f711e705d208de1e592377112ddd0cc012869396001\
             65be36d0d08d9b38b101a6650561aa875050e296961dcf2064b0bdbe0ba5dc691b0bc46ffa1758afa91d98f3dcd9\
             ac255a9655aac090",
        ),
        (
            Cipher::Aes256Cbc,
            Digest::Sha256,
            framing(V2, 7),
            b"",
            "4f000009054f51766ce9a758e85e5442a052f8db3a5fb35d9efc154b972fc92186db99409b38b101a6650561aa87\
             5050e296961d93e1610039304ba00d3f9b208114e29c",
        ),
    ];
    for (cipher, digest, framing, payload, expected) in cases {
        let (sealer, opener) = pair(cipher, digest, framing);
        let mut datagram = sealed(&sealer, 258, payload);
        assert_eq!(datagram, hex(expected), "{cipher}");
        let plain = opener.open(&mut datagram).expect("opens");
        assert_eq!((plain.counter, &datagram[plain.payload]), (258, payload));
    }
}

// Computed as those above. 0x6a010203 is the time at which the session began.
#[test]
fn known_vectors_with_time() {
    let cases = [
        (
            Cipher::Aes128Cbc,
            Digest::Sha1,
            &b"hello, old world"[..],
            "4c0e16210b68c378edaed7d06b7e0286c58531de0d2c634e28ebf9a9d42db9b544b6593c16a4827ab1c9e0edf0f2\
             3a8f8c99516d950bf9f83dab5d351bdc428db1646b38",
        ),
        (
            Cipher::Aes256Cbc,
            Digest::Sha256,
            b"",
            "8170d8160d9a87a0da5a802e2bcb4843ef461feeb0a60ed5e267ca23097ba4fb0d2c634e28ebf9a9d42db9b544b6\
             593c4da6e27258a97f725e4f23c5e08fae9c",
        ),
    ];
    let framing = with_time(0x6a01_0203, Compression::None);
    for (cipher, digest, payload, expected) in cases {
        let (sealer, _) = pair(cipher, digest, framing);
        let mut datagram = sealed(&sealer, 258, payload);
        assert_eq!(datagram, hex(expected), "{cipher}");
        let plain = other_end(cipher, digest, framing).open(&mut datagram).expect("opens");
        assert_eq!((plain.counter, &datagram[plain.payload]), (0x6a01_0203_0000_0102, payload));
    }
}

// Pings as OpenVPN 2.6.14 sent them with a static key of the bytes 0 to 255, of which these keys are the first half.
#[test]
fn what_openvpn_sealed() {
    let ping = "2a187bf3641eb4cb07ed2d0a981fc748";
    let cases = [
        (
            Cipher::Aes128Cbc,
            Digest::Sha1,
            0x6b02_1d58_0000_0001,
            "9c8d0540f51ec6f1a1e4fdf762c4b53bc447c06e1e0da139dd153451acaca7410e2583183c836d2f02d8e11d2421\
             f286066d4bf145974a9226fef35385c8ed88b573134d",
        ),
        (
            Cipher::Aes256Cbc,
            Digest::Sha256,
            0x6b02_1d5c_0000_0003,
            "80ae00ab7a7ab75ef752d64e10069c2f70f56ac592362e4528da264733ada254c8bebf9550979590268e2efbd5fd\
             dba36f20e86e5340744312781aed5afed0c8a1b9de5162f3d9e5c2f4606884608509",
        ),
        (
            Cipher::Aes192Cbc,
            Digest::Sha384,
            0x6b02_1d60_0000_0003,
            "90fc508a2355119635bbf6a6d2ba189d34f2368e825e18978f4fbb45f516d798db3d66961496d1bfbb522e0e64f1\
             4bd1b866e14bef2240e207d354300a4721a0fcd7b8436e4503e821260f18059b52843a801f05bd3a6ff14c9f16dd\
             05a21a11",
        ),
    ];
    for (cipher, digest, number, datagram) in cases {
        let opener = other_end(cipher, digest, with_time(0, Compression::None));
        let mut datagram = hex(datagram);
        let plain = opener.open(&mut datagram).expect("opens");
        assert_eq!((plain.counter, &datagram[plain.payload]), (number, &hex(ping)[..]), "{cipher}");
    }
}

#[test]
fn what_we_sealed_is_refused_when_it_comes_back() {
    let (cipher, digest) = (Cipher::Aes256Cbc, Digest::Sha256);
    let framing = with_time(1_790_000_000, Compression::None);
    let (sealer, opener) = pair(cipher, digest, framing);
    let datagram = sealed(&sealer, 1, b"to the other end");
    assert_eq!(opener.open(&mut datagram.clone()).err(), Some(DropReason::Replay));
    assert!(other_end(cipher, digest, framing).open(&mut datagram.clone()).is_ok());
}

#[test]
fn a_long_packet_id_must_be_whole() {
    let opener = other_end(Cipher::Aes128Cbc, Digest::Sha1, with_time(1, Compression::None));
    let open = |plain: &[u8]| {
        let mut datagram = authentic(plain);
        opener.open(&mut datagram[4..]).map(|plain| (plain.counter, plain.payload.len()))
    };
    let block = |head: [u8; 8], padding: u8| {
        let mut block = [padding; BLOCK];
        block[..8].copy_from_slice(&head);
        block
    };
    assert_eq!(open(&block([0, 0, 0, 2, 0, 0, 0, 9], 8)), Ok((9 << 32 | 2, 0)));
    assert_eq!(open(&block([0, 0, 0, 2, 0, 0, 0, 9], 1)), Ok((9 << 32 | 2, 7)));
    assert_eq!(open(&block([0, 0, 0, 0, 0, 0, 0, 9], 8)), Err(DropReason::Malformed), "packet id 0");
    assert_eq!(
        open(&block([0, 0, 0, 2, 0, 9, 9, 9], 9)),
        Err(DropReason::Malformed),
        "padding over the time"
    );
    for len in 0..64 {
        assert!(opener.open(&mut vec![0; len]).is_err());
    }
}

#[test]
fn ivs_do_not_repeat() {
    let (sealer, _) = pair(Cipher::Aes256Cbc, Digest::Sha1, framing(V2, 0));
    let ivs: std::collections::BTreeSet<_> = (1..1000).map(|number| sealer.ivs.iv(number)).collect();
    assert_eq!(ivs.len(), 999);
}

/// A datagram with a right HMAC around any plaintext.
fn authentic(plain: &[u8]) -> Vec<u8> {
    let (cipher, digest) = (Cipher::Aes128Cbc, Digest::Sha1);
    let (sealer, _) = pair(cipher, digest, framing(V2, 0));
    let mut datagram = vec![0; 4 + 20 + BLOCK];
    datagram[..4].copy_from_slice(&[0x48, 0, 0, 9]);
    datagram.extend_from_slice(plain);
    sealer.cipher.encrypt([0; BLOCK], &mut datagram[40..]).expect("whole blocks");
    let (front, sealed) = datagram.split_at_mut(24);
    sealer.mac.sign([sealed, &[]], &mut front[4..]).expect("20 bytes");
    datagram
}

#[test]
fn what_only_the_peer_can_get_wrong() {
    let (_, opener) = pair(Cipher::Aes128Cbc, Digest::Sha1, framing(V2, 0));
    let open = |plain: &[u8]| opener.open(&mut authentic(plain)).map(|plain| plain.payload.len());
    let block = |id: u8, padding: u8, last: u8| {
        let mut block = [padding; BLOCK];
        block[..4].copy_from_slice(&[0, 0, 0, id]);
        block[BLOCK - 1] = last;
        block
    };
    assert_eq!(open(&block(1, 12, 12)), Ok(0));
    assert_eq!(open(&block(1, 1, 1)), Ok(11));
    assert_eq!(open(&block(0, 12, 12)), Err(DropReason::Malformed), "packet id 0");
    assert_eq!(open(&block(1, 13, 13)), Err(DropReason::BadTag), "padding over the packet id");
    for (padding, last) in [(0, 0), (17, 17), (11, 12), (255, 255)] {
        assert_eq!(open(&block(1, padding, last)), Err(DropReason::BadTag), "{padding} {last}");
    }
    assert_eq!(open(&[16; BLOCK]), Err(DropReason::Malformed), "no room for a packet id");
    assert_eq!(open(&[]), Err(DropReason::Malformed));
}

/// Padding is 1 to 16 bytes, and each of them says how many. Zeros are none, however much stands before them.
#[test]
fn padding_is_checked_for_every_length() {
    let (_, opener) = pair(Cipher::Aes128Cbc, Digest::Sha1, framing(V2, 0));
    let open = |plain: &[u8]| opener.open(&mut authentic(plain)).map(|plain| plain.payload.len());
    for length in [BLOCK, 2 * BLOCK, 20 * BLOCK] {
        let room = length - PACKET_ID;
        for last in 0..=u8::MAX {
            let mut plain = vec![last; length];
            plain[..PACKET_ID].copy_from_slice(&[0, 0, 0, 1]);
            let padding = usize::from(last);
            if !(1..=BLOCK.min(room)).contains(&padding) {
                assert_eq!(open(&plain), Err(DropReason::BadTag), "{last} at the end of {length} bytes");
                continue;
            }
            assert_eq!(open(&plain), Ok(room - padding), "{last} at the end of {length} bytes");
            for at in length - padding..length - 1 {
                let mut wrong = plain.clone();
                wrong[at] ^= last;
                assert_eq!(open(&wrong), Err(DropReason::BadTag), "{last}, but 0 at {at} of {length} bytes");
            }
        }
    }
}

#[test]
fn the_hmac_key_must_fit() {
    for cipher in CBC {
        let mut key = key(cipher, Digest::Sha256);
        if let Some(mac) = &mut key.mac {
            mac.digest = Digest::Sha1;
        }
        let error = Sealer::new(framing(V2, 0), cipher, &key).err().expect("refused");
        assert_eq!(error, AeadError::MacKey { cipher });
        key.mac = None;
        assert_eq!(Opener::new(framing(V2, 0), cipher, &key).err(), Some(AeadError::MacKey { cipher }));
    }
}

proptest! {
    #[test]
    fn opens_what_was_sealed_with_time_and_nothing_else(
        cipher in prop::sample::select(&CBC[..]),
        digest in prop::sample::select(&Digest::ALL[..]),
        compression in prop::sample::select(&[
            Compression::None, Compression::LzoNo, Compression::Stub,
            Compression::StubV2,
        ][..]),
        (began, counter) in (any::<u32>(), 1u32..),
        first in prop_oneof![Just(0x50u8), Just(0x45), any::<u8>()],
        payload in proptest::collection::vec(any::<u8>(), 0..100),
        flip: prop::sample::Index,
    ) {
        let framing = with_time(began, compression);
        let (sealer, _) = pair(cipher, digest, framing);
        let opener = other_end(cipher, digest, framing);
        let payload: Vec<u8> = [first].into_iter().chain(payload).collect();
        let datagram = sealed(&sealer, counter.into(), &payload);
        let mut bytes = datagram.clone();
        let plain = opener.open(&mut bytes).expect("opens");
        prop_assert_eq!(plain.counter, u64::from(began) << 32 | u64::from(counter));
        let range = compression::unframe(compression, &mut bytes, plain.payload).expect("unframes");
        prop_assert_eq!(&bytes[range], &payload[..]);

        let mut forged = datagram.clone();
        forged[flip.index(datagram.len())] ^= 1;
        prop_assert_eq!(opener.open(&mut forged).err(), Some(DropReason::BadTag));
        let mut cut = datagram[..flip.index(datagram.len())].to_vec();
        prop_assert!(opener.open(&mut cut).is_err());
    }

    #[test]
    fn opens_what_was_sealed_and_nothing_else(
        cipher in prop::sample::select(&CBC[..]),
        digest in prop::sample::select(&Digest::ALL[..]),
        v1: bool,
        compression in prop::sample::select(&[
            Compression::None, Compression::LzoNo, Compression::Stub,
            Compression::StubV2,
        ][..]),
        counter in 1u32..,
        first in prop_oneof![Just(0x50u8), Just(0x45), any::<u8>()],
        payload in proptest::collection::vec(any::<u8>(), 0..100),
        flip: prop::sample::Index,
    ) {
        let header = if v1 { DataHeader::V1 } else { V2 };
        let (sealer, opener) = pair(cipher, digest, DataFraming { header, key_id: 0, compression });
        let payload: Vec<u8> = [first].into_iter().chain(payload).collect();
        let datagram = sealed(&sealer, counter.into(), &payload);
        let mut bytes = datagram.clone();
        let plain = opener.open(&mut bytes).expect("opens");
        prop_assert_eq!(plain.counter, u64::from(counter));
        let range = compression::unframe(compression, &mut bytes, plain.payload).expect("unframes");
        prop_assert_eq!(&bytes[range], &payload[..]);

        let mut forged = datagram.clone();
        let at = sealer.header.len + flip.index(datagram.len() - sealer.header.len);
        forged[at] ^= 1;
        prop_assert_eq!(opener.open(&mut forged).err(), Some(DropReason::BadTag));
        let mut cut = datagram[..flip.index(datagram.len())].to_vec();
        prop_assert!(opener.open(&mut cut).is_err());
    }
}
