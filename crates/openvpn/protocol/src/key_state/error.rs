use adit_pki::date;
use thiserror::Error;

use crate::key_method::KeyMethodError;

/// Why a key exchange failed.
#[derive(Debug, Error)]
pub(crate) enum KeyStateError {
    #[error("{}", tls_text(.0))]
    Tls(#[from] rustls::Error),
    #[error("the peer broke the protocol: {0}")]
    Peer(String),
    #[error("what we say of ourselves does not fit a key method 2 message: {0}")]
    Ours(#[from] KeyMethodError),
    #[error("data keys were asked for before both sides sent their random numbers")]
    MissingKeySource,
}

/// TLS errors as they concern people who run a VPN.
fn tls_text(error: &rustls::Error) -> String {
    use rustls::{CertificateError, Error};
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the peer's certificate is not signed by the CA that ca names".to_owned()
        }
        Error::InvalidCertificate(CertificateError::InvalidPurpose) => {
            "the peer's certificate is not meant for its role (extended key usage, remote-cert-tls)"
                .to_owned()
        }
        Error::InvalidCertificate(CertificateError::ExpiredContext { time, not_after }) => format!(
            "the peer's certificate expired at {}: it must be renewed, unless this machine's clock ({}) is wrong",
            date(*not_after),
            date(*time)
        ),
        Error::InvalidCertificate(CertificateError::NotValidYetContext { time, not_before }) => format!(
            "the peer's certificate is not valid before {}: is this machine's clock ({}) right?",
            date(*not_before),
            date(*time)
        ),
        Error::InvalidCertificate(CertificateError::Revoked) => {
            "the peer's certificate was revoked (crl-verify)".to_owned()
        }
        Error::InvalidCertificate(CertificateError::ExpiredRevocationListContext { time, next_update }) => {
            format!(
                "the revocation list (crl-verify) expired at {}, so no peer can be accepted: put a newer one there, unless this machine's clock ({}) is wrong",
                date(*next_update),
                date(*time)
            )
        }
        Error::InvalidCertificate(CertificateError::Other(other)) => {
            format!("the peer is not who it should be: {other}")
        }
        Error::InvalidCertificate(reason) => format!("the peer's certificate is refused: {reason}"),
        Error::AlertReceived(alert) => format!(
            "the peer refused our TLS handshake (alert {alert:?}): its log says why; often our certificate expired, is revoked, or is signed by another CA"
        ),
        // Our key is held elsewhere, and did not sign.
        Error::Other(why) => why.to_string(),
        Error::NoCertificatesPresented => "the peer showed no certificate".to_owned(),
        other => format!("TLS: {other}"),
    }
}

impl KeyStateError {
    /// Whether the error rests on an unauthenticated message of the peer, which others can forge unless the packets are
    /// wrapped.
    pub(crate) fn is_hearsay(&self) -> bool {
        use rustls::Error;
        matches!(self, KeyStateError::Tls(Error::AlertReceived(_) | Error::PeerIncompatible(_)))
    }

    /// One end does not accept the certificate of the other end, so that the next attempt will hardly end
    /// otherwise.
    pub(crate) fn is_refusal(&self) -> bool {
        use rustls::{AlertDescription as Alert, Error};
        matches!(
            self,
            KeyStateError::Tls(
                Error::InvalidCertificate(_)
                    | Error::NoCertificatesPresented
                    | Error::PeerIncompatible(_)
                    | Error::AlertReceived(
                        Alert::BadCertificate
                            | Alert::UnsupportedCertificate
                            | Alert::CertificateRevoked
                            | Alert::CertificateExpired
                            | Alert::CertificateUnknown
                            | Alert::CertificateRequired
                            | Alert::UnknownCA
                            | Alert::AccessDenied
                            | Alert::HandshakeFailure
                            | Alert::ProtocolVersion
                    )
            )
        )
    }
}
