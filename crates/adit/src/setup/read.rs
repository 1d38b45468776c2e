//! What certificates and revocation lists that were written before say.

use std::collections::BTreeSet;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use time::OffsetDateTime;
use x509_parser::prelude::{CertificateRevocationList, FromDer as _, X509Certificate};

use super::authority::hex;

/// The serial number, in hexadecimal, of the first certificate in a configuration. `None` if it holds none.
pub(super) fn serial_in(configuration: &str) -> Option<String> {
    with_certificate(block(configuration, "cert")?, |certificate| Some(hex(certificate.raw_serial())))
}

/// The last moment at which a certificate is valid.
pub(super) fn not_after(pem: &str) -> Option<OffsetDateTime> {
    with_certificate(pem, |certificate| Some(certificate.validity().not_after.to_datetime()))
}

/// The common name in a certificate.
pub(super) fn common_name(pem: &str) -> Option<String> {
    with_certificate(pem, |certificate| {
        certificate.subject().iter_common_name().next()?.as_str().ok().map(str::to_owned)
    })
}

/// Whether two certificates have the same name, byte for byte, and the same key.
pub(super) fn is_same_authority(one: &str, other: &str) -> bool {
    let identity = |pem| {
        with_certificate(pem, |it| Some((it.subject().as_raw().to_vec(), it.public_key().raw.to_vec())))
    };
    identity(one).is_some_and(|one| Some(one) == identity(other))
}

/// What `look` finds in the first certificate of a text.
fn with_certificate<T>(pem: &str, look: impl FnOnce(&X509Certificate<'_>) -> Option<T>) -> Option<T> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    look(&certificate)
}

/// The serial numbers, in hexadecimal, in a revocation list. One that cannot be read lists none.
pub(super) fn serials_listed(list: &str) -> BTreeSet<String> {
    let Ok(der) = CertificateRevocationListDer::from_pem_slice(list.as_bytes()) else {
        return BTreeSet::new();
    };
    let Ok((_, list)) = CertificateRevocationList::from_der(&der) else { return BTreeSet::new() };
    list.iter_revoked_certificates().map(|revoked| hex(revoked.raw_serial())).collect()
}

/// What a configuration has inline for a directive.
pub(super) fn block<'a>(configuration: &'a str, directive: &str) -> Option<&'a str> {
    let (_, rest) = configuration.split_once(&format!("<{directive}>\n"))?;
    Some(rest.split_once(&format!("</{directive}>"))?.0)
}
