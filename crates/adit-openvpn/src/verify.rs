//! Who the other end must be: certificate chain, purpose and name.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use thiserror::Error;
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, RevocationCheckDepth,
    RevocationOptionsBuilder, UnknownStatusPolicy,
};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::certificate::{self, NameFields, subject_text};
use crate::revocation::{Lists, Revocations};

/// id-kp-serverAuth (RFC 5280 §4.2.1.12), the value bytes of its DER.
const EKU_SERVER: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
/// id-kp-clientAuth.
const EKU_CLIENT: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];

/// What a certificate is for: whose end of the connection it stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A server's certificate.
    Server,
    /// A client's certificate.
    Client,
}

/// `verify-x509-name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameCheck {
    /// The whole subject as OpenVPN prints it: `C=DE, O=Example, CN=server`.
    Subject(String),
    /// The name by which the peer is known: the common name, unless `x509-username-field` says otherwise.
    CommonName(String),
    /// The beginning of that name.
    CommonNamePrefix(String),
}

impl fmt::Display for NameCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameCheck::Subject(name) => write!(f, "subject \"{name}\""),
            NameCheck::CommonName(name) => write!(f, "common name \"{name}\""),
            NameCheck::CommonNamePrefix(name) => write!(f, "common name beginning with \"{name}\""),
        }
    }
}

/// Whether a client must show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertificateDemand {
    /// It must.
    #[default]
    Require,
    /// It may; one that is shown must be good.
    Optional,
    /// It is not asked.
    None,
}

/// What the configuration asks of the peer's certificate, besides a chain to a trusted CA.
#[derive(Clone, Debug, Default)]
pub struct PeerRequirements {
    /// `remote-cert-tls`: key usage and extended key usage must be present, not merely not contradict.
    pub require_usage: bool,
    /// `remote-cert-ku`: the key usage must be there and, unless the list is empty, have all bits of one of
    /// these, counted as OpenVPN does (digitalSignature is 0x80).
    pub key_usages: Option<Vec<u16>>,
    /// `remote-cert-eku`: a dotted OID that the extended key usage must name.
    pub extended_usage: Option<String>,
    /// `peer-fingerprint`: SHA-256 of the certificates to let in; empty for no such limit.
    pub fingerprints: Vec<Vec<u8>>,
    /// `verify-hash`: SHA-1 or SHA-256 (20 or 32 bytes) of the certificates that may have issued the peer's;
    /// empty for no such limit.
    pub issuer_fingerprints: Vec<Vec<u8>>,
    /// `verify-x509-name`.
    pub name: Option<NameCheck>,
    /// `x509-username-field`: what names the peer.
    pub name_fields: NameFields,
    /// `verify-client-cert`: whether clients must show a certificate. A server always must.
    pub demand: CertificateDemand,
    /// `crl-verify`: which certificates are valid no more.
    pub revocations: Option<Revocations>,
}

/// The peer's certificate is valid but not the one that the configuration asks for.
#[derive(Debug, Error)]
enum NotThePeer {
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
    #[error("its certificate has a NUL in its subject: somebody tries to pass for somebody else")]
    Nul,
    #[error("its certificate cannot be read: {0}")]
    Unreadable(String),
}

impl From<NotThePeer> for Error {
    fn from(error: NotThePeer) -> Self {
        Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
    }
}

/// An authority: what verification takes of it, and its whole certificate.
#[derive(Clone, Debug)]
pub(crate) struct Anchor {
    pub(crate) trust: TrustAnchor<'static>,
    pub(crate) certificate: CertificateDer<'static>,
}

/// Verifies a peer's certificate as OpenVPN does: chain, purpose, fingerprint and `verify-x509-name`; the host
/// name it was reached by plays no part.
#[derive(Debug)]
pub(crate) struct PeerVerifier {
    purpose: Purpose,
    anchors: Vec<TrustAnchor<'static>>,
    authorities: Vec<CertificateDer<'static>>,
    requirements: PeerRequirements,
    provider: Arc<CryptoProvider>,
}

impl PeerVerifier {
    /// Without anchors, fingerprints alone decide who comes in; there must be some then.
    pub(crate) fn new(
        purpose: Purpose,
        anchors: Vec<Anchor>,
        requirements: PeerRequirements,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        let (anchors, authorities) = anchors.into_iter().map(|it| (it.trust, it.certificate)).unzip();
        PeerVerifier { purpose, anchors, authorities, requirements, provider }
    }

    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|error| NotThePeer::Unreadable(error.to_string()))?;
        if certificate::has_nul(parsed.subject()) {
            return Err(NotThePeer::Nul.into());
        }
        let lists = self.requirements.revocations.as_ref().map(Revocations::current);
        // As in OpenVPN, a fingerprint without an authority makes everything else about the chain irrelevant,
        // dates included.
        if !self.anchors.is_empty() || self.requirements.fingerprints.is_empty() {
            self.verify_chain(certificate, chain, lists.as_deref(), now)?;
        }
        if let Some(lists @ Lists::Serials(_)) = lists.as_deref()
            && std::iter::once(certificate).chain(chain).any(|certificate| lists.names(certificate))
        {
            return Err(Error::InvalidCertificate(CertificateError::Revoked));
        }
        let fingerprints = &self.requirements.fingerprints;
        if !fingerprints.is_empty() && !certificate::is_one_of(certificate, fingerprints) {
            let subject = subject_text(parsed.subject());
            return Err(
                NotThePeer::Fingerprint { subject, found: certificate::fingerprint(certificate) }.into()
            );
        }
        self.check_usages(&parsed)?;
        self.check_name(&parsed)?;
        Ok(())
    }

    fn verify_chain(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        lists: Option<&Lists>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let entity = EndEntityCert::try_from(certificate).map_err(certificate_error)?;
        let oid = match self.purpose {
            Purpose::Server => EKU_SERVER,
            Purpose::Client => EKU_CLIENT,
        };
        let usage = if self.requirements.require_usage {
            KeyUsage::required(oid)
        } else {
            KeyUsage::required_if_present(oid)
        };
        let algorithms = self.provider.signature_verification_algorithms.all;
        let signed: Vec<&CertRevocationList<'_>> = match lists {
            Some(Lists::Signed(lists)) => lists.iter().collect(),
            _ => Vec::new(),
        };
        // As OpenVPN: an authority without a list has revoked nothing; a list past its date lets nobody in.
        let revocation = RevocationOptionsBuilder::new(&signed).ok().map(|builder| {
            builder
                .with_depth(RevocationCheckDepth::Chain)
                .with_status_policy(UnknownStatusPolicy::Allow)
                .with_expiration_policy(ExpirationPolicy::Enforce)
                .build()
        });
        let path = entity
            .verify_for_usage(algorithms, &self.anchors, chain, now, usage, revocation, None)
            .map_err(certificate_error)?;
        let wanted = &self.requirements.issuer_fingerprints;
        if !wanted.is_empty() {
            let issuer = match path.intermediate_certificates().next() {
                Some(intermediate) => Some(intermediate.der()),
                None => {
                    let place = self.anchors.iter().position(|anchor| anchor == path.anchor());
                    place.and_then(|place| self.authorities.get(place)).cloned()
                }
            };
            if !issuer.is_some_and(|issuer| certificate::is_one_of(&issuer, wanted)) {
                return Err(NotThePeer::IssuerFingerprint.into());
            }
        }
        Ok(())
    }

    fn check_usages(&self, parsed: &X509Certificate<'_>) -> Result<(), NotThePeer> {
        let found = certificate::key_usage(parsed);
        if self.requirements.require_usage && found.is_none() {
            return Err(NotThePeer::NoKeyUsage);
        }
        if let Some(allowed) = &self.requirements.key_usages {
            let fits = |found: u16| {
                allowed.is_empty() || allowed.iter().any(|bits| *bits != 0 && found & bits == *bits)
            };
            if !found.is_some_and(fits) {
                let found = found.map_or("absent".to_owned(), |found| format!("{found:02x}"));
                return Err(NotThePeer::KeyUsage { found });
            }
        }
        if let Some(wanted) = &self.requirements.extended_usage {
            let found = certificate::extended_key_usage(parsed);
            if !found.contains(wanted) {
                let found = if found.is_empty() { "absent".to_owned() } else { found.join(", ") };
                return Err(NotThePeer::ExtendedUsage { found, wanted: wanted.clone() });
            }
        }
        Ok(())
    }

    fn check_name(&self, parsed: &X509Certificate<'_>) -> Result<(), NotThePeer> {
        let Some(wanted) = &self.requirements.name else { return Ok(()) };
        let subject = subject_text(parsed.subject());
        let name = self.requirements.name_fields.read(parsed).unwrap_or_default();
        let (matches, found) = match wanted {
            NameCheck::Subject(wanted) => (*wanted == subject, format!("subject \"{subject}\"")),
            NameCheck::CommonName(wanted) => (*wanted == name, format!("common name \"{name}\"")),
            NameCheck::CommonNamePrefix(prefix) => {
                (name.starts_with(prefix.as_str()), format!("common name \"{name}\""))
            }
        };
        if matches { Ok(()) } else { Err(NotThePeer::Name { found, wanted: wanted.clone() }) }
    }

    fn verify_tls12(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }
}

fn certificate_error(error: webpki::Error) -> Error {
    use webpki::Error as E;
    let error = match error {
        E::CertExpired { time, not_after } => CertificateError::ExpiredContext { time, not_after },
        E::CertNotValidYet { time, not_before } => CertificateError::NotValidYetContext { time, not_before },
        E::UnknownIssuer => CertificateError::UnknownIssuer,
        E::CertRevoked => CertificateError::Revoked,
        E::CrlExpired { time, next_update } => {
            CertificateError::ExpiredRevocationListContext { time, next_update }
        }
        E::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        E::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        E::BadDer | E::BadDerTime | E::TrailingData(_) => CertificateError::BadEncoding,
        other => CertificateError::Other(OtherError(Arc::new(other))),
    };
    Error::InvalidCertificate(error)
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify(end_entity, intermediates, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_tls12(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_tls13(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for PeerVerifier {
    fn offer_client_auth(&self) -> bool {
        self.requirements.demand != CertificateDemand::None
    }

    fn client_auth_mandatory(&self) -> bool {
        self.requirements.demand == CertificateDemand::Require
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify(end_entity, intermediates, now).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_tls12(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_tls13(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
