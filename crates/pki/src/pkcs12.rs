//! PKCS#12 files (RFC 7292): a private key, its certificate and those of its issuers behind one password.

use base64ct::{Base64, Encoding};
use p12_keystore::{
    EncryptionAlgorithm, KeyStore, KeyStoreEntry, MacAlgorithm, Pkcs12Archive, PrivateKeyChain,
};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use crate::der_values::{dotted, tag};
use crate::encrypted_key::{EncryptedKeyError, malformed};
use crate::object_names::short_name;
use crate::pem::armor;

/// Most certificates that a file may hold: more than any chain has.
const MAX_CERTIFICATES: usize = 100;

/// Rounds of the derivation of keys in files that are made, as OpenSSL's `pkcs12 -legacy` has them. The password is random.
const ROUNDS: u32 = 2048;

/// The schemes of PKCS#5 and PKCS#12, and ciphers besides AES and 3DES: Camellia, SEED, ARIA, RC2 and RC4.
const UNREAD_ARCS: [&str; 7] = [
    "1.2.840.113549.1.5.",
    "1.2.840.113549.1.12.1.",
    "1.2.392.200011.61.1.1.1.",
    "1.2.410.200004.1.",
    "1.2.410.200046.1.1.",
    "1.2.840.113549.3.2",
    "1.2.840.113549.3.4",
];
/// Schemes among these that are read: PBKDF2, PBES2, PBE-SHA1-3DES and PBE-SHA1-RC2-40.
const READ_SCHEMES: [&str; 4] =
    ["1.2.840.113549.1.5.12", "1.2.840.113549.1.5.13", "1.2.840.113549.1.12.1.3", "1.2.840.113549.1.12.1.6"];

/// The content of a PKCS#12 file, as PEM.
#[derive(Clone)]
pub struct Contents {
    /// The key's certificate, then the others in an order in which each issued the one before, as far as there
    /// is one.
    pub certificates: Vec<u8>,
    /// The private key (PKCS#8).
    pub private_key: Zeroizing<Vec<u8>>,
    /// The certificates that are not the key's own. OpenVPN trusts them as authorities unless its configuration names
    /// others.
    pub authorities: Vec<u8>,
}

/// Opens a PKCS#12 file, in DER.
///
/// # Errors
/// If the password is wrong, or there is not one key with its certificate in it.
pub fn open(der: &[u8], password: &str) -> Result<Contents, EncryptedKeyError> {
    use p12_keystore::error::Error;

    let archive = Pkcs12Archive::from_pkcs12(der, password).map_err(|error| match error {
        Error::MacError(_) | Error::UnpadError => EncryptedKeyError::WrongPassword,
        error => match unread_scheme(der) {
            Some(oid) => EncryptedKeyError::UnsupportedContainer(short_name(&oid).map_or(oid, str::to_owned)),
            None if matches!(error, Error::Pkcs5Error(_)) => EncryptedKeyError::WrongPassword,
            None => container(error.to_string()),
        },
    })?;
    let [key] = &archive.keys[..] else {
        return Err(container(format!("it holds {} private keys, not one", archive.keys.len())));
    };
    if archive.certs.len() > MAX_CERTIFICATES {
        return Err(container("it holds too many certificates"));
    }
    let id = key.local_key_id.as_ref().map(|id| &id.0);
    let own = archive.certs.iter().position(|it| id.is_some() && it.local_key_id.as_ref() == id);
    // Without marks, the first certificate that is no authority's.
    let own = own.or_else(|| archive.certs.iter().position(|it| !is_authority(it.cert.as_der())));
    let own = own.or((archive.certs.len() == 1).then_some(0));
    let Some(own) = own else { return Err(container("it holds no certificate for its private key")) };
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
    Ok(Contents { certificates, private_key: armor("PRIVATE KEY", key.key.as_der()), authorities })
}

/// A PKCS#12 file in DER with a certificate and its private key, both PEM, under a password. Both are encrypted by PBE-SHA1-3DES (RFC 7292
/// appendix C) and authenticated by HMAC-SHA1, the only forms that Apple's devices and Windows before version 1709 import.
///
/// # Errors
/// If the certificate or the key cannot be read.
pub fn seal(certificate: &str, private_key: &str, password: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    let der = crate::pem::certificates(certificate.as_bytes()).map_err(|error| error.to_string())?;
    let own = der.first().ok_or("there is no certificate")?;
    let key = PrivateKeyDer::from_pem_slice(private_key.as_bytes()).map_err(|error| error.to_string())?;
    let failed = |error: p12_keystore::error::Error| error.to_string();
    let key = p12_keystore::PrivateKey::from_der(key.secret_der()).map_err(failed)?;
    let own = p12_keystore::Certificate::from_der(own).map_err(failed)?;
    let mut store = KeyStore::new();
    // The mark joins the key with its certificate.
    let chain = PrivateKeyChain::new(&b"1"[..], key, [own]);
    store.add_entry("key", KeyStoreEntry::PrivateKeyChain(chain));
    let writer =
        store.writer(password).encryption_algorithm(EncryptionAlgorithm::PbeWithShaAnd3KeyTripleDesCbc);
    let writer =
        writer.encryption_iterations(ROUNDS).mac_algorithm(MacAlgorithm::HmacSha1).mac_iterations(ROUNDS);
    writer.write().map(Zeroizing::new).map_err(failed)
}

fn container(why: impl Into<String>) -> EncryptedKeyError {
    EncryptedKeyError::Container(why.into())
}

/// The dotted OID of a scheme in the file by which p12-keystore reads nothing, if there is one.
fn unread_scheme(der: &[u8]) -> Option<String> {
    // Encoded object identifiers stand in the clear. A byte string that looks like one only changes the text of an
    // error.
    let oids = der.windows(2).enumerate().filter(|(_, header)| header[0] == tag::OBJECT_IDENTIFIER);
    let oids = oids.filter_map(|(place, header)| der.get(place + 2..place + 2 + usize::from(header[1])));
    oids.map(dotted).find(|oid| {
        let is_scheme = UNREAD_ARCS.iter().any(|arc| oid.starts_with(arc));
        is_scheme && !READ_SCHEMES.contains(&oid.as_str())
    })
}

fn is_authority(der: &[u8]) -> bool {
    X509Certificate::from_der(der).is_ok_and(|(_, certificate)| certificate.is_ca())
}

/// Whether the name of the owner of `issuer` is that of the issuer of `certificate`. An authority that issued its own
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
pub fn decode_base64(text: &str) -> Result<Zeroizing<Vec<u8>>, EncryptedKeyError> {
    let joined: Zeroizing<String> = Zeroizing::new(text.split_ascii_whitespace().collect());
    Base64::decode_vec(&joined).map(Zeroizing::new).map_err(|_| malformed("its base64 is damaged"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issue::{Authority, Serial};
    use crate::purpose::Purpose;

    #[test]
    fn what_is_sealed_is_opened_with_its_password_alone_and_has_the_forms_that_apple_takes() {
        let now = time::OffsetDateTime::UNIX_EPOCH;
        let serial = Serial::from_random([1; 16]);
        let authority = Authority::create("an authority", &serial, now).unwrap();
        let issued = authority.issue(Purpose::Client, "anna", &serial, now).unwrap();
        let sealed = seal(&issued.certificate, &issued.key, "a password").unwrap();
        let opened = open(&sealed, "a password").unwrap();
        assert_eq!(opened.certificates, issued.certificate.replace("\r\n", "\n").into_bytes());
        let private_key = String::from_utf8(opened.private_key.to_vec()).unwrap();
        assert_eq!(private_key, issued.key.replace("\r\n", "\n"));
        assert!(matches!(open(&sealed, "another"), Err(EncryptedKeyError::WrongPassword)));
        // The encoded object identifiers of PBE-SHA1-3DES, twice, and of SHA-1.
        let count = |wanted: &[u8]| sealed.windows(wanted.len()).filter(|part| *part == wanted).count();
        assert_eq!(count(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01, 0x03]), 2);
        assert_eq!(count(&[0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a]), 1);
    }
}
