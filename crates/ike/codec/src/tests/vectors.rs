//! Packets of others: draft-mcgrew-gcm-test-01, RFC 7634 appendix A, RFC 3602 section 4.

use std::sync::Arc;

use adit_core::{Cipher, ReplayWindow};
use adit_dataplane::DropReason;
use adit_dataplane::aead::aws_lc;
use adit_dataplane::cbc::Decryptor;
use adit_dataplane::codec::{Decode, Window};
use adit_dataplane::testing::hex;
use adit_ike::crypto::DirectionKeys;
use adit_ike::machine::Codec;

use crate::{aead, trailer};

/// A datagram that an AEAD sealed.
struct Vector {
    cipher: Cipher,
    key: &'static str,
    salt: &'static str,
    /// The counter that was received before, of a child SA with sequence numbers of 64 bits.
    extended_after: Option<u64>,
    sealed: &'static str,
    counter: u64,
    /// The packet with its trailer.
    text: &'static str,
}

const VECTORS: [Vector; 4] = [
    Vector {
        cipher: Cipher::Aes128Gcm,
        key: "feffe9928665731c6d6a8f9467308308",
        salt: "cafebabe",
        extended_after: None,
        sealed: "0000a5f80000000afacedbaddecaf888deb22cd9b07c72c16e3a65beeb8df304a5a5897d33ae530f1ba76d5d\
                 114d2a5c3de81827c10e9a4f51330d0eec416642cfbb85a5b47e48a4ec3b9ba95d918bd183b70d3aa8bc6ee4\
                 c309e9d85a41ad4a",
        counter: 10,
        text: "4500003e698f000080114dccc0a80102c0a801010a980035002a2343b2d001000001000000000000\
               037369700963796265726369747902646b00000100010001",
    },
    Vector {
        cipher: Cipher::Aes256Gcm,
        key: "abbccddef00112233445566778899aababbccddef00112233445566778899aab",
        salt: "11223344",
        extended_after: None,
        sealed: "4a2cbfe3000000020102030405060708ff425c9b724599df7a3bcd510194e00d6a78107f1b0b1cbf06efae9d\
                 65a5d763748a637985771d347f0545659f14e99def842d8eb335f4eecfdbf831824b4c4915956c96",
        counter: 2,
        text: "4500003069a6400080062690c0a801029389155e0a9e008b2dc57ee0000000007002400020bf0000\
               020405b40101040201020201",
    },
    Vector {
        cipher: Cipher::Aes128Gcm,
        key: "4c80cdefbb5d10da906ac73c3613a634",
        salt: "2e443b68",
        extended_after: Some(0x8765_4320_ffff_ff00),
        sealed: "00004321000000004956ed7e3b244cfefecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa\
                 13ceac34cfa2436f14a3f3cf65925bf1f4a13c5d15b21e1884f5ff6247aeabb786b93bce61bc17d768fd9732\
                 459018148f6cbe722fd04796562dfdb4",
        counter: 0x8765_4321_0000_0000,
        text: "45000048699a000080114db7c0a80102c0a801010a9bf15638d3010000010000\
               00000000045f736970045f756470037369700963796265726369747902646b000021000101020201",
    },
    Vector {
        cipher: Cipher::ChaCha20Poly1305,
        key: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
        salt: "a0a1a2a3",
        extended_after: None,
        sealed: "0102030400000005101112131415161724039428b97f417e3c13753a4f05087b67c352e6a7fab1b982d466ef\
                 407ae5c614ee8099d52844eb61aa95dfab4c02f72aa71e7c4c4f64c9befe2facc638e8f3cbec163fac469b50\
                 2773f6fb94e664da9165b82829f641e076aaa8266b7fb0f7b11b369907e1ad43",
        counter: 5,
        text: "45000054a6f200004001e778c6336405c000020508005b7a3a080000553bec100007362708090a0b0c0d0e0f\
               101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363701020204",
    },
];

#[test]
fn datagrams_of_published_vectors_open() {
    for vector in VECTORS {
        let keys = DirectionKeys {
            encryption: hex(vector.key).into(),
            salt: hex(vector.salt).into(),
            integrity: Vec::new().into(),
        };
        let codec = Codec {
            outbound_spi: 0,
            cipher: vector.cipher,
            integrity: None,
            has_extended_sequence_numbers: vector.extended_after.is_some(),
            seal: keys.clone(),
            open: keys,
            selectors: Arc::new([]),
            is_encapsulated: false,
            limits: Default::default(),
            counters: Default::default(),
        };
        let mut seen = Window::new(ReplayWindow::default());
        if let Some(counter) = vector.extended_after {
            seen.accept(counter);
        }
        let opener = aead::Opener::new(aws_lc, &codec).expect("the keys fit");
        let mut datagram = hex(vector.sealed);
        let plain = opener.decode(&mut datagram, &seen).expect(vector.sealed);
        assert_eq!((plain.counter, &datagram[plain.payload]), (vector.counter, &hex(vector.text)[..]));
        let mut forged = hex(vector.sealed);
        forged[3] ^= 1;
        assert_eq!(opener.decode(&mut forged, &seen), Err(DropReason::BadTag), "the SPI is authenticated");
    }
}

#[test]
fn the_packet_of_rfc_7634_comes_out() {
    let text = hex(VECTORS[3].text);
    assert_eq!(trailer::take_off(&text, 0..text.len()), Ok(0..84));
    let mut written = vec![0; trailer::padded(84, 4)];
    trailer::write(&text[..84], &mut written).expect("as long");
    assert_eq!(written, text);
}

/// Case 7: tunnel mode, without an HMAC.
#[test]
fn the_packet_of_rfc_3602_comes_out() {
    let mut text = hex(
        "773b5241a4c449225e4f3ce5ed611b0c237ca96cf74a93013c1b0ea1a0cf70f8e4ecaec78ac53aad7a0f022b859243c6\
                        47752e94a859352b8a4d4d2decd136e5c177f132ad3fbfb2201ac9904c74ee0a109e0ca1e4dfe9d5a100b842f1c22f0d",
    );
    let packet = hex(
        "45000054090400004001f988c0a87b03c0a87bc808009f76a90a0100b49c083d02a2040008090a0b0c0d0e0f101112131415\
                      161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637",
    );
    let iv = hex("f4e765244f6407adf13dc1380f673f37").try_into().expect("16 bytes");
    let key = Decryptor::new(Cipher::Aes128Cbc, &hex("0123456789abcdef0123456789abcdef")).expect("it fits");
    key.decrypt(iv, &mut text).expect("whole blocks");
    let range = trailer::take_off(&text, 0..text.len()).expect("tunnel mode");
    assert_eq!(text[range], packet);
    let mut written = vec![0; trailer::padded(packet.len(), 16)];
    trailer::write(&packet, &mut written).expect("as long");
    assert_eq!(written, text);
}
