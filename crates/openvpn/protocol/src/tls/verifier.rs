//! The verdict of [`adit_pki`] on certificates, as rustls asks for it.

use std::sync::Arc;

use adit_pki::{Authorities, CertificateDemand, PeerRequirements, Purpose, Verifier};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::certificate_fault::keep_refused;
use super::refusal::tls_error;

/// Verifies the certificates that peers show in TLS handshakes. The host name that a server was reached by plays no part.
#[derive(Debug)]
pub(crate) struct TlsVerifier {
    verifier: Verifier,
    algorithms: WebPkiSupportedAlgorithms,
}

impl TlsVerifier {
    /// See [`Verifier::new`].
    pub(crate) fn new(
        purpose: Purpose,
        authorities: Option<Authorities>,
        requirements: PeerRequirements,
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Arc<Self> {
        let verifier = Verifier::new(purpose, authorities, requirements, algorithms.all);
        Arc::new(TlsVerifier { verifier, algorithms })
    }

    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        self.verifier.verify(certificate, others, now).map_err(|refusal| {
            keep_refused(certificate, &refusal);
            tls_error(refusal)
        })
    }
}

/// The methods that rustls requires of a verifier of servers and of one of clients alike.
macro_rules! handshake_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, certificate, signature, &self.algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, certificate, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for TlsVerifier {
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

    handshake_signatures!();
}

impl ClientCertVerifier for TlsVerifier {
    fn offer_client_auth(&self) -> bool {
        self.verifier.demand() != CertificateDemand::None
    }

    fn client_auth_mandatory(&self) -> bool {
        self.verifier.demand() == CertificateDemand::Require
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

    handshake_signatures!();
}
