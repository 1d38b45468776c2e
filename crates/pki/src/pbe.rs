//! Password-based encryption as PKCS#8 names it: PBES1 (RFC 8018 §6.1), PKCS#12's own schemes (RFC 7292 appendix C) and PBES2
//! (RFC 8018 §6.2).

use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockCipherDecrypt, BlockModeDecrypt, KeyInit, KeyIvInit};
use md5::{Digest, Md5};
use pkcs8::pkcs5::{Error as Pkcs5Error, pbes2};
use pkcs12::kdf::{Pkcs12KeyType, derive_key_utf8};
use sha1::Sha1;
use zeroize::Zeroizing;

use crate::der_values::{Values, dotted, tag};
use crate::encrypted_key::{EncryptedKeyError, malformed, unsupported};

/// More rounds would take minutes.
const MAX_ROUNDS: u32 = 10_000_000;
/// Most memory that scrypt may take, in bytes.
const MAX_MEMORY: u64 = 256 << 20;
const PBES2: &str = "1.2.840.113549.1.5.13";

/// Decrypts an EncryptedPrivateKeyInfo (RFC 5958 §3).
pub(crate) fn open(der: &[u8], password: &str) -> Result<Zeroizing<Vec<u8>>, EncryptedKeyError> {
    let damaged = || malformed("it is damaged or incomplete");
    let mut fields = Values::inside(tag::SEQUENCE, der).ok_or_else(damaged)?;
    let mut algorithm = Values::new(fields.take(tag::SEQUENCE).ok_or_else(damaged)?.content);
    let encrypted = fields.take(tag::OCTET_STRING).ok_or_else(damaged)?.content;
    let oid = dotted(algorithm.take(tag::OBJECT_IDENTIFIER).ok_or_else(damaged)?.content);
    let parameters = algorithm.take(tag::SEQUENCE).ok_or_else(damaged)?;
    if oid == PBES2 {
        return open_pbes2(parameters.whole, encrypted, password);
    }
    let scheme = Scheme::of(&oid).ok_or_else(|| unsupported(&oid))?;
    let mut parameters = Values::new(parameters.content);
    let salt = parameters.take(tag::OCTET_STRING).ok_or_else(damaged)?.content;
    let rounds = parameters.take(tag::INTEGER).and_then(|it| rounds(it.content)).ok_or_else(damaged)?;
    if rounds > MAX_ROUNDS {
        return Err(too_slow());
    }
    let plain = scheme.open(&Protection { password, salt, rounds }, encrypted)?;
    // A wrong key gives a right padding once in 256 times, but hardly a sequence of that length.
    Values::inside(tag::SEQUENCE, &plain).ok_or(EncryptedKeyError::WrongPassword)?;
    Ok(plain)
}

fn too_slow() -> EncryptedKeyError {
    malformed("it would take minutes to try a password")
}

/// A positive number of rounds.
fn rounds(integer: &[u8]) -> Option<u32> {
    let digits = integer.strip_prefix(&[0]).unwrap_or(integer);
    let number = digits.iter().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
    (digits.len() <= 4 && number > 0).then_some(number)
}

/// The password and the other values that keys are derived from.
struct Protection<'a> {
    password: &'a str,
    salt: &'a [u8],
    rounds: u32,
}

/// The schemes whose cipher and digest one OID names.
enum Scheme {
    Md5Des,
    Sha1Des,
    Md5Rc2,
    Sha1Rc2,
    ThreeDes,
    TwoDes,
    Rc2Long,
    Rc2Short,
}

impl Scheme {
    fn of(oid: &str) -> Option<Self> {
        Some(match oid {
            "1.2.840.113549.1.5.3" => Scheme::Md5Des,
            "1.2.840.113549.1.5.6" => Scheme::Md5Rc2,
            "1.2.840.113549.1.5.10" => Scheme::Sha1Des,
            "1.2.840.113549.1.5.11" => Scheme::Sha1Rc2,
            "1.2.840.113549.1.12.1.3" => Scheme::ThreeDes,
            "1.2.840.113549.1.12.1.4" => Scheme::TwoDes,
            "1.2.840.113549.1.12.1.5" => Scheme::Rc2Long,
            "1.2.840.113549.1.12.1.6" => Scheme::Rc2Short,
            _ => return None,
        })
    }

    fn open(&self, with: &Protection<'_>, encrypted: &[u8]) -> Result<Zeroizing<Vec<u8>>, EncryptedKeyError> {
        match self {
            Scheme::Md5Des => pbkdf1::<Md5>(with).open::<des::Des>(encrypted),
            Scheme::Sha1Des => pbkdf1::<Sha1>(with).open::<des::Des>(encrypted),
            Scheme::Md5Rc2 => pbkdf1::<Md5>(with).open::<rc2::Rc2>(encrypted),
            Scheme::Sha1Rc2 => pbkdf1::<Sha1>(with).open::<rc2::Rc2>(encrypted),
            Scheme::ThreeDes => pkcs12(with, 24)?.open::<des::TdesEde3>(encrypted),
            Scheme::TwoDes => pkcs12(with, 16)?.open::<des::TdesEde2>(encrypted),
            Scheme::Rc2Long => pkcs12(with, 16)?.open::<rc2::Rc2>(encrypted),
            Scheme::Rc2Short => pkcs12(with, 5)?.open::<rc2::Rc2>(encrypted),
        }
    }
}

/// A key and an IV.
pub(crate) struct CbcKey {
    pub(crate) key: Zeroizing<Vec<u8>>,
    pub(crate) iv: Zeroizing<Vec<u8>>,
}

impl CbcKey {
    /// Decrypts bytes that were encrypted with that cipher.
    pub(crate) fn open<C: BlockCipherDecrypt + KeyInit>(
        &self,
        encrypted: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, EncryptedKeyError> {
        let cipher = cbc::Decryptor::<C>::new_from_slices(&self.key, &self.iv)
            .map_err(|_| malformed("its IV has not the size that the cipher wants"))?;
        let mut plain = Zeroizing::new(encrypted.to_vec());
        let length =
            cipher.decrypt_padded::<Pkcs7>(&mut plain).map_err(|_| EncryptedKeyError::WrongPassword)?.len();
        plain.truncate(length);
        Ok(plain)
    }
}

/// PBKDF1 (RFC 8018 §5.1): the first 8 bytes are the key, the next 8 the IV.
fn pbkdf1<D: Digest>(with: &Protection<'_>) -> CbcKey {
    let first = D::new().chain_update(with.password).chain_update(with.salt).finalize();
    let mut digest = Zeroizing::new(first.to_vec());
    for _ in 1..with.rounds {
        digest = Zeroizing::new(D::digest(&*digest).to_vec());
    }
    let (key, rest) = digest.split_at(8);
    CbcKey { key: Zeroizing::new(key.to_vec()), iv: Zeroizing::new(rest[..8].to_vec()) }
}

/// The key derivation of PKCS#12 (RFC 7292 appendix B).
fn pkcs12(with: &Protection<'_>, length: usize) -> Result<CbcKey, EncryptedKeyError> {
    if with.salt.is_empty() {
        return Err(malformed("its salt is empty"));
    }
    let rounds = i32::try_from(with.rounds).map_err(|_| too_slow())?;
    let derive = |purpose, length| {
        let key = derive_key_utf8::<Sha1>(with.password, with.salt, purpose, rounds, length);
        // A character beyond the basic plane fits no BMPString.
        key.map(Zeroizing::new).map_err(|_| EncryptedKeyError::WrongPassword)
    };
    Ok(CbcKey { key: derive(Pkcs12KeyType::EncryptionKey, length)?, iv: derive(Pkcs12KeyType::Iv, 8)? })
}

fn open_pbes2(
    parameters: &[u8],
    encrypted: &[u8],
    password: &str,
) -> Result<Zeroizing<Vec<u8>>, EncryptedKeyError> {
    use pkcs8::der::Decode as _;

    let parsed = pbes2::Parameters::from_der(parameters).map_err(|_| match cipher(parameters) {
        Some(oid) => unsupported(&oid),
        None => malformed("it is damaged or incomplete"),
    })?;
    let is_bearable = match &parsed.kdf {
        pbes2::Kdf::Pbkdf2(kdf) => kdf.iteration_count <= MAX_ROUNDS,
        pbes2::Kdf::Scrypt(kdf) => {
            kdf.cost_parameter.saturating_mul(u64::from(kdf.block_size) * 128) <= MAX_MEMORY
                && kdf.parallelization <= 16
        }
        _ => true,
    };
    if !is_bearable {
        return Err(too_slow());
    }
    match parsed.decrypt(password, encrypted) {
        Ok(plain) => Ok(Zeroizing::new(plain)),
        Err(Pkcs5Error::UnsupportedAlgorithm { oid } | Pkcs5Error::AlgorithmParametersInvalid { oid }) => {
            Err(unsupported(&oid.to_string()))
        }
        // The padding was right by chance, or was not: either way another password was wanted.
        Err(_) => Err(EncryptedKeyError::WrongPassword),
    }
}

/// The cipher's OID in PBES2-params.
fn cipher(parameters: &[u8]) -> Option<String> {
    let mut fields = Values::inside(tag::SEQUENCE, parameters)?;
    fields.take(tag::SEQUENCE)?;
    let mut cipher = Values::new(fields.take(tag::SEQUENCE)?.content);
    Some(dotted(cipher.take(tag::OBJECT_IDENTIFIER)?.content))
}
