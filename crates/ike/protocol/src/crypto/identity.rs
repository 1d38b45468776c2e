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

/// The object identifier of a user principal name in subjectAltName, 1.3.6.1.4.1.311.20.2.3, in DER: Active Directory issues
/// certificates of users with this name alone ([MS-WCCE] section 2.2.2.7.7.4).
const USER_PRINCIPAL_NAME: [u8; 12] = [6, 10, 0x2b, 6, 1, 4, 1, 0x82, 0x37, 20, 2, 3];

/// The sentence for the log about a certificate that does not have the identity.
pub fn not_named(certificate: &CertificateDer<'_>) -> String {
    let subject = adit_pki::inspect::subject_and_serial(certificate);
    let has_user_name =
        certificate.windows(USER_PRINCIPAL_NAME.len()).any(|window| window == USER_PRINCIPAL_NAME);
    let way_out = if has_user_name {
        "; it has a user principal name (UPN), which is no name for IKE: issue it with a host name or a mail address in subjectAltName, or \
         have the peer send its subject"
    } else {
        ""
    };
    format!(
        "its certificate does not have that name, neither as subject nor as subjectAltName; the subject is {}{way_out}",
        subject.map_or_else(|| "unreadable".to_owned(), |(subject, _)| subject)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `otherName` with a user principal name (RFC 5280 section 4.2.1.6), within bytes that are no certificate.
    #[test]
    fn a_certificate_with_a_user_principal_name_alone_is_refused_with_the_way_out() {
        let name = [&[0xa0, 25][..], &USER_PRINCIPAL_NAME, &[0xa0, 11, 0x0c, 9], b"anna@corp"].concat();
        let certificate = CertificateDer::from(name);
        let said = not_named(&certificate);
        assert!(said.contains("(UPN)") && said.contains("mail address in subjectAltName"), "{said}");
        let mail = Identification { kind: IdType::RFC822_ADDR, data: b"anna@corp".to_vec() };
        assert!(!is_named(&certificate, &mail));
        assert!(!not_named(&CertificateDer::from(vec![6, 10, 0x2b])).contains("UPN"));
    }
}
