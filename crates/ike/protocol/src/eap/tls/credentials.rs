//! The certificates of one end of EAP-TLS.

use std::sync::Arc;

use adit_pki::Verifier;
use adit_pki::signature::CertificateKey;
use rustls_pki_types::CertificateDer;

/// The certificate of this end, and the certificates that it accepts of the other end.
#[derive(Clone, Debug)]
pub struct TlsCredentials {
    /// The key, with the certificate.
    pub key: CertificateKey,
    /// The certificates of the authorities between this end's certificate and the root, in this order.
    pub chain: Vec<CertificateDer<'static>>,
    /// Judges the certificate that the other end shows. Beside that, the certificate must have the other end's identity.
    pub verifier: Arc<Verifier>,
    /// The versions of TLS that this end takes.
    pub versions: TlsVersions,
}

/// Versions of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersions {
    /// TLS 1.2 and 1.3, the latter by preference.
    #[default]
    Both,
    /// TLS 1.2 alone.
    Tls12,
    /// TLS 1.3 alone.
    Tls13,
}
