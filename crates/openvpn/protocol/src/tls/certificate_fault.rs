//! Which certificate was refused, and why in the words of OpenSSL (crypto/x509/x509_txt.c), which OpenVPN writes to its log
//! (ssl_verify_openssl.c, `verify_callback`).

use std::cell::RefCell;

use adit_pki::certificate::subject_text;
use adit_pki::{CaFault, FaultyCa, ListFault, Refusal};
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

/// A certificate that a peer showed, or one above it, and its fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFault {
    /// How many certificates of the path stand below it: 0 is the peer's own.
    pub depth: usize,
    /// Its subject, as [`subject_text`] prints it. The peer is not authenticated, so it may be any text.
    pub subject: String,
    /// Its serial number in decimal digits, if it is the peer's own.
    pub serial: Option<String>,
    /// The fault of its path, in OpenSSL's words; `None` if the path is good and the fault is another.
    pub error: Option<&'static str>,
}

/// The longest subject that is kept, in characters.
const MAX_SUBJECT: usize = 256;

thread_local! {
    /// The certificate that the verifier refused last on this thread. rustls passes nothing but its own error on, whose
    /// variant is the alert.
    static REFUSED: RefCell<Option<CertificateFault>> = const { RefCell::new(None) };
}

/// Keeps the fault of a peer's certificate, for [`take_refused`].
pub(super) fn keep_refused(leaf: &CertificateDer<'_>, refusal: &Refusal) {
    REFUSED.replace(CertificateFault::new(leaf, refusal));
}

/// The certificate that the verifier refused, right after rustls has returned its error on the same thread.
pub(super) fn take_refused() -> Option<CertificateFault> {
    REFUSED.take()
}

impl CertificateFault {
    fn new(leaf: &CertificateDer<'_>, refusal: &Refusal) -> Option<CertificateFault> {
        let (_, leaf) = X509Certificate::from_der(leaf).ok()?;
        let (depth, subject, serial) = match refusal {
            Refusal::Authority(FaultyCa { depth, subject, .. }) => (*depth, subject.clone(), None),
            Refusal::NoRoot { depth, last, .. } => (*depth, last.clone(), None),
            Refusal::List { depth: depth @ 1.., subject, .. }
            | Refusal::ListExpired { depth: depth @ 1.., subject, .. } => (*depth, subject.clone(), None),
            _ => (0, subject_text(leaf.subject()), Some(leaf.tbs_certificate.serial.to_string())),
        };
        let subject = subject.chars().take(MAX_SUBJECT).collect();
        Some(CertificateFault { depth, subject, serial, error: error(refusal) })
    }
}

fn error(refusal: &Refusal) -> Option<&'static str> {
    Some(match refusal {
        Refusal::NoRoot { is_trusted: true, .. } => "unable to get issuer certificate",
        Refusal::UnknownIssuer | Refusal::NoRoot { .. } => "unable to get local issuer certificate",
        Refusal::Expired { .. } => "certificate has expired",
        Refusal::NotValidYet { .. } => "certificate is not yet valid",
        Refusal::Revoked => "certificate revoked",
        Refusal::ListExpired { .. } => "CRL has expired",
        Refusal::List { fault, .. } => match fault {
            ListFault::NotYetValid(_) => "CRL is not yet valid",
            ListFault::NoCrlSign => "key usage does not include CRL signing",
            _ => "CRL signature failure",
        },
        Refusal::WrongPurpose | Refusal::WrongKey { .. } => "unsuitable certificate purpose",
        Refusal::SmallKey { .. } => "EE certificate key too weak",
        Refusal::SignatureAlgorithm => "CA signature digest algorithm too weak",
        Refusal::Signature => "certificate signature failure",
        Refusal::NameConstraint => "permitted subtree violation",
        Refusal::Authority(FaultyCa { fault, .. }) => match fault {
            CaFault::Expired(_) => "certificate has expired",
            CaFault::NotYetValid(_) => "certificate is not yet valid",
            CaFault::NotACa | CaFault::NoCertSign => "invalid CA certificate",
            CaFault::PathLength { .. } => "path length constraint exceeded",
            CaFault::Purpose(_) => "unsuitable certificate purpose",
            CaFault::WeakSignature => "CA signature digest algorithm too weak",
            CaFault::SmallKey(_) => "CA certificate key too weak",
            CaFault::Revoked => "certificate revoked",
            CaFault::Unreadable => return None,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Authority;

    #[test]
    fn a_fault_has_the_certificate_that_it_is_of() {
        let authority = Authority::new();
        let alice = authority.issue("alice", rcgen::ExtendedKeyUsagePurpose::ClientAuth);
        let (_, leaf) = x509_parser::pem::parse_x509_pem(&alice.certificate).unwrap();
        let leaf = CertificateDer::from(leaf.contents);
        assert_eq!(take_refused(), None);

        keep_refused(&leaf, &Refusal::Revoked);
        let fault = take_refused().unwrap();
        assert_eq!((fault.depth, fault.error), (0, Some("certificate revoked")));
        assert!(fault.subject.contains("CN=alice"), "{fault:?}");
        assert!(fault.serial.unwrap().bytes().all(|byte| byte.is_ascii_digit()));
        assert_eq!(take_refused(), None);

        let ca = FaultyCa { depth: 2, subject: "CN=Root".to_owned(), fault: CaFault::NoCertSign };
        keep_refused(&leaf, &Refusal::Authority(ca));
        let fault = take_refused().unwrap();
        let of_root = CertificateFault {
            depth: 2,
            subject: "CN=Root".to_owned(),
            serial: None,
            error: Some("invalid CA certificate"),
        };
        assert_eq!(fault, of_root);

        keep_refused(&leaf, &Refusal::NoKeyUsage);
        assert_eq!(take_refused().unwrap().error, None);
    }
}
