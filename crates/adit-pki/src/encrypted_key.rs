//! Private keys that a password protects: PKCS#8 (RFC 5958 with PBES2), and OpenSSL's older form of PEM (`Proc-Type:
//! 4,ENCRYPTED`).

use base64ct::{Base64, Encoding};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockCipherDecrypt, BlockModeDecrypt, KeyInit, KeyIvInit};
use md5::{Digest as _, Md5};
use pkcs8::EncryptedPrivateKeyInfoRef;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::pem::armor;

/// How the OIDs of PKCS#12's own schemes begin (RFC 7292 appendix C, pkcs-12PbeIds), in DER.
const PKCS12_SCHEMES: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01];
/// More rounds of PBKDF2 would take minutes.
const MAX_ROUNDS: u32 = 10_000_000;
/// Most memory that scrypt may take, in bytes.
const MAX_MEMORY: u64 = 256 << 20;

/// Why a private key cannot be decrypted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncryptedKeyError {
    /// The password is not the one it was encrypted with.
    #[error("the password does not open it; check the password")]
    WrongPassword,
    /// It is encrypted in a way that adit cannot read.
    #[error(
        "it is encrypted in a way that adit cannot read ({0}); encrypt it anew: openssl pkcs8 -topk8 -v2 aes256 \
         -in KEY -out NEWKEY"
    )]
    Unsupported(String),
    /// It is damaged, or something else.
    #[error("it cannot be read: {0}")]
    Malformed(String),
}

/// Whether the PEM text holds an encrypted private key.
pub fn is_encrypted(pem: &[u8]) -> bool {
    [&b"-----BEGIN ENCRYPTED PRIVATE KEY-----"[..], b"Proc-Type: 4,ENCRYPTED"]
        .iter()
        .any(|mark| pem.windows(mark.len()).any(|window| window == *mark))
}

/// Decrypts the first encrypted private key of a PEM text, and gives it as PEM.
///
/// # Errors
/// If the password is wrong, or if there is no encrypted key of a kind that adit can read.
pub fn decrypt(pem: &[u8], password: &str) -> Result<Zeroizing<Vec<u8>>, EncryptedKeyError> {
    let text = std::str::from_utf8(pem).map_err(|_| malformed("it is no text"))?;
    let block = Block::find(text)?;
    match block.dek_info {
        None => {
            let plain = open_pkcs8(&block.der, password)?;
            Ok(armor("PRIVATE KEY", &plain))
        }
        Some(info) => {
            let plain = open_traditional(&block.der, info, password)?;
            Ok(armor(block.label, &plain))
        }
    }
}

pub(crate) fn malformed(why: impl Into<String>) -> EncryptedKeyError {
    EncryptedKeyError::Malformed(why.into())
}

/// The first encrypted key in PEM text.
struct Block<'a> {
    label: &'a str,
    /// The cipher and its IV, in the older form.
    dek_info: Option<&'a str>,
    der: Zeroizing<Vec<u8>>,
}

impl<'a> Block<'a> {
    fn find(text: &'a str) -> Result<Self, EncryptedKeyError> {
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            let label = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----"));
            let Some(label) = label.filter(|label| label.ends_with("PRIVATE KEY")) else { continue };
            let mut dek_info = None;
            let mut body = Zeroizing::new(String::with_capacity(text.len()));
            for line in lines.by_ref().take_while(|line| !line.starts_with("-----END ")) {
                match line.split_once(':') {
                    Some(("DEK-Info", value)) => dek_info = Some(value.trim()),
                    Some(_) => {}
                    None => body.push_str(line),
                }
            }
            if dek_info.is_some() || label == "ENCRYPTED PRIVATE KEY" {
                let der = Base64::decode_vec(&body).map_err(|_| malformed("its base64 is damaged"))?;
                return Ok(Block { label, dek_info, der: Zeroizing::new(der) });
            }
        }
        Err(malformed("it holds no encrypted private key"))
    }
}

fn open_pkcs8(der: &[u8], password: &str) -> Result<Zeroizing<Vec<u8>>, EncryptedKeyError> {
    use pkcs8::pkcs5::pbes2::Kdf;
    use pkcs8::pkcs5::{EncryptionScheme, Error};

    let key = EncryptedPrivateKeyInfoRef::try_from(der).map_err(|error| {
        match der.windows(PKCS12_SCHEMES.len()).any(|window| window == PKCS12_SCHEMES) {
            true => EncryptedKeyError::Unsupported("a scheme of PKCS#12's own".to_owned()),
            false => malformed(error.to_string()),
        }
    })?;
    let bearable = match &key.encryption_algorithm {
        EncryptionScheme::Pbes2(parameters) => match &parameters.kdf {
            Kdf::Pbkdf2(kdf) => kdf.iteration_count <= MAX_ROUNDS,
            Kdf::Scrypt(kdf) => {
                kdf.cost_parameter.saturating_mul(u64::from(kdf.block_size) * 128) <= MAX_MEMORY
                    && kdf.parallelization <= 16
            }
            _ => true,
        },
        _ => true,
    };
    if !bearable {
        return Err(EncryptedKeyError::Unsupported("it would take minutes to try a password".to_owned()));
    }
    match key.decrypt(password) {
        Ok(document) => Ok(Zeroizing::new(document.as_bytes().to_vec())),
        Err(pkcs8::Error::EncryptedPrivateKey(
            error @ (Error::NoPbes1CryptSupport
            | Error::UnsupportedAlgorithm { .. }
            | Error::AlgorithmParametersInvalid { .. }),
        )) => Err(EncryptedKeyError::Unsupported(error.to_string())),
        // The padding was right by chance, or was not: either way another password was wanted.
        Err(_) => Err(EncryptedKeyError::WrongPassword),
    }
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
    let key = |length| derive(password, salt, length);
    let plain = match cipher.trim() {
        "AES-128-CBC" => decrypt_cbc::<aes::Aes128>(&key(16), &iv, encrypted),
        "AES-192-CBC" => decrypt_cbc::<aes::Aes192>(&key(24), &iv, encrypted),
        "AES-256-CBC" => decrypt_cbc::<aes::Aes256>(&key(32), &iv, encrypted),
        "DES-EDE3-CBC" => decrypt_cbc::<des::TdesEde3>(&key(24), &iv, encrypted),
        other => return Err(EncryptedKeyError::Unsupported(other.to_owned())),
    }?;
    // A wrong key gives a right padding once in 256 times, but hardly the header of a sequence of that length.
    match is_sequence(&plain) {
        true => Ok(plain),
        false => Err(EncryptedKeyError::WrongPassword),
    }
}

fn decrypt_cbc<C>(key: &[u8], iv: &[u8], encrypted: &[u8]) -> Result<Zeroizing<Vec<u8>>, EncryptedKeyError>
where
    C: BlockCipherDecrypt + KeyInit,
{
    let cipher = cbc::Decryptor::<C>::new_from_slices(key, iv)
        .map_err(|_| malformed("the IV in DEK-Info has not the size that the cipher wants"))?;
    let mut plain = Zeroizing::new(encrypted.to_vec());
    let length =
        cipher.decrypt_padded::<Pkcs7>(&mut plain).map_err(|_| EncryptedKeyError::WrongPassword)?.len();
    plain.truncate(length);
    Ok(plain)
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

/// Whether the bytes are one DER sequence and nothing after it.
fn is_sequence(der: &[u8]) -> bool {
    let [0x30, length, rest @ ..] = der else { return false };
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81..=0x84 => {
            let count = usize::from(length & 0x7f);
            let Some((bytes, rest)) = rest.split_at_checked(count) else { return false };
            (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return false,
    };
    rest.len() == length
}
