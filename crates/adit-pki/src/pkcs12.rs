//! PKCS#12 files (RFC 7292): a private key, its certificate and those of its issuers behind one password.

use base64ct::{Base64, Encoding};
use p12_keystore::Pkcs12Archive;
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use crate::encrypted_key::{EncryptedKeyError, malformed};
use crate::pem::armor;

/// Most certificates that a file may hold: more than any chain has.
const MAX_CERTIFICATES: usize = 100;

/// What a PKCS#12 file holds, as PEM.
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
        Error::MacError(_) | Error::UnpadError | Error::Pkcs5Error(_) => EncryptedKeyError::WrongPassword,
        Error::UnsupportedEncryptionScheme | Error::UnsupportedMacAlgorithm => {
            EncryptedKeyError::Unsupported(error.to_string())
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
    Ok(Contents { certificates, private_key: armor("PRIVATE KEY", key.key.as_der()), authorities })
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
pub fn decode_base64(text: &str) -> Result<Zeroizing<Vec<u8>>, EncryptedKeyError> {
    let joined: Zeroizing<String> = Zeroizing::new(text.split_ascii_whitespace().collect());
    Base64::decode_vec(&joined).map(Zeroizing::new).map_err(|_| malformed("its base64 is damaged"))
}
