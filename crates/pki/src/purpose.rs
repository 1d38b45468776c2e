//! The purpose of a certificate, and the signature algorithms that are accepted.

use rustls_pki_types::SignatureVerificationAlgorithm;

/// The algorithms of signatures in paths that a protocol without limits of its own accepts: SHA-256 and longer with RSA of
/// 2048 bits and more, with NIST's curves, and Ed25519.
pub static SIGNATURE_ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = webpki::ALL_VERIFICATION_ALGS;

/// The purpose of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A server's certificate.
    Server,
    /// A client's certificate.
    Client,
    /// A certificate for either end, whatever its extended key usage says.
    Any,
}

impl Purpose {
    /// The end that shows it, as messages say it.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Purpose::Server => "server",
            Purpose::Client => "client",
            Purpose::Any => "peer",
        }
    }
}
