//! Private keys that a password protects: PKCS#8 (RFC 5958 with PBES2), and OpenSSL's older form of PEM (`Proc-Type:
//! 4,ENCRYPTED`).

use adit_core::printable;
use md5::{Digest as _, Md5};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::der_values::{Values, tag};
use crate::object_names::short_name;
use crate::pbe::{self, CbcKey};
use crate::pem::armor;
use crate::pem_block::KeyBlock;

/// How a key gets a cipher that adit reads.
const ENCRYPT_ANEW: &str = "encrypt it anew: openssl pkey -in KEY -aes256 -out NEWKEY (if openssl does not know the cipher either: \
     openssl pkey -provider default -provider legacy -in KEY -aes256 -out NEWKEY)";

/// How a PKCS#12 file gets a cipher that adit reads.
const PACK_ANEW: &str = "make it anew: openssl pkcs12 -in FILE -nodes -out ALL.pem, then openssl pkcs12 -export -in ALL.pem \
     -out NEWFILE (with -legacy in the first, if openssl does not know the cipher either)";

/// Why a private key cannot be decrypted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncryptedKeyError {
    /// The password is not the one it was encrypted with.
    #[error("the password does not open it; check the password")]
    WrongPassword,
    /// The key is encrypted in a way that adit cannot read.
    #[error("it is encrypted by {0}, which adit cannot read; {ENCRYPT_ANEW}")]
    Unsupported(String),
    /// The key is in a PKCS#12 file that is encrypted in a way that adit cannot read.
    #[error("it is encrypted by {0}, which adit cannot read; {PACK_ANEW}")]
    UnsupportedContainer(String),
    /// The key is in a PKCS#12 file without a part that is needed, or in no such file.
    #[error("it cannot be used as PKCS#12: {0}; {PACK_ANEW}")]
    Container(String),
    /// The key is damaged, or something else.
    #[error("it cannot be read: {0}")]
    Malformed(String),
}

/// Whether the first private key of a PEM text is encrypted.
pub fn is_encrypted(pem: &[u8]) -> bool {
    KeyBlock::find(pem).is_some_and(|block| block.is_encrypted())
}

/// Decrypts the first private key of a PEM text, and gives it as PEM.
///
/// # Errors
/// If the password is wrong, or if there is no encrypted key of a kind that adit can read.
pub fn decrypt(pem: &[u8], password: &str) -> Result<Zeroizing<Vec<u8>>, EncryptedKeyError> {
    let block = KeyBlock::find(pem).filter(KeyBlock::is_encrypted);
    let block = block.ok_or_else(|| malformed("it holds no encrypted private key"))?;
    let der = block.der.as_ref().ok_or_else(|| malformed("its base64 is damaged"))?;
    match block.dek_info.filter(|_| block.label != "ENCRYPTED PRIVATE KEY") {
        None => Ok(armor("PRIVATE KEY", &pbe::open(der, password)?)),
        Some(info) => Ok(armor(block.label, &open_traditional(der, info, password)?)),
    }
}

pub(crate) fn malformed(why: impl Into<String>) -> EncryptedKeyError {
    EncryptedKeyError::Malformed(why.into())
}

/// The scheme with this dotted OID cannot be read.
pub(crate) fn unsupported(oid: &str) -> EncryptedKeyError {
    EncryptedKeyError::Unsupported(short_name(oid).unwrap_or(oid).to_owned())
}

/// OpenSSL's older form (PEM_read): the key is MD5 over password and salt, the salt the first 8 bytes of the
/// IV.
fn open_traditional(
    encrypted: &[u8],
    info: &str,
    password: &str,
) -> Result<Zeroizing<Vec<u8>>, EncryptedKeyError> {
    let (cipher, iv) = info.split_once(',').ok_or_else(|| malformed("DEK-Info names no IV"))?;
    let iv = hexadecimal(iv.trim()).ok_or_else(|| malformed("the IV in DEK-Info is not hexadecimal"))?;
    let salt = iv.get(..8).ok_or_else(|| malformed("the IV in DEK-Info is too short"))?;
    let key = |length| CbcKey { key: derive(password, salt, length), iv: Zeroizing::new(iv.clone()) };
    let plain = match cipher.trim() {
        "AES-128-CBC" => key(16).open::<aes::Aes128>(encrypted),
        "AES-192-CBC" => key(24).open::<aes::Aes192>(encrypted),
        "AES-256-CBC" => key(32).open::<aes::Aes256>(encrypted),
        "DES-EDE3-CBC" => key(24).open::<des::TdesEde3>(encrypted),
        "DES-CBC" => key(8).open::<des::Des>(encrypted),
        other => return Err(EncryptedKeyError::Unsupported(printable(other))),
    }?;
    // A wrong key gives a right padding once in 256 times, but hardly the header of a sequence of that length.
    match Values::inside(tag::SEQUENCE, &plain) {
        Some(_) => Ok(plain),
        None => Err(EncryptedKeyError::WrongPassword),
    }
}

/// OpenSSL's `EVP_BytesToKey` with MD5 and one round.
fn derive(password: &str, salt: &[u8], length: usize) -> Zeroizing<Vec<u8>> {
    let mut key = Zeroizing::new(Vec::with_capacity(length + 16));
    let mut last: Zeroizing<Vec<u8>> = Zeroizing::default();
    while key.len() < length {
        let digest = Md5::new().chain_update(&*last).chain_update(password).chain_update(salt).finalize();
        last = Zeroizing::new(digest.to_vec());
        key.extend_from_slice(&last);
    }
    key.truncate(length);
    key
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
