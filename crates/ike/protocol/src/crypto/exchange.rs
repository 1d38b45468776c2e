//! Key exchanges: Diffie-Hellman on curves (RFC 5903, RFC 8031) and in finite fields (RFC 3526), and ML-KEM (FIPS 203).

use std::fmt;

use aws_lc_rs::agreement::{self, ECDH_P256, ECDH_P384, ECDH_P521, UnparsedPublicKey, X25519};
use ml_kem::kem::{Decapsulate as _, KeyExport as _};
use ml_kem::{ml_kem_768, ml_kem_1024};
use thiserror::Error;
use zeroize::{Zeroize as _, Zeroizing};

use super::modp;
use super::prf::Secret;
use crate::suite::Group;

/// The byte in front of both coordinates of a point, which KE payloads leave out (RFC 5903 section 7).
const UNCOMPRESSED: u8 = 4;
/// Most draws of a private key. At most about one draw in 2^32 is out of range.
const MOST_DRAWS: usize = 64;

/// The reason why a key exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ExchangeError {
    /// The peer's value has the wrong length.
    #[error("{found} bytes, {expected} are right for {}", .group.keyword())]
    Length {
        /// The method.
        group: Group,
        /// Bytes that came.
        found: usize,
        /// Bytes that are right.
        expected: usize,
    },
    /// The peer's value is no public key, or gives a secret of zeros.
    #[error("no public key of {}", .0.keyword())]
    Value(Group),
    /// The random bytes gave no private key.
    #[error("no private key of {}", .0.keyword())]
    PrivateKey(Group),
}

/// The initiator's half of a key exchange.
pub struct KeyShare {
    group: Group,
    private: Private,
    public: Vec<u8>,
}

enum Private {
    Curve(Box<agreement::PrivateKey>),
    Modp(Secret),
    MlKem768(Box<ml_kem_768::DecapsulationKey>),
    MlKem1024(Box<ml_kem_1024::DecapsulationKey>),
}

impl fmt::Debug for KeyShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyShare").field("group", &self.group).finish_non_exhaustive()
    }
}

impl KeyShare {
    /// A fresh half. `fill` gives secret random bytes.
    ///
    /// # Errors
    /// [`ExchangeError::PrivateKey`].
    pub fn new(group: Group, fill: &mut dyn FnMut(&mut [u8])) -> Result<Self, ExchangeError> {
        let (private, public) = match group {
            Group::P256 | Group::P384 | Group::P521 | Group::X25519 => {
                let (private, public) = curve_pair(group, fill)?;
                (Private::Curve(Box::new(private)), public)
            }
            Group::Modp2048 | Group::Modp3072 | Group::Modp4096 => {
                let modp::Pair { private, public } = modp::pair(group, fill)?;
                (Private::Modp(private), public)
            }
            Group::MlKem768 => {
                let mut seed = kem_seed(fill);
                let key = Box::new(ml_kem_768::DecapsulationKey::from_seed(seed));
                seed.as_mut_slice().zeroize();
                let public = key.encapsulation_key().to_bytes().to_vec();
                (Private::MlKem768(key), public)
            }
            Group::MlKem1024 => {
                let mut seed = kem_seed(fill);
                let key = Box::new(ml_kem_1024::DecapsulationKey::from_seed(seed));
                seed.as_mut_slice().zeroize();
                let public = key.encapsulation_key().to_bytes().to_vec();
                (Private::MlKem1024(key), public)
            }
        };
        Ok(KeyShare { group, private, public })
    }

    /// The method.
    pub const fn group(&self) -> Group {
        self.group
    }

    /// The public value, for the KE payload.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// The shared secret, computed from the responder's public value. An ML-KEM ciphertext that was not made for this key gives a
    /// secret that the responder does not have (FIPS 203, algorithm 18).
    ///
    /// # Errors
    /// The answer is of the wrong length, or no public key.
    pub fn finish(&self, answer: &[u8]) -> Result<Secret, ExchangeError> {
        let group = self.group;
        check_length(group, answer.len(), group.responder_len())?;
        let refused = ExchangeError::Value(group);
        match &self.private {
            Private::Curve(private) => curve_agree(group, private, answer),
            Private::Modp(private) => modp::agree(group, private, answer),
            Private::MlKem768(key) => {
                let mut shared = key.decapsulate(&answer.try_into().map_err(|_| refused)?);
                Ok(take_secret(shared.as_mut_slice()))
            }
            Private::MlKem1024(key) => {
                let mut shared = key.decapsulate(&answer.try_into().map_err(|_| refused)?);
                Ok(take_secret(shared.as_mut_slice()))
            }
        }
    }
}

/// The responder's half of a key exchange: the value for its KE payload, and the shared secret.
///
/// # Errors
/// The initiator's value is of the wrong length, or no public key.
pub fn answer_exchange(
    group: Group,
    offered: &[u8],
    fill: &mut dyn FnMut(&mut [u8]),
) -> Result<(Vec<u8>, Secret), ExchangeError> {
    check_length(group, offered.len(), group.initiator_len())?;
    let refused = ExchangeError::Value(group);
    match group {
        Group::P256 | Group::P384 | Group::P521 | Group::X25519 => {
            let (private, public) = curve_pair(group, fill)?;
            Ok((public, curve_agree(group, &private, offered)?))
        }
        Group::Modp2048 | Group::Modp3072 | Group::Modp4096 => {
            let modp::Pair { private, public } = modp::pair(group, fill)?;
            Ok((public, modp::agree(group, &private, offered)?))
        }
        Group::MlKem768 => {
            let key = ml_kem_768::EncapsulationKey::new(&offered.try_into().map_err(|_| refused)?);
            let mut message = kem_message(fill);
            let (answer, mut shared) = key.map_err(|_| refused)?.encapsulate_deterministic(&message);
            message.as_mut_slice().zeroize();
            Ok((answer.to_vec(), take_secret(shared.as_mut_slice())))
        }
        Group::MlKem1024 => {
            let key = ml_kem_1024::EncapsulationKey::new(&offered.try_into().map_err(|_| refused)?);
            let mut message = kem_message(fill);
            let (answer, mut shared) = key.map_err(|_| refused)?.encapsulate_deterministic(&message);
            message.as_mut_slice().zeroize();
            Ok((answer.to_vec(), take_secret(shared.as_mut_slice())))
        }
    }
}

const fn check_length(group: Group, found: usize, expected: usize) -> Result<(), ExchangeError> {
    if found == expected { Ok(()) } else { Err(ExchangeError::Length { group, found, expected }) }
}

fn take_secret(shared: &mut [u8]) -> Secret {
    let secret = Zeroizing::new(shared.to_vec());
    shared.zeroize();
    secret
}

/// `d` and `z` (FIPS 203, algorithm 19).
fn kem_seed(fill: &mut dyn FnMut(&mut [u8])) -> ml_kem::Seed {
    let mut seed = Zeroizing::new([0; 64]);
    fill(seed.as_mut_slice());
    (*seed).into()
}

/// `m` (FIPS 203, algorithm 20).
fn kem_message(fill: &mut dyn FnMut(&mut [u8])) -> ml_kem::B32 {
    let mut message = Zeroizing::new([0; 32]);
    fill(message.as_mut_slice());
    (*message).into()
}

/// The algorithm, and the bytes of a private key.
fn curve(group: Group) -> (&'static agreement::Algorithm, usize) {
    match group {
        Group::P384 => (&ECDH_P384, 48),
        Group::P521 => (&ECDH_P521, 66),
        Group::X25519 => (&X25519, 32),
        Group::P256
        | Group::Modp2048
        | Group::Modp3072
        | Group::Modp4096
        | Group::MlKem768
        | Group::MlKem1024 => (&ECDH_P256, 32),
    }
}

fn curve_pair(
    group: Group,
    fill: &mut dyn FnMut(&mut [u8]),
) -> Result<(agreement::PrivateKey, Vec<u8>), ExchangeError> {
    let (algorithm, length) = curve(group);
    let mut bytes = Zeroizing::new(vec![0; length]);
    for _ in 0..MOST_DRAWS {
        fill(&mut bytes);
        if group == Group::P521
            && let Some(first) = bytes.first_mut()
        {
            // The order of P-521 has 521 bits, 66 bytes have 528.
            *first &= 1;
        }
        let Ok(private) = agreement::PrivateKey::from_private_key(algorithm, &bytes) else { continue };
        let Ok(public) = private.compute_public_key() else { continue };
        let public = public.as_ref();
        let public = if group == Group::X25519 { public } else { public.get(1..).unwrap_or_default() };
        return Ok((private, public.to_vec()));
    }
    Err(ExchangeError::PrivateKey(group))
}

/// The shared secret of a curve. AWS-LC checks that the point is on the curve, and refuses a secret of zeros, which points of X25519
/// of low order give (RFC 7748 section 6.1, RFC 8031 section 3.1).
fn curve_agree(
    group: Group,
    private: &agreement::PrivateKey,
    public: &[u8],
) -> Result<Secret, ExchangeError> {
    let (algorithm, _) = curve(group);
    let point = match group {
        Group::X25519 => public.to_vec(),
        _ => [&[UNCOMPRESSED], public].concat(),
    };
    let refused = ExchangeError::Value(group);
    let public = UnparsedPublicKey::new(algorithm, &point);
    agreement::agree(private, public, refused, |shared| Ok(Zeroizing::new(shared.to_vec())))
}
