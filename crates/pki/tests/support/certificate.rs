//! Reads certificates that may be damaged.
#![allow(unreachable_pub, reason = "test support")]

use adit_core::is_unprintable;
use adit_pki::{NameField, NameFields, certificate};
use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Reads a certificate, valid or not, in every way that it is read in. Gives whether it is one at all.
///
/// # Panics
///
/// If a name or a subject holds characters that must not reach a script or a log.
pub fn read(der: &[u8]) -> bool {
    let oid = |dotted: &str| NameField::Subject(dotted.to_owned());
    let fields = [oid("2.5.4.3"), oid("0.9.2342.19200300.100.1.1"), NameField::Serial];
    let emails = [NameField::SubjectEmail, NameField::IssuerEmail];
    let whole = CertificateDer::from(der);
    for field in fields.into_iter().chain(emails) {
        let name = NameFields::new(vec![field]).name(&whole);
        assert!(
            name.is_none_or(|name| {
                !name.is_empty() && name.len() <= 64 && !name.contains(is_unprintable)
            })
        );
    }
    let Ok((_, parsed)) = X509Certificate::from_der(der) else { return false };
    for name in [parsed.subject(), parsed.issuer()] {
        let text = certificate::subject_text(name);
        assert!(!text.contains(is_unprintable), "{text:?}");
        // The bytes of a value that is no string are shown, too, and are no text that holds a NUL.
        let shows_nul = text.replace("\\\\", "").contains("\\00");
        let are_strings = name.iter_attributes().all(|attribute| attribute.as_str().is_ok());
        assert!(shows_nul || !certificate::has_nul(name), "{text:?}");
        assert!(!shows_nul || !are_strings || certificate::has_nul(name), "{text:?}");
    }
    let _ = (certificate::key_usage(&parsed), certificate::extended_key_usage(&parsed));
    assert_eq!(certificate::fingerprint(der).len(), 95);
    true
}
