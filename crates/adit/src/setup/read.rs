//! What certificates and revocation lists that were written before say.

use std::collections::BTreeSet;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::prelude::{CertificateRevocationList, FromDer as _, X509Certificate};

use super::authority::hex;

/// The serial number, in hexadecimal, of the first certificate in a configuration. `None` if it holds none.
pub(super) fn serial_in(configuration: &str) -> Option<String> {
    let certificate = block(configuration, "cert")?;
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    Some(hex(certificate.raw_serial()))
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
