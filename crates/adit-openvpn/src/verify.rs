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
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

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
    /// The common name.
    CommonName(String),
    /// The beginning of the common name.
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

/// What the configuration asks of the peer's certificate, besides a chain to a trusted CA.
#[derive(Clone, Debug, Default)]
pub struct PeerRequirements {
    /// `remote-cert-tls`: key usage and extended key usage must be present, not merely not contradict.
    pub require_usage: bool,
    /// `verify-x509-name`.
    pub name: Option<NameCheck>,
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
    #[error("its certificate cannot be read: {0}")]
    Unreadable(String),
}

impl From<NotThePeer> for Error {
    fn from(error: NotThePeer) -> Self {
        Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
    }
}

/// Verifies a peer's certificate as OpenVPN does: chain, purpose and `verify-x509-name`; the host name it was
/// reached by plays no part.
#[derive(Debug)]
pub(crate) struct PeerVerifier {
    purpose: Purpose,
    anchors: Vec<TrustAnchor<'static>>,
    requirements: PeerRequirements,
    provider: Arc<CryptoProvider>,
}

impl PeerVerifier {
    pub(crate) fn new(
        purpose: Purpose,
        anchors: Vec<TrustAnchor<'static>>,
        requirements: PeerRequirements,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        PeerVerifier { purpose, anchors, requirements, provider }
    }

    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
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
        let lists = self.requirements.revocations.as_ref().map(Revocations::current);
        let signed: Vec<&CertRevocationList<'_>> = match lists.as_deref() {
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
        entity
            .verify_for_usage(algorithms, &self.anchors, chain, now, usage, revocation, None)
            .map_err(certificate_error)?;
        if let Some(lists @ Lists::Serials(_)) = lists.as_deref()
            && std::iter::once(certificate).chain(chain).any(|certificate| lists.names(certificate))
        {
            return Err(Error::InvalidCertificate(CertificateError::Revoked));
        }
        self.check_requirements(certificate)?;
        Ok(())
    }

    fn check_requirements(&self, certificate: &CertificateDer<'_>) -> Result<(), NotThePeer> {
        if !self.requirements.require_usage && self.requirements.name.is_none() {
            return Ok(());
        }
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|error| NotThePeer::Unreadable(error.to_string()))?;
        if self.requirements.require_usage && !matches!(parsed.key_usage(), Ok(Some(_))) {
            return Err(NotThePeer::NoKeyUsage);
        }
        let Some(wanted) = &self.requirements.name else { return Ok(()) };
        let subject = subject_text(parsed.subject());
        let common_name = common_name(parsed.subject()).unwrap_or_default();
        let (matches, found) = match wanted {
            NameCheck::Subject(name) => (*name == subject, format!("subject \"{subject}\"")),
            NameCheck::CommonName(name) => (*name == common_name, format!("common name \"{common_name}\"")),
            NameCheck::CommonNamePrefix(prefix) => {
                (common_name.starts_with(prefix.as_str()), format!("common name \"{common_name}\""))
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

/// The subject as OpenVPN prints and compares it: `C=DE, O=Example, CN=server`.
pub(crate) fn subject_text(name: &X509Name<'_>) -> String {
    name.to_string()
}

/// The last common name in a subject, as OpenVPN takes it. `None` if there is none, or it holds a NUL.
pub(crate) fn common_name(name: &X509Name<'_>) -> Option<String> {
    let last = name.iter_common_name().last()?;
    let text = last.as_str().ok()?;
    (!text.contains('\0')).then(|| text.to_owned())
}

/// The common name of a certificate in DER.
pub(crate) fn certificate_common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    common_name(parsed.subject())
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
