//! The verdict of [`adit_pki`] on certificates, as rustls asks for it.

use adit_pki::tls::Judge;
use adit_pki::{CertificateDemand, Verifier};
use rustls::Error;
use rustls::pki_types::{CertificateDer, UnixTime};

use super::certificate_fault::keep_refused;
use super::refusal::tls_error;

/// Judges the certificates that peers show in TLS handshakes.
#[derive(Debug)]
pub(crate) struct CertificateJudge(pub(crate) Verifier);

impl Judge for CertificateJudge {
    fn demand(&self) -> CertificateDemand {
        self.0.demand()
    }

    fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        self.0.verify(certificate, others, now).map_err(|refusal| {
            keep_refused(certificate, &refusal);
            tls_error(refusal)
        })
    }
}
