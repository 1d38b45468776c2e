//! Who the other end must be: certificate chain, purpose and name.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use webpki::{EndEntityCert, KeyUsage, VerifiedPath};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::authorities::Authorities;
use crate::ca_fault::Terms;
use crate::certificate::{self, NameFields, subject_text};
use crate::revocation::Revocations;
use crate::verify_error::{NotThePeer, certificate_error, named_error};

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

impl Purpose {
    /// The end that stands there.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Purpose::Server => "server",
            Purpose::Client => "client",
        }
    }
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

/// Verifies a peer's certificate as OpenVPN does: chain, purpose, fingerprint and `verify-x509-name`; the host
/// name it was reached by plays no part.
#[derive(Debug)]
pub(crate) struct PeerVerifier {
    purpose: Purpose,
    authorities: Option<Authorities>,
    requirements: PeerRequirements,
    provider: Arc<CryptoProvider>,
}

impl PeerVerifier {
    /// Without authorities, fingerprints alone decide who comes in; there must be some then.
    pub(crate) fn new(
        purpose: Purpose,
        authorities: Option<Authorities>,
        requirements: PeerRequirements,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        PeerVerifier { purpose, authorities, requirements, provider }
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
        if certificate::is_malformed(&parsed) {
            return Err(NotThePeer::Malformed.into());
        }
        if let Some(bits) = certificate::small_rsa_key(&parsed) {
            return Err(NotThePeer::SmallKey { bits }.into());
        }
        let lists = self.requirements.revocations.as_ref().map(Revocations::current);
        let algorithms = self.provider.signature_verification_algorithms.all;
        let terms = Terms { purpose: self.purpose, now, lists: lists.as_deref(), algorithms };
        match &self.authorities {
            Some(authorities) => self.verify_chain(authorities, (certificate, &parsed), chain, terms)?,
            None => self.verify_alone(certificate, terms)?,
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

    /// Without authorities, fingerprints decide. As in OpenVPN everything else about the chain is irrelevant then, dates
    /// included. Revocation lists are consulted though nothing can verify their signatures: they are named in the
    /// configuration. OpenVPN lets the peer in, and throws it out when it reads the list again.
    fn verify_alone(&self, certificate: &CertificateDer<'_>, terms: Terms<'_>) -> Result<(), Error> {
        if self.requirements.fingerprints.is_empty() {
            return Err(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        }
        if terms.lists.is_some_and(|lists| lists.names(certificate)) {
            return Err(Error::InvalidCertificate(CertificateError::Revoked));
        }
        Ok(())
    }

    fn verify_chain(
        &self,
        authorities: &Authorities,
        (certificate, parsed): (&CertificateDer<'_>, &X509Certificate<'_>),
        chain: &[CertificateDer<'_>],
        terms: Terms<'_>,
    ) -> Result<(), Error> {
        let entity = EndEntityCert::try_from(certificate).map_err(certificate_error)?;
        // As OpenSSL: a certificate with another extended key usage alone may not stand in the path, wherever. That
        // the leaf has one at all is asked by `check_usages`.
        let usage = KeyUsage::required_if_present(match self.purpose {
            Purpose::Server => EKU_SERVER,
            Purpose::Client => EKU_CLIENT,
        });
        let candidates = authorities.candidates(chain);
        let refused = RefCell::new(None);
        let judge = |path: &VerifiedPath<'_>| {
            authorities.judge(parsed, path, terms).map_err(|error| {
                refused.borrow_mut().get_or_insert(error);
                webpki::Error::UnknownIssuer
            })
        };
        // Revocation is judged by `judge`: webpki compares the names of issuers byte for byte, and takes the first of
        // several lists.
        let (algorithms, anchors) = (terms.algorithms, authorities.anchors());
        let path = entity
            .verify_for_usage(algorithms, anchors, &candidates, terms.now, usage, None, Some(&judge))
            .map_err(|error| match refused.take() {
                Some(refused) => refused,
                None => named_error(authorities, certificate, chain, terms, error),
            })?;
        if !certificate::can_shake_hands(parsed, self.purpose) {
            return Err(NotThePeer::WrongKey { wanted: self.purpose.noun() }.into());
        }
        self.check_issuer(authorities, &path)
    }

    /// `verify-hash`.
    fn check_issuer(&self, authorities: &Authorities, path: &VerifiedPath<'_>) -> Result<(), Error> {
        let wanted = &self.requirements.issuer_fingerprints;
        if wanted.is_empty() {
            return Ok(());
        }
        let is_wanted = |issuer: &CertificateDer<'_>| certificate::is_one_of(issuer, wanted);
        let good = match path.intermediate_certificates().next() {
            Some(intermediate) => is_wanted(&intermediate.der()),
            None => authorities.roots_of(path).any(is_wanted),
        };
        if !good {
            return Err(NotThePeer::IssuerFingerprint.into());
        }
        Ok(())
    }

    fn check_usages(&self, parsed: &X509Certificate<'_>) -> Result<(), NotThePeer> {
        let found = certificate::key_usage(parsed);
        if self.requirements.require_usage && found.is_none() {
            return Err(NotThePeer::NoKeyUsage);
        }
        if self.requirements.require_usage && !certificate::names_purpose(parsed, self.purpose) {
            return Err(NotThePeer::NoUsage { wanted: self.purpose.noun() });
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
