//! The identities of a connection's ends, and the credentials that prove them.

use std::fmt;
use std::sync::Arc;

use adit_pki::Verifier;
use adit_pki::signature::{CertificateKey, Sha1};
use rustls_pki_types::CertificateDer;

use crate::crypto::Secret;
use crate::eap::{Credentials, TlsCredentials, Users};
use crate::wire::{IdType, Identification};

/// The authentication of this end to the peer.
#[derive(Clone, Debug)]
pub struct LocalAuth {
    /// The identity that this end proves.
    pub identity: Identification,
    /// The credential that proves it.
    pub proof: LocalProof,
}

/// The credential of this end.
#[derive(Clone, Debug)]
pub enum LocalProof {
    /// A key that both ends have.
    SharedKey(SharedKey),
    /// The key of a certificate.
    Certificate(OwnCertificate),
    /// A name with a password or a certificate, by EAP. An initiator alone proves itself so (RFC 7296 section 2.16), and a responder
    /// whose peer does so, too (RFC 5998).
    Eap(Credentials),
}

/// The certificate of this end, with its key.
#[derive(Clone, Debug)]
pub struct OwnCertificate {
    /// The key, with the certificate.
    pub key: CertificateKey,
    /// The certificates of the authorities between this end's certificate and the root, in this order.
    pub chain: Vec<CertificateDer<'static>>,
    /// When the certificates are sent.
    pub policy: CertificatePolicy,
    /// Whether an RSA key signs with SHA-1 (method 1) for peers that do not know RFC 7427.
    pub sha1: Sha1,
}

/// When an end sends its certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertificatePolicy {
    /// In each authentication.
    #[default]
    Always,
    /// If the peer asks for certificates.
    IfAsked,
    /// Never: the peer has the certificate.
    Never,
}

/// The authentication that the peer must show.
#[derive(Clone, Debug)]
pub struct RemoteAuth {
    /// The identity that the peer must prove.
    pub identity: PeerIdentity,
    /// The credential that must prove it.
    pub proof: RemoteProof,
}

/// The identities that a connection accepts of its peer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerIdentity {
    /// Any identity that the credential proves. With a pre-shared key it says no more than that the peer has the key.
    Any,
    /// This identity.
    Exactly(Identification),
    /// The identities of this kind that end with these bytes, such as `.example.org` for `*.example.org`.
    EndingWith {
        /// The kind.
        kind: IdType,
        /// The last bytes. The identity has at least one byte before them.
        suffix: Vec<u8>,
    },
}

impl PeerIdentity {
    /// Whether the connection accepts the identity. Letters of host names and of mail addresses are equal in upper and lower case
    /// (RFC 4343).
    pub fn accepts(&self, identity: &Identification) -> bool {
        let folds = matches!(identity.kind, IdType::FQDN | IdType::RFC822_ADDR);
        let is_equal =
            |one: &[u8], other: &[u8]| if folds { one.eq_ignore_ascii_case(other) } else { one == other };
        match self {
            PeerIdentity::Any => true,
            PeerIdentity::Exactly(own) => own.kind == identity.kind && is_equal(&own.data, &identity.data),
            PeerIdentity::EndingWith { kind, suffix } => {
                let start = identity.data.len().checked_sub(suffix.len());
                let end = start.filter(|start| *start > 0).and_then(|start| identity.data.get(start..));
                *kind == identity.kind && end.is_some_and(|end| is_equal(suffix, end))
            }
        }
    }

    /// How exactly it names the peer; more is more exact.
    pub(crate) const fn precision(&self) -> u8 {
        match self {
            PeerIdentity::Exactly(_) => 2,
            PeerIdentity::EndingWith { .. } => 1,
            PeerIdentity::Any => 0,
        }
    }

    /// The only identity that the connection accepts.
    pub(crate) const fn exact(&self) -> Option<&Identification> {
        match self {
            PeerIdentity::Exactly(identity) => Some(identity),
            PeerIdentity::Any | PeerIdentity::EndingWith { .. } => None,
        }
    }
}

/// The credential that the peer must have.
#[derive(Clone, Debug)]
pub enum RemoteProof {
    /// A key that both ends have.
    SharedKey(SharedKey),
    /// The key of a certificate that these judge.
    Certificate(PeerCertificates),
    /// A name with a password or a certificate, by EAP. This end must be the responder, unless it proves itself by EAP, too (RFC
    /// 5998).
    Eap(EapUsers),
}

/// The users that a connection accepts by EAP, with the credentials of the methods that it offers. At least one method has some.
#[derive(Clone, Debug)]
pub struct EapUsers {
    /// The EAP identities that the connection accepts. `None`: the initiator is not asked for an EAP identity; its IKE identity is
    /// its name.
    pub names: Option<PeerIdentity>,
    /// The passwords, for EAP-MSCHAPv2.
    pub users: Option<Arc<Users>>,
    /// The certificates, for EAP-TLS, which is offered first. The peer's certificate must have the identity that is its name.
    pub tls: Option<Arc<TlsCredentials>>,
}

/// The certificates of the peer that are accepted.
#[derive(Clone, Debug)]
pub struct PeerCertificates {
    /// Judges the certificate that the peer sends.
    pub verifier: Arc<Verifier>,
    /// Certificates of the peer that this end has, for a peer that sends none. [`Self::verifier`] judges them, too.
    pub known: Vec<CertificateDer<'static>>,
    /// The SHA-1 digests of the public keys of the authorities that this end names when it asks for certificates (RFC 7296
    /// section 3.7). If there is none, this end does not ask.
    pub requested: Vec<[u8; 20]>,
    /// Whether signatures with SHA-1 are accepted of peers that do not know RFC 7427 (method 1).
    pub sha1: Sha1,
}

/// A pre-shared key.
#[derive(Clone)]
pub struct SharedKey(pub Secret);

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey(..)")
    }
}

/// A key that is mixed into the keys of the IKE SA beside the key exchange (RFC 8784).
#[derive(Clone, Debug)]
pub struct Ppk {
    /// Its name, which the initiator sends.
    pub identity: Vec<u8>,
    /// The key.
    pub key: SharedKey,
    /// Whether the connection fails if the peer does not have the key.
    pub is_required: bool,
}
