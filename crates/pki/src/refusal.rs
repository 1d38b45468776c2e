//! Why a peer's certificate is refused.

use std::time::Duration;

use rustls_pki_types::{CertificateDer, UnixTime};
use thiserror::Error;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::authorities::Authorities;
use crate::ca_fault::{self, CaFacts, CaFault, FaultyCa, Terms};
use crate::certificate::{self, subject_text};
use crate::date;
use crate::signed_list::ListFault;
use crate::verify::NameCheck;

/// Why a peer's certificate is refused. The messages name no option of any configuration: a protocol that has options
/// for the points of [`PeerRequirements`](crate::PeerRequirements) can name them in messages of its own.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Its path ends at no trusted authority.
    #[error("its certificate is not signed by a CA that is trusted")]
    UnknownIssuer,
    /// Its extended key usage, or that of a CA above it, is another one.
    #[error("its certificate is not meant for its role (extended key usage)")]
    WrongPurpose,
    /// Its time is over.
    #[error(
        "its certificate expired at {}: it must be renewed, unless this machine's clock ({}) is wrong",
        date(*not_after), date(*now)
    )]
    Expired {
        /// The time by which it was verified.
        now: UnixTime,
        /// The last moment of its validity.
        not_after: UnixTime,
    },
    /// Its time has not come.
    #[error("its certificate is not valid before {}: is this machine's clock ({}) right?", date(*not_before), date(*now))]
    NotValidYet {
        /// The time by which it was verified.
        now: UnixTime,
        /// The first moment of its validity.
        not_before: UnixTime,
    },
    /// The certificate is on a revocation list.
    #[error("its certificate was revoked")]
    Revoked,
    /// A revocation list that its path needs is out of date.
    #[error(
        "the revocation list expired at {}, so no peer can be accepted: a newer one is needed, unless this machine's \
         clock ({}) is wrong", date(*next_update), date(*now)
    )]
    ListExpired {
        /// How many certificates of the path stand below the one that it is needed for.
        depth: usize,
        /// The subject of that certificate.
        subject: String,
        /// The time by which it was verified.
        now: UnixTime,
        /// When a newer list was due.
        next_update: UnixTime,
    },
    /// A revocation list that its path needs cannot be used.
    #[error("the revocation list of {issuer} {fault}, so no peer below that CA can be accepted")]
    List {
        /// How many certificates of the path stand below the one that it is needed for.
        depth: usize,
        /// The subject of that certificate.
        subject: String,
        /// The list's authority.
        issuer: String,
        /// The fault of the list.
        fault: ListFault,
    },
    /// The DER of a certificate in its path is damaged.
    #[error("a certificate in its path is not valid DER")]
    BadEncoding,
    /// The certificate cannot be read.
    #[error("its certificate cannot be read: {0}")]
    Unreadable(String),
    /// An extension by which it is judged cannot be read, or stands there twice.
    #[error(
        "its certificate has a basicConstraints, keyUsage, extendedKeyUsage or nsCertType that cannot be read or stands there twice"
    )]
    Malformed,
    /// A part of the subject holds a NUL.
    #[error("its certificate has a NUL in its subject: an attempt to impersonate another name")]
    Nul,
    /// The name is not the one that is asked for.
    #[error("its certificate has {found}, but {wanted} is asked for")]
    Name {
        /// The name that it has.
        found: String,
        /// The names that are accepted.
        wanted: NameCheck,
    },
    /// A key usage is asked for.
    #[error("its certificate has no key usage extension, which is asked for")]
    NoKeyUsage,
    /// Another key usage is asked for.
    #[error("its certificate's key usage is {found}, which is not allowed")]
    KeyUsage {
        /// The one that it has, in hexadecimal, or `absent`.
        found: String,
    },
    /// Another extended key usage is asked for.
    #[error("its certificate's extended key usage is {found}, but {wanted} is asked for")]
    ExtendedUsage {
        /// The dotted OIDs that it has, or `absent`.
        found: String,
        /// The dotted OID that is asked for.
        wanted: String,
    },
    /// An extended key usage for the peer's role is asked for.
    #[error("its certificate has no extended key usage of a {wanted}, which is asked for")]
    NoUsage {
        /// `server` or `client`.
        wanted: &'static str,
    },
    /// Its key must not be used in the handshake of the peer's role.
    #[error(
        "its certificate cannot be a {wanted}'s: its keyUsage needs digitalSignature, and its nsCertType, if it has one, must say {wanted}"
    )]
    WrongKey {
        /// `server` or `client`.
        wanted: &'static str,
    },
    /// Its fingerprint is none of the accepted ones.
    #[error(
        "its certificate ({subject}) is none of those that are accepted; its SHA-256 fingerprint is {found}"
    )]
    Fingerprint {
        /// Its subject.
        subject: String,
        /// Its fingerprint, as [`certificate::fingerprint`] gives it.
        found: String,
    },
    /// The fingerprint of its issuer is none of the accepted ones.
    #[error("the certificate that issued its certificate is none of those that are accepted")]
    IssuerFingerprint,
    /// Its RSA key is too short.
    #[error("its certificate has an RSA key of {bits} bits; adit accepts {least} and more", least = certificate::LEAST_RSA_BITS)]
    SmallKey {
        /// The key's length.
        bits: usize,
    },
    /// A signature algorithm in its path is not accepted.
    #[error(
        "a certificate in its path is signed with an algorithm that adit does not accept, such as SHA-1 or MD5: it must be signed again, with SHA-256 or better"
    )]
    SignatureAlgorithm,
    /// A signature in its path is wrong.
    #[error(
        "a signature in its certificate path is not by the CA of that name: another CA has the same name, or a certificate was altered"
    )]
    Signature,
    /// A name constraint of its path does not hold, or cannot be judged.
    #[error(
        "a name in its certificate is outside what a CA certificate of its path permits (nameConstraints); adit judges none on directory names, and refuses what is under such a one"
    )]
    NameConstraint,
    /// A certificate in its path is of an older version.
    #[error(
        "a certificate in its path is not of version 3 (X.509): it must be issued again, with extensions"
    )]
    Version,
    /// The certificate is a CA's.
    #[error(
        "its certificate is that of a CA (basicConstraints CA:TRUE), which must not be used by a server or a client"
    )]
    IsACa,
    /// A CA certificate of its path cannot stand there.
    #[error("the CA certificate {0}")]
    Authority(FaultyCa),
    /// Its path ends before it comes to a self-signed certificate.
    #[error(
        "the path of its certificate ends at {last}, which is not self-signed, and the certificate of its issuer ({issuer}) is not among those that are trusted"
    )]
    NoRoot {
        /// How many certificates of the path stand below its last one.
        depth: usize,
        /// The last one is trusted, and was not sent by the peer.
        is_trusted: bool,
        /// The subject of the last certificate of the path.
        last: String,
        /// The name of the issuer that is missing.
        issuer: String,
    },
    /// Another fault of its path, as webpki says it.
    #[error("{0}")]
    Path(String),
}

/// The reason of a refusal, with the name of the certificate at fault where that is not the leaf.
pub(crate) fn named_refusal(
    authorities: &Authorities,
    leaf: &CertificateDer<'_>,
    sent: &[CertificateDer<'_>],
    terms: Terms<'_>,
    error: webpki::Error,
) -> Refusal {
    use webpki::Error as E;
    let path = authorities.follow(leaf, sent);
    let own_fault = match error {
        E::CertExpired { .. } | E::CertNotValidYet { .. } => !is_in_time(leaf, terms.now),
        E::RequiredEkuNotFoundContext(_) => {
            X509Certificate::from_der(leaf).is_ok_and(|(_, leaf)| !certificate::is_for(&leaf, terms.purpose))
        }
        E::EndEntityUsedAsCa | E::PathLenConstraintViolated | E::InvalidSignatureForPublicKey => false,
        E::UnknownIssuer => return no_root(authorities, &path),
        E::UnsupportedSignatureAlgorithmContext(_) => return weak_signature(leaf, &path),
        _ => true,
    };
    let path: Vec<_> = path.into_iter().map(CaFacts::read).collect();
    match ca_fault::first_fault(path.iter().map(Option::as_ref), terms) {
        Some(faulty) if !own_fault => Refusal::Authority(faulty),
        _ => path_refusal(error),
    }
}

/// The refusal that follows from a revocation list's fault for the certificate at that depth, which is not on
/// it.
pub(crate) fn list_refusal(
    (depth, subject): (usize, String),
    issuer: String,
    fault: ListFault,
    now: UnixTime,
) -> Refusal {
    match fault {
        ListFault::Revoked => Refusal::Revoked,
        ListFault::Expired(at) => {
            let seconds = u64::try_from(at.timestamp()).unwrap_or_default();
            let next_update = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            Refusal::ListExpired { depth, subject, now, next_update }
        }
        fault => Refusal::List { depth, subject, issuer, fault },
    }
}

/// No path leads to a self-signed certificate. `above` stand above the leaf, as far as the path goes.
fn no_root(authorities: &Authorities, above: &[&CertificateDer<'_>]) -> Refusal {
    let depth = above.len();
    let is_trusted = above.last().is_some_and(|last| authorities.trusts(last));
    let parsed = above.last().filter(|last| !authorities.is_root(last));
    match parsed.and_then(|last| X509Certificate::from_der(last).ok()) {
        Some((_, last)) => {
            let [last, issuer] = [last.subject(), last.issuer()].map(subject_text);
            Refusal::NoRoot { depth, is_trusted, last, issuer }
        }
        None => Refusal::UnknownIssuer,
    }
}

/// The first certificate of the path that is signed with a weak algorithm: the leaf's own refusal where none above it is.
fn weak_signature(leaf: &CertificateDer<'_>, above: &[&CertificateDer<'_>]) -> Refusal {
    let path = std::iter::once(leaf).chain(above.iter().copied());
    let parsed = path.filter_map(|it| Some(X509Certificate::from_der(it).ok()?.1));
    match parsed.enumerate().find(|(_, it)| certificate::is_weakly_signed(it)) {
        Some((depth @ 1.., ca)) => {
            let subject = subject_text(ca.subject());
            Refusal::Authority(FaultyCa { depth, subject, fault: CaFault::WeakSignature })
        }
        _ => Refusal::SignatureAlgorithm,
    }
}

fn is_in_time(certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    X509Certificate::from_der(certificate).is_ok_and(|(_, parsed)| {
        let validity = parsed.validity();
        (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now)
    })
}

/// The refusal that follows from webpki's error about a path.
pub(crate) fn path_refusal(error: webpki::Error) -> Refusal {
    use webpki::Error as E;
    match error {
        E::CertExpired { time, not_after } => Refusal::Expired { now: time, not_after },
        E::CertNotValidYet { time, not_before } => Refusal::NotValidYet { now: time, not_before },
        E::UnknownIssuer => Refusal::UnknownIssuer,
        E::UnsupportedSignatureAlgorithmContext(_) => Refusal::SignatureAlgorithm,
        E::InvalidSignatureForPublicKey => Refusal::Signature,
        E::NameConstraintViolation => Refusal::NameConstraint,
        E::UnsupportedCertVersion => Refusal::Version,
        E::CaUsedAsEndEntity => Refusal::IsACa,
        E::RequiredEkuNotFoundContext(_) => Refusal::WrongPurpose,
        E::BadDer | E::BadDerTime | E::TrailingData(_) => Refusal::BadEncoding,
        other => Refusal::Path(other.to_string()),
    }
}
