//! Why a peer's certificate is refused.

use rustls_pki_types::UnixTime;
use thiserror::Error;

use crate::ca_fault::FaultyCa;
use crate::certificate;
use crate::date;
use crate::list_fault::ListFault;
use crate::name_check::NameCheck;

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
