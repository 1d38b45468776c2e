//! Why a certificate is refused, for TLS and in the words of OpenVPN's options.

use std::fmt;
use std::sync::Arc;

use adit_pki::{CaFault, FaultyCa, Refusal};
use rustls::{CertificateError, Error, OtherError};

/// A refusal whose message names the option that the certificate does not satisfy.
#[derive(Debug)]
struct Refused(Refusal);

impl std::error::Error for Refused {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Refusal::Name { found, wanted } => {
                write!(f, "its certificate has {found}, but verify-x509-name asks for {wanted}")
            }
            Refusal::NoKeyUsage => {
                f.write_str("its certificate has no key usage extension, which remote-cert-tls asks for")
            }
            Refusal::KeyUsage { found } => {
                write!(f, "its certificate's key usage is {found}, which remote-cert-ku does not allow")
            }
            Refusal::ExtendedUsage { found, wanted } => write!(
                f,
                "its certificate's extended key usage is {found}, but remote-cert-eku asks for {wanted}"
            ),
            Refusal::NoUsage { wanted } => write!(
                f,
                "its certificate has no extended key usage of a {wanted}, which remote-cert-tls asks for"
            ),
            Refusal::Fingerprint { subject, found } => write!(
                f,
                "its certificate ({subject}) is none of those in peer-fingerprint; its SHA-256 fingerprint is {found}"
            ),
            Refusal::IssuerFingerprint => {
                f.write_str("the certificate that issued its certificate is none of those in verify-hash")
            }
            Refusal::List { issuer, fault, .. } => write!(
                f,
                "the revocation list (crl-verify) of {issuer} {fault}, so no peer below that CA can be accepted"
            ),
            Refusal::Authority(FaultyCa { subject, fault: CaFault::Revoked, .. }) => {
                write!(f, "the CA certificate {subject} was revoked (crl-verify)")
            }
            Refusal::NoRoot { last, issuer, .. } => write!(
                f,
                "the path of its certificate ends at {last}, which is not self-signed, and the certificate of its issuer ({issuer}) is not in ca: add it there"
            ),
            other => other.fmt(f),
        }
    }
}

/// The refusal as rustls takes it: the variant decides which alert the peer gets.
pub(super) fn tls_error(refusal: Refusal) -> Error {
    use CertificateError as E;
    Error::InvalidCertificate(match refusal {
        Refusal::UnknownIssuer => E::UnknownIssuer,
        Refusal::WrongPurpose => E::InvalidPurpose,
        Refusal::Expired { now, not_after } => E::ExpiredContext { time: now, not_after },
        Refusal::NotValidYet { now, not_before } => E::NotValidYetContext { time: now, not_before },
        Refusal::Revoked => E::Revoked,
        Refusal::ListExpired { now, next_update, .. } => {
            E::ExpiredRevocationListContext { time: now, next_update }
        }
        Refusal::BadEncoding => E::BadEncoding,
        other => E::Other(OtherError(Arc::new(Refused(other)))),
    })
}

#[cfg(test)]
mod tests {
    use adit_pki::{ListFault, NameCheck};

    use super::*;
    use crate::key_state::KeyStateError;

    /// The message of a refusal by an option names the option.
    #[test]
    fn messages_name_the_option() {
        let text = String::new;
        let wanted = NameCheck::CommonName(text());
        let revoked = FaultyCa { depth: 1, subject: text(), fault: CaFault::Revoked };
        for (refusal, option) in [
            (Refusal::Name { found: text(), wanted }, "verify-x509-name"),
            (Refusal::NoKeyUsage, "remote-cert-tls"),
            (Refusal::NoUsage { wanted: "server" }, "remote-cert-tls"),
            (Refusal::KeyUsage { found: text() }, "remote-cert-ku"),
            (Refusal::ExtendedUsage { found: text(), wanted: text() }, "remote-cert-eku"),
            (Refusal::Fingerprint { subject: text(), found: text() }, "peer-fingerprint"),
            (Refusal::IssuerFingerprint, "verify-hash"),
            (
                Refusal::List { depth: 0, subject: text(), issuer: text(), fault: ListFault::Signature },
                "crl-verify",
            ),
            (Refusal::Authority(revoked), "crl-verify"),
            (Refusal::NoRoot { depth: 1, is_trusted: true, last: text(), issuer: text() }, "not in ca:"),
        ] {
            let neutral = refusal.to_string();
            assert!(!neutral.contains(option), "{neutral}");
            let said = KeyStateError::from(tls_error(refusal)).to_string();
            assert!(said.contains(option), "{said}");
        }
    }
}
