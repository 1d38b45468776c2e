//! The comparison of a name with the names in a certificate.

use std::net::IpAddr;

use rustls_pki_types::CertificateDer;
use sha1::{Digest as _, Sha1};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, X509Name};

use crate::canonical_name::CanonicalName;
use crate::certificate::{has_nul, named_attributes, subject_text};

/// A name that a certificate may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateName<'a> {
    /// The subject, in DER (RFC 5280 section 4.1.2.6).
    Subject(&'a [u8]),
    /// A host name among the alternative names of the subject. Wildcards in the certificate match no name.
    Dns(&'a str),
    /// A mail address among the alternative names of the subject.
    Mail(&'a str),
    /// An address among the alternative names of the subject.
    Address(IpAddr),
}

/// Whether a certificate has that name. Subjects are compared as RFC 5280 section 7.1 demands, host names and mail addresses without
/// regard to case. Neither the certificate's path nor its dates are judged. A certificate that cannot be read has no name.
pub fn has_name(certificate: &CertificateDer<'_>, name: CertificateName<'_>) -> bool {
    X509Certificate::from_der(certificate).is_ok_and(|(_, parsed)| parsed_has_name(&parsed, name))
}

fn parsed_has_name(certificate: &X509Certificate<'_>, name: CertificateName<'_>) -> bool {
    if let CertificateName::Subject(der) = name {
        return X509Name::from_der(der).is_ok_and(|(rest, wanted)| {
            let own = certificate.subject();
            rest.is_empty()
                && own.iter_rdn().next().is_some()
                && !has_nul(own)
                && CanonicalName::new(own) == CanonicalName::new(&wanted)
        });
    }
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return false };
    names.value.general_names.iter().any(|own| match (own, name) {
        (GeneralName::DNSName(own), CertificateName::Dns(name))
        | (GeneralName::RFC822Name(own), CertificateName::Mail(name)) => {
            !name.is_empty() && own.eq_ignore_ascii_case(name)
        }
        (GeneralName::IPAddress(own), CertificateName::Address(IpAddr::V4(address))) => {
            *own == address.octets()
        }
        (GeneralName::IPAddress(own), CertificateName::Address(IpAddr::V6(address))) => {
            *own == address.octets()
        }
        _ => false,
    })
}

/// A name in DER as [`subject_text`] prints it; `None` if it cannot be read.
pub fn name_text(der: &[u8]) -> Option<String> {
    let (rest, name) = X509Name::from_der(der).ok()?;
    rest.is_empty().then(|| subject_text(&name))
}

/// The organizational units of a certificate's subject, in the order of the certificate. A certificate that cannot be read, or whose
/// subject holds a NUL, has none.
pub fn organizational_units(certificate: &CertificateDer<'_>) -> Vec<String> {
    X509Certificate::from_der(certificate).map(|(_, parsed)| units(parsed.subject())).unwrap_or_default()
}

/// The organizational units of a name in DER, as [`organizational_units`] gives them.
pub fn units_of_name(der: &[u8]) -> Vec<String> {
    X509Name::from_der(der).map(|(_, name)| units(&name)).unwrap_or_default()
}

fn units(name: &X509Name<'_>) -> Vec<String> {
    if has_nul(name) {
        return Vec::new();
    }
    named_attributes(name).into_iter().filter(|(short, _)| *short == "OU").map(|(_, text)| text).collect()
}

/// The SHA-1 digest of a certificate's public key, of its `SubjectPublicKeyInfo` in DER; `None` if the certificate cannot be read.
pub fn public_key_digest(certificate: &CertificateDer<'_>) -> Option<[u8; 20]> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(Sha1::digest(parsed.public_key().raw).into())
}

/// The SHA-1 digest of a certificate's public key, of the bits of `subjectPublicKey` (RFC 5280 section 4.2.1.2 (1)); `None` if the
/// certificate cannot be read.
pub fn subject_key_digest(certificate: &CertificateDer<'_>) -> Option<[u8; 20]> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(Sha1::digest(&parsed.public_key().subject_public_key.data).into())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate() -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["gate.example".to_owned()]).unwrap();
        params.subject_alt_names.extend([
            SanType::Rfc822Name("a@example".try_into().unwrap()),
            SanType::IpAddress("192.0.2.1".parse().unwrap()),
            SanType::IpAddress("2001:db8::1".parse().unwrap()),
            SanType::DnsName("*.wild.example".try_into().unwrap()),
        ]);
        params.distinguished_name.push(DnType::CommonName, "Gate Way");
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn subject(certificate: &CertificateDer<'_>) -> Vec<u8> {
        X509Certificate::from_der(certificate).unwrap().1.subject().as_raw().to_vec()
    }

    #[test]
    fn a_name_is_one_of_the_certificates_own() {
        let certificate = certificate();
        let has = |name| has_name(&certificate, name);
        assert!(has(CertificateName::Dns("GATE.example")) && has(CertificateName::Mail("A@example")));
        assert!(has(CertificateName::Address("192.0.2.1".parse().unwrap())));
        assert!(has(CertificateName::Address("2001:db8::1".parse().unwrap())));
        assert!(!has(CertificateName::Dns("Gate Way")), "the common name is no host name");
        assert!(!has(CertificateName::Dns("a@example")) && !has(CertificateName::Mail("gate.example")));
        assert!(!has(CertificateName::Dns("x.wild.example")) && !has(CertificateName::Dns("")));
        assert!(!has(CertificateName::Address("192.0.2.2".parse().unwrap())));
    }

    #[test]
    fn a_subject_is_compared_whole() {
        let certificate = certificate();
        let own = subject(&certificate);
        assert!(has_name(&certificate, CertificateName::Subject(&own)));
        assert!(name_text(&own).unwrap().ends_with("CN=Gate Way"));
        let mut longer = own.clone();
        longer.push(0);
        for other in [&own[..own.len() - 1], &longer, &[0x30, 0], &[]] {
            assert!(!has_name(&certificate, CertificateName::Subject(other)), "{other:?}");
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let nameless = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone();
        assert!(!has_name(&nameless, CertificateName::Subject(&[0x30, 0])), "an empty subject names nobody");
    }

    #[test]
    fn the_digest_is_of_the_key_with_its_algorithm() {
        let first = certificate();
        assert_ne!(public_key_digest(&first), public_key_digest(&certificate()));
        assert_eq!(public_key_digest(&CertificateDer::from(&[1, 2][..])), None);
    }
}
