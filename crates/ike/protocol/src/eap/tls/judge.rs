//! The verdict on the other end's certificate.

use std::sync::{Arc, Mutex, PoisonError};

use adit_pki::tls::Judge;
use adit_pki::{CertificateDemand, Refusal, Verifier};
use rustls::{CertificateError, Error};
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::crypto::{is_named, not_named};
use crate::wire::Identification;

/// Judges the certificate of an end that has said its identity: the certificate must have it (CVE-2022-4967).
#[derive(Debug)]
pub(super) struct IdentityJudge {
    verifier: Arc<Verifier>,
    identity: Identification,
    /// The reason of the last refusal, for the log: rustls passes its own error on, whose variant is the alert.
    refused: Mutex<Option<String>>,
}

impl IdentityJudge {
    pub(super) const fn new(verifier: Arc<Verifier>, identity: Identification) -> Self {
        IdentityJudge { verifier, identity, refused: Mutex::new(None) }
    }

    /// The reason of the last refusal.
    pub(super) fn take_refusal(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn refuse(&self, reason: String, error: CertificateError) -> Error {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        Error::InvalidCertificate(error)
    }
}

impl Judge for IdentityJudge {
    fn demand(&self) -> CertificateDemand {
        CertificateDemand::Require
    }

    fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        if !is_named(certificate, &self.identity) {
            return Err(self.refuse(not_named(certificate), CertificateError::NotValidForName));
        }
        let judged = self.verifier.verify(certificate, others, now);
        judged.map_err(|refusal| self.refuse(refusal.to_string(), alert(&refusal)))
    }
}

/// The error whose alert says the reason to the other end.
const fn alert(refusal: &Refusal) -> CertificateError {
    match refusal {
        Refusal::UnknownIssuer | Refusal::NoRoot { .. } => CertificateError::UnknownIssuer,
        Refusal::Expired { .. } => CertificateError::Expired,
        Refusal::NotValidYet { .. } => CertificateError::NotValidYet,
        Refusal::Revoked => CertificateError::Revoked,
        _ => CertificateError::ApplicationVerificationFailure,
    }
}
