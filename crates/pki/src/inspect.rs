//! The content of certificates and revocation lists that were made before. A text that cannot be read gives
//! nothing.

use std::collections::BTreeSet;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::certificate::{name, subject_text, text};
use crate::signed_list::SignedList;

/// A certificate's or revocation list's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The common name of the certificate's subject or of the list's issuer, or all of the name if it has none; without
    /// characters that a terminal would obey.
    pub name: String,
    /// The last moment of validity, in seconds since 1970.
    pub at: i64,
}

/// When the certificates of a PEM text expire.
pub fn certificate_expiries(pem: &[u8]) -> Vec<Expiry> {
    let expiry = |der: CertificateDer<'_>| {
        let (_, certificate) = X509Certificate::from_der(&der).ok()?;
        let at = certificate.validity().not_after.timestamp();
        Some(Expiry { name: name(certificate.subject()), at })
    };
    CertificateDer::pem_slice_iter(pem).flatten().filter_map(expiry).collect()
}

/// When the revocation lists of a PEM text expire; one without a next update does not.
pub fn list_expiries(pem: &[u8]) -> Vec<Expiry> {
    let expiry = |der: CertificateRevocationListDer<'_>| {
        let list = SignedList::new(&der).ok()?.content;
        Some(Expiry { name: list.issuer_name, at: list.next_update? })
    };
    CertificateRevocationListDer::pem_slice_iter(pem).flatten().filter_map(expiry).collect()
}

/// A certificate that is outside its validity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfDate {
    /// Its subject.
    pub subject: String,
    /// `expired at ...` or `is not valid before ...`.
    pub problem: String,
}

/// Whether a certificate is outside its validity.
///
/// # Errors
/// If it cannot be read.
pub fn out_of_date(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<Option<OutOfDate>, String> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    let validity = parsed.validity();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let problem = if now > validity.not_after.timestamp() {
        format!("expired at {}", validity.not_after)
    } else if now < validity.not_before.timestamp() {
        format!("is not valid before {} (is this machine's clock right?)", validity.not_before)
    } else {
        return Ok(None);
    };
    Ok(Some(OutOfDate { subject: subject_text(parsed.subject()), problem }))
}

/// The serial number of the first certificate, in hexadecimal.
pub fn serial(pem: &str) -> Option<String> {
    with_certificate(pem, |certificate| Some(hex(certificate.raw_serial())))
}

/// The last moment at which the first certificate is valid.
pub fn not_after(pem: &str) -> Option<OffsetDateTime> {
    with_certificate(pem, |certificate| Some(certificate.validity().not_after.to_datetime()))
}

/// The common name in the first certificate.
pub fn common_name(pem: &str) -> Option<String> {
    with_certificate(pem, |certificate| certificate.subject().iter_common_name().next().and_then(text))
}

/// Whether two certificates have the same name, byte for byte, and the same key.
pub fn is_same_authority(one: &str, other: &str) -> bool {
    let identity = |pem| {
        with_certificate(pem, |it| Some((it.subject().as_raw().to_vec(), it.public_key().raw.to_vec())))
    };
    identity(one).is_some_and(|one| Some(one) == identity(other))
}

/// The result of `look` for the first certificate of a text.
fn with_certificate<T>(pem: &str, look: impl FnOnce(&X509Certificate<'_>) -> Option<T>) -> Option<T> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    look(&certificate)
}

/// The serial numbers in a revocation list, in hexadecimal. One that cannot be read lists none.
pub fn serials_listed(list: &str) -> BTreeSet<String> {
    let Ok(der) = CertificateRevocationListDer::from_pem_slice(list.as_bytes()) else {
        return BTreeSet::new();
    };
    SignedList::new(&der).map_or_else(|_| BTreeSet::new(), |list| list.content.revoked().map(hex).collect())
}

/// A certificate's subject, as OpenVPN prints it, and its serial number in hexadecimal; `None` if it cannot be read.
pub fn subject_and_serial(certificate: &CertificateDer<'_>) -> Option<(String, String)> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some((subject_text(certificate.subject()), hex(certificate.raw_serial()).to_uppercase()))
}

/// Bytes as a number in hexadecimal, in lower case.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
