//! The primitives as WireGuard uses them (whitepaper §5.4): hashes, key derivation, AEADs, Diffie-Hellman.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, UnparsedPublicKey, X25519};
use blake2::digest::consts::U16;
use blake2::digest::{Digest as _, KeyInit as _, Mac as _};
use blake2::{Blake2s256, Blake2sMac};
use chacha20::{R20, hchacha};
use hmac::SimpleHmac;
use zeroize::Zeroizing;

use crate::keys::{KEY_LEN, PublicKey};

/// Bytes of a hash.
pub(crate) const HASH_LEN: usize = 32;
/// Bytes of mac1, mac2 and a cookie.
pub(crate) const MAC_LEN: usize = 16;
/// Bytes of an AEAD's tag.
pub(crate) const TAG_LEN: usize = 16;
/// Bytes of XChaCha20-Poly1305's nonce.
pub(crate) const XNONCE_LEN: usize = 24;

pub(crate) type Hash = [u8; HASH_LEN];
pub(crate) type Secret = Zeroizing<[u8; KEY_LEN]>;

/// `HASH`: BLAKE2s of the parts, one after the other.
pub(crate) fn hash(parts: &[&[u8]]) -> Hash {
    let mut hasher = Blake2s256::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

/// `MAC`: keyed BLAKE2s with 16 bytes of output. A key has at most 32 bytes; none is longer here.
pub(crate) fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; MAC_LEN] {
    let Ok(mut mac) = Blake2sMac::<U16>::new_from_slice(key) else {
        unreachable!("a key of at most 32 bytes")
    };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// `HMAC` with BLAKE2s.
fn hmac(key: &[u8], parts: &[&[u8]]) -> Secret {
    let Ok(mut mac) = SimpleHmac::<Blake2s256>::new_from_slice(key) else {
        unreachable!("HMAC takes keys of any length")
    };
    parts.iter().for_each(|part| mac.update(part));
    Zeroizing::new(mac.finalize().into_bytes().into())
}

/// `KDF`: `N` secrets (1 to 3) of a key and an input.
pub(crate) fn kdf<const N: usize>(key: &[u8], input: &[u8]) -> [Secret; N] {
    let extracted = hmac(key, &[input]);
    let mut last: Option<Secret> = None;
    std::array::from_fn(|index| {
        let before = last.as_ref().map_or(&[][..], |secret| secret.as_slice());
        let secret = hmac(extracted.as_slice(), &[before, &[index as u8 + 1]]);
        last = Some(secret.clone());
        secret
    })
}

/// An AEAD refused: the tag is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// `AEAD` with the counter 0: every key of a handshake seals once. `sealed` is as long as `plain` and a tag.
pub(crate) fn seal(key: &Secret, aad: &[u8], plain: &[u8], sealed: &mut [u8]) -> Result<(), Refused> {
    seal_with(key, [0; 12], aad, plain, sealed)
}

/// Opens a text that [`seal`] sealed. `plain` is a tag shorter than `sealed`; after an error it holds nothing of use.
pub(crate) fn open(key: &Secret, aad: &[u8], sealed: &[u8], plain: &mut [u8]) -> Result<(), Refused> {
    open_with(key, [0; 12], aad, sealed, plain)
}

/// `XAEAD`: XChaCha20-Poly1305, for cookies (draft-irtf-cfrg-xchacha §2.3).
pub(crate) fn xseal(
    key: &[u8; KEY_LEN],
    nonce: &[u8; XNONCE_LEN],
    aad: &[u8],
    plain: &[u8],
    sealed: &mut [u8],
) -> Result<(), Refused> {
    let (key, nonce) = xchacha(key, nonce);
    seal_with(&key, nonce, aad, plain, sealed)
}

/// Opens a text that [`xseal`] sealed.
pub(crate) fn xopen(
    key: &[u8; KEY_LEN],
    nonce: &[u8; XNONCE_LEN],
    aad: &[u8],
    sealed: &[u8],
    plain: &mut [u8],
) -> Result<(), Refused> {
    let (key, nonce) = xchacha(key, nonce);
    open_with(&key, nonce, aad, sealed, plain)
}

fn xchacha(key: &[u8; KEY_LEN], nonce: &[u8; XNONCE_LEN]) -> (Secret, [u8; 12]) {
    let [first @ .., a, b, c, d, e, f, g, h] = *nonce;
    let first: [u8; 16] = first;
    let key = Zeroizing::new(hchacha::<R20>(&(*key).into(), &first.into()).into());
    (key, [0, 0, 0, 0, a, b, c, d, e, f, g, h])
}

fn aead(key: &Secret) -> Result<LessSafeKey, Refused> {
    let key = UnboundKey::new(&CHACHA20_POLY1305, key.as_slice()).map_err(|_| Refused)?;
    Ok(LessSafeKey::new(key))
}

fn seal_with(
    key: &Secret,
    nonce: [u8; 12],
    aad: &[u8],
    plain: &[u8],
    sealed: &mut [u8],
) -> Result<(), Refused> {
    let (body, tag_place) = sealed.split_at_mut_checked(plain.len()).ok_or(Refused)?;
    body.copy_from_slice(plain);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = aead(key)?.seal_in_place_separate_tag(nonce, Aad::from(aad), body).map_err(|_| Refused)?;
    if tag_place.len() != TAG_LEN {
        return Err(Refused);
    }
    tag_place.copy_from_slice(tag.as_ref());
    Ok(())
}

fn open_with(
    key: &Secret,
    nonce: [u8; 12],
    aad: &[u8],
    sealed: &[u8],
    plain: &mut [u8],
) -> Result<(), Refused> {
    let (body, tag) = sealed.split_at_checked(plain.len()).ok_or(Refused)?;
    plain.copy_from_slice(body);
    let nonce = Nonce::assume_unique_for_key(nonce);
    aead(key)?.open_in_place_separate_tag(nonce, Aad::from(aad), tag, plain).map_err(|_| Refused)?;
    Ok(())
}

/// A private key with its public key.
pub(crate) struct KeyPair {
    private: agreement::PrivateKey,
    pub(crate) public: PublicKey,
}

impl KeyPair {
    /// The pair of a private key. AWS-LC clamps it.
    pub(crate) fn new(private: &[u8; KEY_LEN]) -> Result<Self, Refused> {
        let private = agreement::PrivateKey::from_private_key(&X25519, private).map_err(|_| Refused)?;
        let public = private.compute_public_key().map_err(|_| Refused)?;
        let public = PublicKey(public.as_ref().try_into().map_err(|_| Refused)?);
        Ok(KeyPair { private, public })
    }

    /// `DH`. Refused if the result is all zeros, as it is with the seven points of low order.
    pub(crate) fn agree(&self, public: &PublicKey) -> Result<Secret, Refused> {
        let public = UnparsedPublicKey::new(&X25519, &public.0);
        agreement::agree(&self.private, public, Refused, |shared| {
            let mut secret = Secret::default();
            let same = shared.len() == KEY_LEN;
            if same {
                secret.copy_from_slice(shared);
            }
            if same && *secret != [0; KEY_LEN] { Ok(secret) } else { Err(Refused) }
        })
    }
}

#[cfg(test)]
mod tests;
