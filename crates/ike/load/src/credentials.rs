//! The credentials of initiators and responder.

use std::sync::Arc;

use adit_ike::machine::{
    CertificatePolicy, LocalProof, OwnCertificate, PeerCertificates, RemoteProof, SharedKey,
};
use adit_load::{LoadError, seed};
use adit_pki::issue::{Authority, Issued, Serial};
use adit_pki::signature::{CertificateKey, OwnKey, Sha1};
use adit_pki::{
    Authorities, PeerRequirements, PrivateKey, Purpose, SIGNATURE_ALGORITHMS, Verifier, pem,
    public_key_digest,
};
use time::OffsetDateTime;

use crate::names::KEY;

/// The credentials by which initiators and responder prove their identities.
pub enum Credentials {
    /// One pre-shared key, which all load generators have.
    SharedKey,
    /// A certificate for each end, with an ECDSA key on P-256.
    Certificates(Box<Certificates>),
}

impl Credentials {
    /// The proof of the end with this identity, a host name.
    ///
    /// # Errors
    /// A certificate cannot be issued.
    pub(crate) fn local(&self, identity: &str) -> Result<LocalProof, LoadError> {
        match self {
            Credentials::SharedKey => Ok(LocalProof::SharedKey(shared_key())),
            Credentials::Certificates(certificates) => certificates.local(identity),
        }
    }

    /// The proof that the other end must show.
    pub(crate) fn remote(&self) -> RemoteProof {
        match self {
            Credentials::SharedKey => RemoteProof::SharedKey(shared_key()),
            Credentials::Certificates(certificates) => {
                RemoteProof::Certificate(certificates.accepted.clone())
            }
        }
    }
}

fn shared_key() -> SharedKey {
    SharedKey(KEY.as_bytes().to_vec().into())
}

/// An authority that issues the certificates of all ends.
pub struct Certificates {
    authority: Authority,
    /// The certificates that an end accepts of the other.
    accepted: PeerCertificates,
}

impl Certificates {
    /// A new authority.
    ///
    /// # Errors
    /// A key cannot be made.
    pub fn create() -> Result<Box<Self>, LoadError> {
        let authority = Authority::create("The authority of load", &serial(), OffsetDateTime::now_utc());
        Certificates::of(authority.map_err(fault)?)
    }

    /// The authority with this certificate and this private key, both in PEM.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn load(certificate: &str, key: &str) -> Result<Box<Self>, LoadError> {
        Certificates::of(Authority::load(certificate, key).map_err(fault)?)
    }

    fn of(authority: Authority) -> Result<Box<Self>, LoadError> {
        let own = pem::certificates(authority.certificate().as_bytes()).map_err(fault)?;
        let requested = own.iter().filter_map(public_key_digest).collect();
        let authorities = Authorities::new(own).map_err(fault)?;
        let requirements = PeerRequirements::default();
        let verifier = Verifier::new(Purpose::Any, Some(authorities), requirements, SIGNATURE_ALGORITHMS);
        let (verifier, known) = (Arc::new(verifier), Vec::new());
        let accepted = PeerCertificates { verifier, known, requested, sha1: Sha1::Refused };
        Ok(Box::new(Certificates { authority, accepted }))
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// A new certificate for a host name.
    pub(crate) fn issue(&self, identity: &str) -> Result<Issued, LoadError> {
        let now = OffsetDateTime::now_utc();
        self.authority.issue(Purpose::Any, identity, &serial(), now).map_err(fault)
    }

    fn local(&self, identity: &str) -> Result<LocalProof, LoadError> {
        let issued = self.issue(identity)?;
        let mut certificates = pem::certificates(issued.certificate.as_bytes()).map_err(fault)?;
        let certificate = certificates.pop().ok_or_else(|| fault("it has no certificate"))?;
        let key = PrivateKey::read(issued.key.as_bytes()).map_err(fault)?;
        let key = OwnKey::new(&key).map_err(fault)?;
        Ok(LocalProof::Certificate(OwnCertificate {
            key: CertificateKey::new(certificate, Arc::new(key)).map_err(fault)?,
            chain: Vec::new(),
            policy: CertificatePolicy::Always,
            sha1: Sha1::Refused,
        }))
    }
}

fn serial() -> Serial {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&seed()[..16]);
    Serial::from_random(bytes)
}

fn fault<E: std::fmt::Display>(error: E) -> LoadError {
    LoadError::key("a certificate")(error)
}
