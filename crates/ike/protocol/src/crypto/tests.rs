//! Vectors marked "Python" were made by Python 3's `hmac` and by the package `cryptography` 50.0.2.

use adit_core::{Cipher, Digest};
use aws_lc_rs::{digest, kem};
use proptest::prelude::*;
use zeroize::Zeroizing;

use super::*;
use crate::suite::{ChildSuite, Group, IkeSuite};
use crate::wire::{
    ExchangeType, Flags, FragmentNumber, Header, IdType, Identification, Message, Notify, NotifyType,
    Payload, PayloadType, Spi, decode_chain, encode_chain,
};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

fn suite(cipher: Cipher, integrity: Option<Digest>, prf: Digest) -> IkeSuite {
    IkeSuite { cipher, integrity, prf, group: Group::X25519, additional: Vec::new() }
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, bytes).as_ref().to_vec()
}

/// The nonces and the secret of the vectors.
struct Inputs {
    initiator: Vec<u8>,
    responder: Vec<u8>,
    secret: Vec<u8>,
}

impl Inputs {
    fn new() -> Self {
        Inputs { initiator: (0..32).collect(), responder: (100..132).collect(), secret: (200..232).collect() }
    }

    fn nonces(&self) -> Nonces<'_> {
        Nonces { initiator: &self.initiator, responder: &self.responder }
    }

    fn keys(&self, suite: &IkeSuite) -> IkeKeys {
        let seed = first_seed(suite.prf, &self.nonces(), &self.secret);
        IkeKeys::derive(suite, &seed, &self.nonces(), Spi([0x11; 8]), Spi([0x22; 8]))
    }
}

/// All keys in the order in which they are derived.
fn stream(keys: &IkeKeys) -> Vec<u8> {
    let IkeKeys { derivation, initiator, responder, initiator_proof, responder_proof } = keys;
    let [a, b] = [initiator, responder];
    let parts = [derivation, &a.integrity, &b.integrity, &a.encryption, &a.salt, &b.encryption, &b.salt];
    parts.into_iter().chain([initiator_proof, responder_proof]).flat_map(|part| part.to_vec()).collect()
}

/// Python.
#[test]
fn keys_of_an_ike_sa_are_those_of_the_vectors() {
    let vectors = [
        (
            suite(Cipher::Aes128Gcm, None, Digest::Sha256),
            "d2a82d343f31bb35e889f58f64161996345ae15d636f0f9a5d353fd9a6db4cf2",
        ),
        (
            suite(Cipher::Aes256Cbc, Some(Digest::Sha384), Digest::Sha384),
            "485ba2022146f7481d098907b0997a33d415c391d69b99f4f69ab7beaf74bd55",
        ),
        (
            suite(Cipher::ChaCha20Poly1305, None, Digest::Sha512),
            "c1766cfafaee440037a91e063d453275a3207be8abb9e04954197eea4fb1085a",
        ),
        (
            suite(Cipher::Aes128Cbc, Some(Digest::Sha1), Digest::Sha1),
            "a2d9e888eb77d01bbafeb23fec77a717cdc9491ba2187e2f588bc3b5359048e2",
        ),
    ];
    for (suite, expected) in vectors {
        let keys = Inputs::new().keys(&suite);
        assert_eq!(sha256(&stream(&keys)), hex(expected), "{suite:?}");
        assert_eq!(keys.initiator.salt.len(), if suite.cipher.is_aead() { 4 } else { 0 });
    }
}

fn secrets(inputs: &Inputs) -> Secrets {
    Zeroizing::new(inputs.secret.clone()).into()
}

/// RFC 9370 section 2.2.4: the secrets of additional key exchanges come after the nonces.
#[test]
fn secrets_of_additional_key_exchanges_come_after_the_nonces() {
    let inputs = Inputs::new();
    let [key, additional] = [vec![7; 32], vec![8; 64]];
    let secrets = Secrets { additional: Zeroizing::new(additional.clone()), ..secrets(&inputs) };
    let nonces = inputs.nonces();
    let seed = rekey_seed(Digest::Sha256, &key, &nonces, &secrets);
    let parts = [&inputs.secret, nonces.initiator, nonces.responder, &additional];
    assert_eq!(seed, prf(Digest::Sha256, &key, &parts));
}

/// Python.
#[test]
fn keys_of_a_child_and_of_a_rekey_are_those_of_the_vectors() {
    let inputs = Inputs::new();
    let keys = inputs.keys(&suite(Cipher::Aes128Gcm, None, Digest::Sha256));
    assert_eq!(*keys.derivation, hex("f094e93a4be4ec7e5152cf20415c6f295f0c593e5d4b569ed6e79ccdabfc0b1b"));
    let child = ChildSuite {
        cipher: Cipher::Aes256Gcm,
        integrity: None,
        group: Some(Group::X25519),
        additional: Vec::new(),
        has_extended_sequence_numbers: false,
    };
    let derived =
        ChildKeys::derive(&child, Digest::Sha256, &keys.derivation, &secrets(&inputs), &inputs.nonces());
    let parts = [&derived.initiator, &derived.responder]
        .map(|keys| [keys.encryption.to_vec(), keys.salt.to_vec()].concat());
    let expected = "37e6910049310f47e749dbb9e37362c5b8629670f542b9c89d27d710dfd69dbb9bc1fde5\
        77307e7c381c37eeb44a6f92087ded292dff581f66293d93bed5cfd0274972583ddc8544";
    assert_eq!(parts.concat(), hex(expected));
    let seed = rekey_seed(Digest::Sha256, &keys.derivation, &inputs.nonces(), &secrets(&inputs));
    assert_eq!(*seed, hex("5cd1932c9362aa5cbae25316b2082cf0ea06cbf9180558896cc7bd1c712fb8c9"));
}

/// Python.
#[test]
fn the_proof_of_a_pre_shared_key_is_that_of_the_vector() {
    let inputs = Inputs::new();
    let keys = inputs.keys(&suite(Cipher::Aes128Gcm, None, Digest::Sha256));
    let identity = Identification { kind: IdType::FQDN, data: b"a.example".to_vec() };
    let octets = SignedOctets {
        message: b"first message",
        received: None,
        peer_nonce: &inputs.responder,
        proof_key: &keys.initiator_proof,
        identity: &identity,
        intermediate: &[],
    };
    let proof = shared_key_proof(Digest::Sha256, b"secret", &octets);
    assert_eq!(*proof, hex("93a15741c26b1cb1251e8731dc4599dc059c40b6c04c6871efe00bed908940ea"));
    let octets =
        SignedOctets { received: Some(b"the peer's first message"), intermediate: b"IntAuth", ..octets };
    let proof = shared_key_proof(Digest::Sha256, b"secret", &octets);
    assert_eq!(*proof, hex("b9061adb0c4316e811f2ab90501334141ff9bb635207644ec20bce3d2b1dd50c"));
}

#[test]
fn a_prf_gives_at_most_255_outputs() {
    assert_eq!(prf_plus(Digest::Sha1, b"key", &[b"seed"], 255 * 20).unwrap().len(), 255 * 20);
    assert_eq!(prf_plus(Digest::Sha1, b"key", &[b"seed"], 255 * 20 + 1), None);
}

fn header() -> Header {
    Header {
        initiator_spi: Spi([0x11; 8]),
        responder_spi: Spi([0x22; 8]),
        minor_version: 0,
        exchange: ExchangeType::INFORMATIONAL,
        flags: Flags { is_initiator: true, ..Flags::default() },
        message_id: 7,
    }
}

fn initial_contact() -> (PayloadType, Vec<u8>) {
    let mut plain = Vec::new();
    let notify = Payload::Notify(Notify::new(NotifyType::INITIAL_CONTACT, Vec::new()));
    (encode_chain(&[notify], &mut plain), plain)
}

fn direction(suite: &IkeSuite) -> DirectionKeys {
    let numbers = |start: u8, length: usize| Secret::from((start..).take(length).collect::<Vec<u8>>());
    let salt = if suite.cipher.is_aead() { b"salt".to_vec().into() } else { Secret::default() };
    let integrity = numbers(64, suite.integrity.map_or(0, Digest::output_len));
    DirectionKeys { encryption: numbers(0, suite.cipher.key_len()), salt, integrity }
}

fn protection(suite: &IkeSuite) -> Protection {
    Protection::new(suite, &direction(suite)).expect("keys of the right lengths")
}

/// Python, but for padding, which is zeros here and there.
#[test]
fn sealed_messages_are_those_of_the_vectors() {
    let head = "111111111111111122222222222222222e20250808000000";
    let vectors = [
        (Cipher::Aes256Gcm, "00000001a674fb8d33126b22d5536d8c34655dbec278e97daff01799a2"),
        (Cipher::Aes128Gcm, "00000001950a6aa18f3646a9f841110c604b47954c6f06165d6ff6d36c"),
        (Cipher::ChaCha20Poly1305, "0000000193e2d996775066b14a03334e3df44557a757551838888270a7"),
    ];
    let (first, plain) = initial_contact();
    let contents = Contents { first, fragment: None, plain: &plain };
    for (cipher, expected) in vectors {
        let mut protection = protection(&suite(cipher, None, Digest::Sha256));
        let sealed = protection.seal(&header(), &contents, &mut |_| panic!("an AEAD draws nothing")).unwrap();
        let head = head.replace("0808000000", "080000000700000041290000250000000");
        assert_eq!(sealed, hex(&format!("{head}0{expected}")), "{cipher}");
    }
    let mut cbc = protection(&suite(Cipher::Aes256Cbc, Some(Digest::Sha256), Digest::Sha256));
    let sealed = cbc.seal(&header(), &contents, &mut |iv| iv.fill(0xaa)).unwrap();
    let expected = "111111111111111122222222222222222e202508000000070000005029000034aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
        cd38d5f5b12d96ac732fedc31a4d38838924b92896aecb1656271602179570ef";
    assert_eq!(sealed, hex(expected));
    let fragment = Some(FragmentNumber { number: 1, total: 2 });
    let mut gcm = protection(&suite(Cipher::Aes256Gcm, None, Digest::Sha256));
    gcm.seal(&header(), &contents, &mut |_| ()).unwrap();
    let sealed = gcm.seal(&header(), &Contents { fragment, ..contents }, &mut |_| ()).unwrap();
    let expected = "1111111111111111222222222222222235202508000000070000004529000029000100020000000000000002\
        6e7b5f6d2e38ec50bf982e98444673f40baab53481d51a2f39";
    assert_eq!(sealed, hex(expected));
}

fn suites() -> Vec<IkeSuite> {
    let aeads = [Cipher::Aes128Gcm, Cipher::Aes192Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];
    let aeads = aeads.into_iter().map(|cipher| suite(cipher, None, Digest::Sha256));
    let digests = [Digest::Sha1, Digest::Sha256, Digest::Sha384, Digest::Sha512];
    let cbc = [Cipher::Aes128Cbc, Cipher::Aes192Cbc, Cipher::Aes256Cbc].into_iter().flat_map(|cipher| {
        digests.into_iter().map(move |digest| suite(cipher, Some(digest), Digest::Sha256))
    });
    aeads.chain(cbc).collect()
}

fn open(protection: &Protection, datagram: &[u8]) -> Result<Secret, OpenError> {
    let message = Message::decode(datagram).unwrap();
    protection.open(datagram, &message.sealed.unwrap())
}

#[test]
fn what_is_sealed_opens_and_nothing_else_does() {
    let (first, plain) = initial_contact();
    for suite in suites() {
        let mut protection = protection(&suite);
        for fragment in [None, Some(FragmentNumber { number: 2, total: 3 })] {
            let contents = Contents { first, fragment, plain: &plain };
            let sealed = protection.seal(&header(), &contents, &mut |iv| iv.fill(3)).unwrap();
            assert!(sealed.len() <= protection.overhead(fragment.is_some()) + plain.len());
            let opened = open(&protection, &sealed).unwrap();
            assert_eq!(decode_chain(first, &opened).unwrap().len(), 1, "{suite:?}");
            // Not the version, the length fields and the payload types, which must be right for a message to decode.
            for index in [0, 15, 18, 19, 23, sealed.len() - 1, sealed.len() - 20] {
                let mut changed = sealed.clone();
                changed[index] ^= 1;
                assert_eq!(open(&protection, &changed), Err(OpenError::Checksum), "{suite:?}, byte {index}");
            }
        }
    }
}

#[test]
fn a_body_that_is_too_short_is_refused() {
    for suite in suites() {
        let protection = protection(&suite);
        for length in 0..40 {
            let body = vec![7; length];
            let sealed = crate::wire::Sealed { first: PayloadType::NOTIFY, fragment: None, body: &body };
            let datagram = Message { header: header(), payloads: Vec::new(), sealed: Some(sealed) }.encode();
            assert!(open(&protection, &datagram).is_err());
        }
    }
}

/// Padding that is longer than what it pads: a sender with the keys, and at fault.
#[test]
fn padding_longer_than_the_content_is_refused() {
    let suite = suite(Cipher::Aes256Gcm, None, Digest::Sha256);
    let mut protection = protection(&suite);
    let key = aws_lc_rs::aead::UnboundKey::new(&aws_lc_rs::aead::AES_256_GCM, &direction(&suite).encryption)
        .unwrap();
    let key = aws_lc_rs::aead::LessSafeKey::new(key);
    let contents = Contents { first: PayloadType::NONE, fragment: None, plain: &[] };
    let mut datagram = protection.seal(&header(), &contents, &mut |_| ()).unwrap();
    let aad = datagram[..32].to_vec();
    let nonce: [u8; 12] = [b"salt".as_slice(), &datagram[32..40]].concat().try_into().unwrap();
    let nonce = aws_lc_rs::aead::Nonce::assume_unique_for_key(nonce);
    let mut plain = [1];
    let tag = key.seal_in_place_separate_tag(nonce, aws_lc_rs::aead::Aad::from(aad), &mut plain).unwrap();
    datagram.truncate(40);
    datagram.extend(plain);
    datagram.extend(tag.as_ref());
    assert_eq!(open(&protection, &datagram), Err(OpenError::Padding));
}

/// Python; that of P-256 with the private keys of RFC 5903 section 8.1 is the RFC's.
#[test]
fn secrets_of_curves_are_those_of_the_vectors() {
    let low: Vec<u8> = (1..33).collect();
    let high: Vec<u8> = (33..65).collect();
    let rfc = [
        "c88f01f510d9ac3f70a292daa2316de544e9aab8afe84049c62a9c57862d1433",
        "c6ef9c5d78ae012a011164acb397ce2088685d8f06bf9be0b283ab46476bee53",
    ];
    let vectors = [
        (
            Group::P256,
            hex(rfc[0]),
            hex(rfc[1]),
            "d6840f6b42f6edafd13116e0e12565202fef8e9ece7dce03812464d04b9442de",
        ),
        (
            Group::P256,
            low.clone(),
            high.clone(),
            "4fe243908f378aa1c2a69538822e6ed908c3225d8692575507c649901245150a",
        ),
        (
            Group::P384,
            low.clone(),
            high.clone(),
            "1e195e46b8932d3d295869e74054953281971bda80f7e237db4033b67a542644802b02104a420380ae631253f4718ee5",
        ),
        (
            Group::P521,
            low,
            high,
            "0057ed365bb5715aae2c60465498d794422914306f5c60f7044f847586dd8f6698ec9b4a9f24543a70c060d15e74ec42cdfa312d053599feed\
                4810a01cd8f7318799",
        ),
        // RFC 7748 section 6.1.
        (
            Group::X25519,
            hex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"),
            hex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"),
            "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742",
        ),
    ];
    for (group, initiator, responder, expected) in vectors {
        let right_aligned = |key: Vec<u8>| {
            move |place: &mut [u8]| {
                place.fill(0);
                let start = place.len() - key.len();
                place[start..].copy_from_slice(&key);
            }
        };
        let share = KeyShare::new(group, &mut right_aligned(initiator)).unwrap();
        assert_eq!(share.public().len(), group.initiator_len());
        let (answer, secret) = answer_exchange(group, share.public(), &mut right_aligned(responder)).unwrap();
        assert_eq!(answer.len(), group.responder_len());
        assert_eq!(
            (*secret == hex(expected), *share.finish(&answer).unwrap() == *secret),
            (true, true),
            "{group:?}"
        );
    }
}

/// AWS-LC's ML-KEM is the other end.
#[test]
fn ml_kem_agrees_with_another_implementation() {
    let mut fill = |place: &mut [u8]| place.iter_mut().zip(5..).for_each(|(byte, value)| *byte = value);
    for (group, algorithm) in [(Group::MlKem768, &kem::ML_KEM_768), (Group::MlKem1024, &kem::ML_KEM_1024)] {
        let share = KeyShare::new(group, &mut fill).unwrap();
        let theirs = kem::EncapsulationKey::new(algorithm, share.public()).unwrap();
        let (ciphertext, shared) = theirs.encapsulate().unwrap();
        assert_eq!(ciphertext.as_ref().len(), group.responder_len());
        assert_eq!(*share.finish(ciphertext.as_ref()).unwrap(), shared.as_ref());
        let theirs = kem::DecapsulationKey::generate(algorithm).unwrap();
        let public = theirs.encapsulation_key().unwrap().key_bytes().unwrap().as_ref().to_vec();
        let (answer, secret) = answer_exchange(group, &public, &mut fill).unwrap();
        let shared = theirs.decapsulate(answer.as_slice().into()).unwrap();
        assert_eq!(*secret, shared.as_ref());
    }
}

#[test]
fn values_that_are_no_public_keys_are_refused() {
    let mut count = 1_u8;
    let mut fill = |place: &mut [u8]| {
        place.fill(count);
        count += 1;
    };
    for group in Group::ALL {
        let share = KeyShare::new(group, &mut fill).unwrap();
        for length in [0, 1, group.responder_len() - 1, group.responder_len() + 1] {
            assert!(matches!(share.finish(&vec![1; length]), Err(ExchangeError::Length { .. })), "{group:?}");
        }
        for length in [0, group.initiator_len() - 1, group.initiator_len() + 1] {
            let answer = answer_exchange(group, &vec![1; length], &mut fill);
            assert!(matches!(answer, Err(ExchangeError::Length { .. })), "{group:?}");
        }
    }
    // Zeros are no point of the NIST curves, and a point of low order of Curve25519.
    for group in [Group::P256, Group::P384, Group::P521, Group::X25519] {
        let zeros = vec![0; group.initiator_len()];
        assert_eq!(answer_exchange(group, &zeros, &mut fill).err(), Some(ExchangeError::Value(group)));
        assert_eq!(
            KeyShare::new(group, &mut fill).unwrap().finish(&zeros).err(),
            Some(ExchangeError::Value(group))
        );
    }
    // The other points of low order (RFC 7748 section 6.1), also in the forms that are not reduced.
    let low_order = [
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ];
    for point in low_order.map(hex) {
        let refused = Some(ExchangeError::Value(Group::X25519));
        assert_eq!(answer_exchange(Group::X25519, &point, &mut fill).err(), refused);
    }
    // Coefficients of an encapsulation key are below 3329 (FIPS 203 section 7.2).
    for group in [Group::MlKem768, Group::MlKem1024] {
        let ones = vec![0xff; group.initiator_len()];
        assert_eq!(answer_exchange(group, &ones, &mut fill).err(), Some(ExchangeError::Value(group)));
    }
}

#[test]
fn secrets_are_not_shown() {
    let suite = suite(Cipher::Aes256Gcm, None, Digest::Sha256);
    let keys = Inputs::new().keys(&suite);
    assert_eq!(format!("{keys:?} {:?}", keys.initiator), "IkeKeys(..) DirectionKeys(..)");
    assert_eq!(format!("{:?}", protection(&suite)), "Protection { sealed: 0, .. }");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_length_is_padded_and_opens(length in 0..300_usize, which in 0..16_usize) {
        let suite = suites().swap_remove(which);
        let mut protection = protection(&suite);
        let plain: Vec<u8> = (0..length).map(|index| index as u8).collect();
        let contents = Contents { first: PayloadType::VENDOR_ID, fragment: None, plain: &plain };
        let sealed = protection.seal(&header(), &contents, &mut |iv| iv.fill(1)).unwrap();
        prop_assert!(sealed.len() <= protection.overhead(false) + length);
        prop_assert_eq!(&*open(&protection, &sealed).unwrap(), &plain);
    }
}
