//! Why a peer's certificate is refused.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error, OtherError};
use thiserror::Error;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::authorities::Authorities;
use crate::ca_fault::{self, Faulty, Terms};
use crate::certificate::{self, subject_text};
use crate::signed_list::ListFault;
use crate::verify::NameCheck;

/// The peer's certificate is valid but not the one that the configuration asks for.
#[derive(Debug, Error)]
pub(crate) enum NotThePeer {
    #[error("its certificate has {found}, but verify-x509-name asks for {wanted}")]
    Name { found: String, wanted: NameCheck },
    #[error("its certificate has no key usage extension, which remote-cert-tls asks for")]
    NoKeyUsage,
    #[error("its certificate's key usage is {found}, which remote-cert-ku does not allow")]
    KeyUsage { found: String },
    #[error("its certificate's extended key usage is {found}, but remote-cert-eku asks for {wanted}")]
    ExtendedUsage { found: String, wanted: String },
    #[error(
        "its certificate ({subject}) is none of those in peer-fingerprint; its SHA-256 fingerprint is {found}"
    )]
    Fingerprint { subject: String, found: String },
    #[error("the certificate that issued its certificate is none of those in verify-hash")]
    IssuerFingerprint,
    #[error("its certificate has a NUL in its subject: an attempt to impersonate another name")]
    Nul,
    #[error("its certificate cannot be read: {0}")]
    Unreadable(String),
    #[error(
        "its certificate has a basicConstraints, keyUsage, extendedKeyUsage or nsCertType that cannot be read or stands there twice"
    )]
    Malformed,
    #[error("its certificate has an RSA key of {bits} bits; adit accepts {least} and more", least = certificate::LEAST_RSA_BITS)]
    SmallKey { bits: usize },
    #[error(
        "a certificate in its path is signed with an algorithm that adit does not accept, such as SHA-1 or MD5: it must be signed again, with SHA-256 or better"
    )]
    SignatureAlgorithm,
    #[error(
        "a signature in its certificate path is not by the CA of that name: another CA has the same name, or a certificate was altered"
    )]
    Signature,
    #[error(
        "a name in its certificate is outside what a CA certificate of its path permits (nameConstraints); adit judges none on directory names, and refuses what is under such a one"
    )]
    NameConstraint,
    #[error(
        "a certificate in its path is not of version 3 (X.509): it must be issued again, with extensions"
    )]
    Version,
    #[error(
        "its certificate is that of a CA (basicConstraints CA:TRUE), which must not be used by a server or a client"
    )]
    IsACa,
    #[error("its certificate has no extended key usage of a {wanted}, which remote-cert-tls asks for")]
    NoUsage { wanted: &'static str },
    #[error(
        "its certificate cannot be a {wanted}'s: its keyUsage needs digitalSignature, and its nsCertType, if it has one, must say {wanted}"
    )]
    WrongKey { wanted: &'static str },
    #[error(
        "the revocation list (crl-verify) of {issuer} {reason}, so no client below that CA can be accepted"
    )]
    List { issuer: String, reason: String },
    #[error("the CA certificate {} {}", .0.subject, .0.fault)]
    Authority(Faulty),
    #[error(
        "the path of its certificate ends at {last}, which is not self-signed, and the certificate of its issuer ({issuer}) is not in ca: add it there"
    )]
    NoRoot { last: String, issuer: String },
}

impl From<NotThePeer> for Error {
    fn from(error: NotThePeer) -> Self {
        Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
    }
}

/// What verification found wrong, with the name of the certificate at fault where that is not the leaf.
pub(crate) fn named_error(
    authorities: &Authorities,
    leaf: &CertificateDer<'_>,
    sent: &[CertificateDer<'_>],
    terms: Terms<'_>,
    error: webpki::Error,
) -> Error {
    use webpki::Error as E;
    let path = authorities.follow(leaf, sent);
    let own_fault = match error {
        E::CertExpired { .. } | E::CertNotValidYet { .. } => !is_in_time(leaf, terms.now),
        E::RequiredEkuNotFoundContext(_) => {
            X509Certificate::from_der(leaf).is_ok_and(|(_, leaf)| !certificate::is_for(&leaf, terms.purpose))
        }
        E::EndEntityUsedAsCa | E::PathLenConstraintViolated | E::InvalidSignatureForPublicKey => false,
        E::UnknownIssuer => return no_root(authorities, path.last().copied()),
        _ => true,
    };
    match ca_fault::first_fault(&path, terms) {
        Some(faulty) if !own_fault => NotThePeer::Authority(faulty).into(),
        _ => certificate_error(error),
    }
}

/// What a revocation list's fault means for a certificate that is not on it.
pub(crate) fn list_error(issuer: String, fault: ListFault, now: UnixTime) -> Error {
    let reason = match fault {
        ListFault::Revoked => return Error::InvalidCertificate(CertificateError::Revoked),
        ListFault::Expired(at) => {
            let seconds = u64::try_from(at.timestamp()).unwrap_or_default();
            let next_update = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            let error = CertificateError::ExpiredRevocationListContext { time: now, next_update };
            return Error::InvalidCertificate(error);
        }
        ListFault::NotYetValid(from) => {
            format!("is not valid before {from} (is this machine's clock right?)")
        }
        ListFault::Signature => {
            "is not signed by that CA's key with an algorithm that adit accepts (SHA-256 or better)"
                .to_owned()
        }
        ListFault::NoCrlSign => "is signed by a CA certificate whose keyUsage lacks cRLSign".to_owned(),
    };
    NotThePeer::List { issuer, reason }.into()
}

/// There is no way to a self-signed certificate. `last` is where the way ends, if not at the leaf.
fn no_root(authorities: &Authorities, last: Option<&CertificateDer<'_>>) -> Error {
    let parsed = last.filter(|last| !authorities.is_root(last));
    match parsed.and_then(|last| X509Certificate::from_der(last).ok()) {
        Some((_, last)) => {
            let [last, issuer] = [last.subject(), last.issuer()].map(subject_text);
            NotThePeer::NoRoot { last, issuer }.into()
        }
        None => Error::InvalidCertificate(CertificateError::UnknownIssuer),
    }
}

fn is_in_time(certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    X509Certificate::from_der(certificate).is_ok_and(|(_, parsed)| {
        let validity = parsed.validity();
        (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now)
    })
}

pub(crate) fn certificate_error(error: webpki::Error) -> Error {
    use webpki::Error as E;
    let error = match error {
        E::CertExpired { time, not_after } => CertificateError::ExpiredContext { time, not_after },
        E::CertNotValidYet { time, not_before } => CertificateError::NotValidYetContext { time, not_before },
        E::UnknownIssuer => CertificateError::UnknownIssuer,
        E::UnsupportedSignatureAlgorithmContext(_) => return NotThePeer::SignatureAlgorithm.into(),
        E::InvalidSignatureForPublicKey => return NotThePeer::Signature.into(),
        E::NameConstraintViolation => return NotThePeer::NameConstraint.into(),
        E::UnsupportedCertVersion => return NotThePeer::Version.into(),
        E::CaUsedAsEndEntity => return NotThePeer::IsACa.into(),
        E::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        E::BadDer | E::BadDerTime | E::TrailingData(_) => CertificateError::BadEncoding,
        other => CertificateError::Other(OtherError(Arc::new(other))),
    };
    Error::InvalidCertificate(error)
}
