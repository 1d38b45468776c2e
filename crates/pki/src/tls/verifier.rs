//! The verdict on a peer's certificate, as rustls asks for it.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::verify::CertificateDemand;

/// The verdict on the certificates that a peer shows in a TLS handshake.
pub trait Judge: fmt::Debug + Send + Sync {
    /// Whether a client must show a certificate. A server always must.
    fn demand(&self) -> CertificateDemand;

    /// Judges the certificate of a peer and the others that it sent.
    ///
    /// # Errors
    /// The peer is refused. The variant of the error decides which alert the peer gets.
    fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error>;
}

/// A verifier of the certificates of servers and of clients alike, by the verdict of `J`. The host name that a server was reached by
/// plays no part.
#[derive(Debug)]
pub struct TlsVerifier<J> {
    judge: J,
    algorithms: WebPkiSupportedAlgorithms,
}

impl<J: Judge> TlsVerifier<J> {
    /// A verifier that takes signatures of handshakes by these algorithms.
    pub fn new(judge: J, algorithms: WebPkiSupportedAlgorithms) -> Arc<Self> {
        Arc::new(TlsVerifier { judge, algorithms })
    }

    /// The judge.
    pub fn judge(&self) -> &J {
        &self.judge
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

impl<J: Judge> ServerCertVerifier for TlsVerifier<J> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge.judge(end_entity, intermediates, now).map(|()| ServerCertVerified::assertion())
    }

    handshake_signatures!();
}

impl<J: Judge> ClientCertVerifier for TlsVerifier<J> {
    fn offer_client_auth(&self) -> bool {
        self.judge.demand() != CertificateDemand::None
    }

    fn client_auth_mandatory(&self) -> bool {
        self.judge.demand() == CertificateDemand::Require
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
        self.judge.judge(end_entity, intermediates, now).map(|()| ClientCertVerified::assertion())
    }

    handshake_signatures!();
}
