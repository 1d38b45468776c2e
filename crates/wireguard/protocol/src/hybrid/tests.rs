use aws_lc_rs::kem;

use super::*;

fn pair(byte: u8) -> KeyPair {
    KeyPair::new(&[byte; 32]).expect("a key")
}

/// A whole exchange between the ends with the static keys 1 and 2: the result of each.
fn exchange(offerer: &PresharedKey, answerer: &PresharedKey, seed: u8) -> (Agreed, Agreed) {
    let keys = [pair(1).public, pair(2).public];
    let parties = |preshared| Parties { offerer: &keys[0], answerer: &keys[1], preshared };
    let offer = Offer::new(&Zeroizing::new([seed; OFFER_SEED_LEN]));
    let secret = Zeroizing::new([seed.wrapping_add(1); ANSWER_SEED_LEN]);
    let made = Answer::new(&parties(answerer), pair(3), &secret, offer.encapsulation_key());
    let (answer, ciphertext) = made.expect("a key");
    let ephemeral = pair(4);
    let offered = offer.finish(&parties(offerer), &ephemeral, answer.public(), &ciphertext).expect("agreed");
    let answered = answer.finish(&parties(answerer), &ephemeral.public).expect("agreed");
    (offered, answered)
}

fn same(one: &Agreed, other: &Agreed) -> bool {
    let all = [one.preshared == other.preshared, one.mark == other.mark, one.tag == other.tag];
    assert!(all.iter().all(|each| *each == all[0]), "all of it is the same, or nothing");
    all[0]
}

#[test]
fn both_ends_agree_if_their_configured_keys_do() {
    let none = PresharedKey::default();
    let some = PresharedKey::new([9; 32]);
    let (offered, answered) = exchange(&none, &none, 5);
    assert!(same(&offered, &answered));
    let (with, same_with) = exchange(&some, &some, 5);
    assert!(same(&with, &same_with) && !same(&with, &offered), "the configured key is mixed in");
    let (offered, answered) = exchange(&none, &some, 5);
    assert!(!same(&offered, &answered));
    assert!(!same(&exchange(&none, &none, 6).0, &answered), "other randomness, another key");
}

/// The combiner step by step, by its description in docs/build/POST-QUANTUM.md.
#[test]
fn the_combiner_is_as_described() {
    let (offerer, public, configured) = ([1; 32], [4; 32], [7; 32]);
    let (kem, x25519) = (Zeroizing::new([5; 32]), Zeroizing::new([6; 32]));
    let parties = Parties {
        offerer: &PublicKey(offerer),
        answerer: &PublicKey([2; 32]),
        preshared: &PresharedKey::new(configured),
    };
    let all = transcript(&parties, &[8; 1184], &PublicKey([3; 32]), &[9; 1088]);
    let parts: [&[u8]; 6] = [LABEL, &offerer, &[2; 32], &[8; 1184], &[3; 32], &[9; 1088]];
    assert_eq!(all, crypto::hash(&[&parts.concat()]));
    let agreed = combine(&all, &PublicKey(public), &kem, &x25519, parties.preshared);
    let [one] = kdf(&crypto::hash(&[&all, &public]), &[5; 32]);
    let [two] = kdf(one.as_slice(), &[6; 32]);
    let [preshared, mark, confirm] = kdf(two.as_slice(), &configured);
    assert_eq!(agreed.preshared, PresharedKey::new(*preshared));
    assert_eq!((agreed.mark, agreed.tag), (mark, crypto::mac(confirm.as_slice(), &[b"done"])));
    assert_eq!(VECTOR, agreed.preshared.to_base64().as_str());
}

/// The result of Python's hashlib and hmac for these values: another implementation of BLAKE2s and HMAC.
const VECTOR: &str = "CqvXTHZfjMEDJhnvdHxlMtpTbYGBlHJkXrGhi9Yx5kU=";

/// AWS-LC's ML-KEM is the other end, in both roles.
#[test]
fn ml_kem_agrees_with_aws_lc() {
    let offer = Offer::new(&Zeroizing::new([7; OFFER_SEED_LEN]));
    let key = kem::EncapsulationKey::new(&kem::ML_KEM_768, offer.encapsulation_key()).expect("a key");
    let (ciphertext, secret) = key.encapsulate().expect("encapsulates");
    let ciphertext: [u8; CIPHERTEXT_LEN] = ciphertext.as_ref().try_into().expect("a length");
    assert_eq!(offer.key.decapsulate(&ciphertext.into())[..], *secret.as_ref());

    let key = kem::DecapsulationKey::generate(&kem::ML_KEM_768).expect("a key");
    let public = key.encapsulation_key().expect("a key").key_bytes().expect("bytes");
    let public: [u8; ENCAPSULATION_KEY_LEN] = public.as_ref().try_into().expect("a length");
    let none = PresharedKey::default();
    let parties = Parties { offerer: &pair(1).public, answerer: &pair(2).public, preshared: &none };
    let made = Answer::new(&parties, pair(3), &Zeroizing::new([8; ANSWER_SEED_LEN]), &public);
    let (answer, ciphertext) = made.expect("a key");
    let secret = key.decapsulate(ciphertext.as_slice().into()).expect("decapsulates");
    assert_eq!(answer.kem.as_slice(), secret.as_ref());
}

#[test]
fn what_is_no_key_is_refused() {
    let none = PresharedKey::default();
    let keys = [pair(1).public, pair(2).public];
    let parties = Parties { offerer: &keys[0], answerer: &keys[1], preshared: &none };
    let seed = Zeroizing::new([8; ANSWER_SEED_LEN]);
    // Coefficients are below 3329 (FIPS 203, §7.2).
    assert!(Answer::new(&parties, pair(3), &seed, &[0xff; ENCAPSULATION_KEY_LEN]).is_err());
    let offer = Offer::new(&Zeroizing::new([7; OFFER_SEED_LEN]));
    let low_order = PublicKey([0; 32]);
    assert!(offer.finish(&parties, &pair(4), &low_order, &[0; CIPHERTEXT_LEN]).is_err());
    let (answer, _) = Answer::new(&parties, pair(3), &seed, offer.encapsulation_key()).expect("a key");
    assert!(answer.finish(&parties, &low_order).is_err());
}
