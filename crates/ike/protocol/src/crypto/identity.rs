//! The identity that a certificate has (RFC 4945 section 3.1).

use std::net::IpAddr;

use adit_pki::{CertificateName, has_name};
use rustls_pki_types::CertificateDer;

use crate::wire::{IdType, Identification};

/// Whether the certificate is that of the identity: as subject, or among the alternative names.
pub fn is_named(certificate: &CertificateDer<'_>, identity: &Identification) -> bool {
    let data = identity.data.as_slice();
    let name = match identity.kind {
        IdType::FQDN => std::str::from_utf8(data).ok().map(CertificateName::Dns),
        IdType::RFC822_ADDR => std::str::from_utf8(data).ok().map(CertificateName::Mail),
        IdType::IPV4_ADDR => {
            <[u8; 4]>::try_from(data).ok().map(|it| CertificateName::Address(IpAddr::from(it)))
        }
        IdType::IPV6_ADDR => {
            <[u8; 16]>::try_from(data).ok().map(|it| CertificateName::Address(IpAddr::from(it)))
        }
        IdType::DER_ASN1_DN => Some(CertificateName::Subject(data)),
        _ => None,
    };
    name.is_some_and(|name| has_name(certificate, name))
}

/// The sentence for the log about a certificate that does not have the identity.
pub fn not_named(certificate: &CertificateDer<'_>) -> String {
    let subject = adit_pki::inspect::subject_and_serial(certificate);
    format!(
        "its certificate does not have that name, neither as subject nor as subjectAltName; the subject is {}",
        subject.map_or_else(|| "unreadable".to_owned(), |(subject, _)| subject)
    )
}
