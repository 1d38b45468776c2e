//! Private keys behind a password: PKCS#8 (RFC 5958 with PBES2), the older form of PEM (`Proc-Type:
//! 4,ENCRYPTED`), and PKCS#12 (RFC 7292).

use std::fmt::Write as _;

use base64ct::{Base64, Encoding};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockCipherDecrypt, BlockModeDecrypt, KeyInit, KeyIvInit};
use md5::{Digest as _, Md5};
use p12_keystore::Pkcs12Archive;
use pkcs8::EncryptedPrivateKeyInfoRef;
use thiserror::Error;
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

/// More certificates than this are no chain.
const MAX_CERTIFICATES: usize = 100;

/// How the OIDs of PKCS#12's own schemes begin (RFC 7292 appendix C, pkcs-12PbeIds), in DER.
const PKCS12_SCHEMES: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01];
/// More rounds of PBKDF2 would take minutes.
const MAX_ROUNDS: u32 = 10_000_000;
/// Most memory that scrypt may take, in bytes.
const MAX_MEMORY: u64 = 256 << 20;

/// Why a key cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LockedError {
    /// The password is not the one it was encrypted with.
    #[error("the password does not open it; check the password (`askpass FILE` reads it from a file)")]
    WrongPassword,
    /// It is encrypted in a way that adit cannot read.
    #[error(
        "it is encrypted in a way that adit cannot read ({0}); encrypt it anew: openssl pkcs8 -topk8 -v2 aes256 \
         -in KEY -out NEWKEY"
    )]
    Unsupported(String),
    /// It is not what it says it is.
    #[error("it cannot be read: {0}")]
    Malformed(String),
}

/// Whether the PEM text holds an encrypted private key.
pub fn is_locked(pem: &[u8]) -> bool {
    [&b"-----BEGIN ENCRYPTED PRIVATE KEY-----"[..], b"Proc-Type: 4,ENCRYPTED"]
        .iter()
        .any(|mark| pem.windows(mark.len()).any(|window| window == *mark))
}

/// The key as PEM text without encryption.
///
/// # Errors
/// If the password is wrong, or the text no encrypted key that adit can read.
pub fn unlock(pem: &[u8], password: &str) -> Result<Zeroizing<Vec<u8>>, LockedError> {
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

fn malformed(why: impl Into<String>) -> LockedError {
    LockedError::Malformed(why.into())
}

/// The first encrypted key in PEM text.
struct Block<'a> {
    label: &'a str,
    /// The cipher and its IV, in the older form.
    dek_info: Option<&'a str>,
    der: Zeroizing<Vec<u8>>,
}

impl<'a> Block<'a> {
    fn find(text: &'a str) -> Result<Self, LockedError> {
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

/// PEM text (RFC 7468).
fn armor(label: &str, der: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut encoded = Zeroizing::new(vec![0; Base64::encoded_len(der)]);
    // The buffer has the size that the encoding takes.
    let body = Base64::encode(der, &mut encoded).unwrap_or_default();
    let mut text = Zeroizing::new(String::with_capacity(body.len() + body.len() / 64 + 2 * label.len() + 64));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "-----BEGIN {label}-----");
    for line in body.as_bytes().chunks(64) {
        text.push_str(std::str::from_utf8(line).unwrap_or_default());
        text.push('\n');
    }
    let _ = writeln!(text, "-----END {label}-----");
    Zeroizing::new(std::mem::take(&mut *text).into_bytes())
}

fn open_pkcs8(der: &[u8], password: &str) -> Result<Zeroizing<Vec<u8>>, LockedError> {
    use pkcs8::pkcs5::pbes2::Kdf;
    use pkcs8::pkcs5::{EncryptionScheme, Error};

    let key = EncryptedPrivateKeyInfoRef::try_from(der).map_err(|error| {
        match der.windows(PKCS12_SCHEMES.len()).any(|window| window == PKCS12_SCHEMES) {
            true => LockedError::Unsupported("a scheme of PKCS#12's own".to_owned()),
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
        return Err(LockedError::Unsupported("it would take minutes to try a password".to_owned()));
    }
    match key.decrypt(password) {
        Ok(document) => Ok(Zeroizing::new(document.as_bytes().to_vec())),
        Err(pkcs8::Error::EncryptedPrivateKey(
            error @ (Error::NoPbes1CryptSupport
            | Error::UnsupportedAlgorithm { .. }
            | Error::AlgorithmParametersInvalid { .. }),
        )) => Err(LockedError::Unsupported(error.to_string())),
        // The padding was right by chance, or was not: either way another password was wanted.
        Err(_) => Err(LockedError::WrongPassword),
    }
}

/// OpenSSL's older form (PEM_read): the key is MD5 over password and salt, the salt the first 8 bytes of the
/// IV.
fn open_traditional(encrypted: &[u8], info: &str, password: &str) -> Result<Zeroizing<Vec<u8>>, LockedError> {
    let (cipher, iv) = info.split_once(',').ok_or_else(|| malformed("DEK-Info names no IV"))?;
    let iv = hexadecimal(iv.trim()).ok_or_else(|| malformed("the IV in DEK-Info is not hexadecimal"))?;
    let salt = iv.get(..8).ok_or_else(|| malformed("the IV in DEK-Info is too short"))?;
    let key = |length| derive(password, salt, length);
    let plain = match cipher.trim() {
        "AES-128-CBC" => decrypt::<aes::Aes128>(&key(16), &iv, encrypted),
        "AES-192-CBC" => decrypt::<aes::Aes192>(&key(24), &iv, encrypted),
        "AES-256-CBC" => decrypt::<aes::Aes256>(&key(32), &iv, encrypted),
        "DES-EDE3-CBC" => decrypt::<des::TdesEde3>(&key(24), &iv, encrypted),
        other => return Err(LockedError::Unsupported(other.to_owned())),
    }?;
    // A wrong key gives a right padding once in 256 times, but hardly the header of a sequence of that length.
    match is_sequence(&plain) {
        true => Ok(plain),
        false => Err(LockedError::WrongPassword),
    }
}

fn decrypt<C>(key: &[u8], iv: &[u8], encrypted: &[u8]) -> Result<Zeroizing<Vec<u8>>, LockedError>
where
    C: BlockCipherDecrypt + KeyInit,
{
    let cipher = cbc::Decryptor::<C>::new_from_slices(key, iv)
        .map_err(|_| malformed("the IV in DEK-Info has not the size that the cipher wants"))?;
    let mut plain = Zeroizing::new(encrypted.to_vec());
    let length = cipher.decrypt_padded::<Pkcs7>(&mut plain).map_err(|_| LockedError::WrongPassword)?.len();
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

/// What a PKCS#12 file holds, as PEM.
#[derive(Clone)]
pub struct Unpacked {
    /// The key's certificate, then the others in an order in which each issued the one before, as far as there
    /// is one.
    pub certificates: Vec<u8>,
    /// The private key (PKCS#8).
    pub private_key: Zeroizing<Vec<u8>>,
    /// The certificates that are not the key's own: OpenVPN trusts them as authorities unless the
    /// configuration has a `ca`.
    pub authorities: Vec<u8>,
}

/// Opens a PKCS#12 file, in DER.
///
/// # Errors
/// If the password is wrong, or there is not one key with its certificate in it.
pub fn open_pkcs12(der: &[u8], password: &str) -> Result<Unpacked, LockedError> {
    use p12_keystore::error::Error;

    let archive = Pkcs12Archive::from_pkcs12(der, password).map_err(|error| match error {
        Error::MacError(_) | Error::UnpadError | Error::Pkcs5Error(_) => LockedError::WrongPassword,
        Error::UnsupportedEncryptionScheme | Error::UnsupportedMacAlgorithm => {
            LockedError::Unsupported(error.to_string())
        }
        other => malformed(format!("it is no PKCS#12 file: {other}")),
    })?;
    let [key] = &archive.keys[..] else {
        return Err(malformed(format!("it holds {} private keys, not one", archive.keys.len())));
    };
    if archive.certs.len() > MAX_CERTIFICATES {
        return Err(malformed("it holds too many certificates"));
    }
    let id = key.local_key_id.as_ref().map(|id| &id.0);
    let own = archive.certs.iter().position(|it| id.is_some() && it.local_key_id.as_ref() == id);
    // Without marks, the first certificate that is no authority's.
    let own = own.or_else(|| archive.certs.iter().position(|it| !is_authority(it.cert.as_der())));
    let own = own.or((archive.certs.len() == 1).then_some(0));
    let Some(own) = own else { return Err(malformed("it holds no certificate for its private key")) };
    let mut others: Vec<&[u8]> = archive.certs.iter().map(|it| it.cert.as_der()).collect();
    let own = others.remove(own);
    let authorities = others.iter().flat_map(|der| armor("CERTIFICATE", der).to_vec()).collect();
    let mut certificates = Vec::new();
    let mut next = Some(own);
    while let Some(der) = next {
        certificates.extend_from_slice(&armor("CERTIFICATE", der));
        let issuer = others.iter().position(|other| issued(other, der));
        next = issuer.map(|place| others.remove(place));
    }
    Ok(Unpacked { certificates, private_key: armor("PRIVATE KEY", key.key.as_der()), authorities })
}

fn is_authority(der: &[u8]) -> bool {
    X509Certificate::from_der(der).is_ok_and(|(_, certificate)| certificate.is_ca())
}

/// Whether the name of one certificate's owner is that of the other's issuer. An authority that issued its own
/// need not be shown to the peer.
fn issued(issuer: &[u8], certificate: &[u8]) -> bool {
    let Ok((_, issuer)) = X509Certificate::from_der(issuer) else { return false };
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
    certificate.issuer() == issuer.subject() && issuer.issuer() != issuer.subject()
}

/// A PKCS#12 file as DER: the bytes themselves, or their base64 as in an inline block.
///
/// # Errors
/// If the text is no base64.
pub fn pkcs12_der(text: &str) -> Result<Zeroizing<Vec<u8>>, LockedError> {
    let joined: Zeroizing<String> = Zeroizing::new(text.split_ascii_whitespace().collect());
    Base64::decode_vec(&joined).map(Zeroizing::new).map_err(|_| malformed("its base64 is damaged"))
}
