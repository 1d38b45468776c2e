//! The check of a path whose signatures, names and dates are verified: its CA certificates, and revocation.

use std::time::Duration;

use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::ca_fault::{CaFacts, CaFault, FaultyCa, Terms, first_fault};
use crate::certificate::subject_text;
use crate::list_fault::ListFault;
use crate::refusal::Refusal;

/// A certificate above the leaf, and its facts. `None`: it cannot be read.
pub(crate) type Above<'a> = (&'a CertificateDer<'a>, Option<&'a CaFacts>);

/// Judges a path whose signatures, names and dates are verified: `above` stand above the leaf, the root last.
///
/// # Errors
/// The fault.
pub(crate) fn judge(
    leaf: &X509Certificate<'_>,
    above: &[Above<'_>],
    terms: Terms<'_>,
) -> Result<(), Refusal> {
    if let Some(faulty) = first_fault(above.iter().map(|(_, facts)| *facts), terms) {
        return Err(Refusal::Authority(faulty));
    }
    let Some(lists) = terms.lists else { return Ok(()) };
    let above: Vec<X509Certificate<'_>> =
        above.iter().filter_map(|(it, _)| Some(X509Certificate::from_der(it).ok()?.1)).collect();
    let path: Vec<&X509Certificate<'_>> = std::iter::once(leaf).chain(&above).collect();
    for (depth, certificate) in path.iter().enumerate() {
        // The root is its own issuer: it can stand on its own list.
        let issuer = path.get(depth + 1).unwrap_or(certificate);
        match lists.fault(certificate, issuer, terms.now, terms.algorithms) {
            None => {}
            Some(ListFault::Revoked) if depth == 0 => {
                return Err(Refusal::Revoked);
            }
            Some(ListFault::Revoked) => {
                let faulty =
                    FaultyCa { depth, subject: subject_text(certificate.subject()), fault: CaFault::Revoked };
                return Err(Refusal::Authority(faulty));
            }
            Some(fault) => {
                return Err(list_refusal(
                    (depth, subject_text(certificate.subject())),
                    subject_text(issuer.subject()),
                    fault,
                    terms.now,
                ));
            }
        }
    }
    Ok(())
}

/// The refusal that follows from a revocation list's fault for the certificate at that depth, which is not on
/// it.
fn list_refusal(
    (depth, subject): (usize, String),
    issuer: String,
    fault: ListFault,
    now: UnixTime,
) -> Refusal {
    match fault {
        ListFault::Revoked => Refusal::Revoked,
        ListFault::Expired(at) => {
            let seconds = u64::try_from(at.timestamp()).unwrap_or_default();
            let next_update = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            Refusal::ListExpired { depth, subject, now, next_update }
        }
        fault => Refusal::List { depth, subject, issuer, fault },
    }
}
