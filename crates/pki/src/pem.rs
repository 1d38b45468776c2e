//! Certificates in PEM text (RFC 7468).

use std::fmt::Write as _;

use base64ct::{Base64, Encoding};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use thiserror::Error;
use zeroize::Zeroizing;

/// Why PEM text does not hold what it should.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PemError {
    /// The text is no PEM text.
    #[error("not valid PEM: {0}")]
    Malformed(String),
    /// The text has no certificate.
    #[error("holds no certificate; a \"-----BEGIN CERTIFICATE-----\" block is expected")]
    NoCertificate,
}

/// The certificates of a PEM text, in their order; at least one.
///
/// # Errors
/// If there is none, or if a block is damaged.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| PemError::Malformed(error.to_string()))?;
    if certificates.is_empty() { Err(PemError::NoCertificate) } else { Ok(certificates) }
}

/// The first revocation list of a PEM text, or the one that the bytes are, in DER. `None`: there is none.
pub fn revocation_list(bytes: &[u8]) -> Option<Vec<u8>> {
    /// The tag of DER's SEQUENCE, with which no PEM text begins.
    const SEQUENCE: u8 = 0x30;
    match bytes.first() {
        Some(&SEQUENCE) => Some(bytes.to_vec()),
        _ => CertificateRevocationListDer::from_pem_slice(bytes).ok().map(|list| list.to_vec()),
    }
}

/// A certificate in DER as PEM text.
pub fn certificate(der: &[u8]) -> Vec<u8> {
    armor("CERTIFICATE", der).to_vec()
}

/// PEM text (RFC 7468) of these bytes.
pub(crate) fn armor(label: &str, der: &[u8]) -> Zeroizing<Vec<u8>> {
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
