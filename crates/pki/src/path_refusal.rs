//! The refusals that follow from webpki's errors about a path.

use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::authorities::Authorities;
use crate::ca_fault::{self, CaFacts, CaFault, FaultyCa, Terms};
use crate::certificate::{self, subject_text};
use crate::refusal::Refusal;

/// The reason of a refusal, with the name of the certificate at fault where that is not the leaf.
pub(crate) fn named_refusal(
    authorities: &Authorities,
    leaf: &CertificateDer<'_>,
    sent: &[CertificateDer<'_>],
    terms: Terms<'_>,
    error: webpki::Error,
) -> Refusal {
    use webpki::Error as E;
    let path = authorities.follow(leaf, sent);
    let own_fault = match error {
        E::CertExpired { .. } | E::CertNotValidYet { .. } => !is_in_time(leaf, terms.now),
        E::RequiredEkuNotFoundContext(_) => {
            X509Certificate::from_der(leaf).is_ok_and(|(_, leaf)| !certificate::is_for(&leaf, terms.purpose))
        }
        E::EndEntityUsedAsCa | E::PathLenConstraintViolated | E::InvalidSignatureForPublicKey => false,
        E::UnknownIssuer => return no_root(authorities, &path),
        E::UnsupportedSignatureAlgorithmContext(_) => return weak_signature(leaf, &path),
        _ => true,
    };
    let path: Vec<_> = path.into_iter().map(CaFacts::read).collect();
    match ca_fault::first_fault(path.iter().map(Option::as_ref), terms) {
        Some(faulty) if !own_fault => Refusal::Authority(faulty),
        _ => path_refusal(error),
    }
}

/// No path leads to a self-signed certificate. `above` stand above the leaf, as far as the path goes.
fn no_root(authorities: &Authorities, above: &[&CertificateDer<'_>]) -> Refusal {
    let depth = above.len();
    let is_trusted = above.last().is_some_and(|last| authorities.trusts(last));
    let parsed = above.last().filter(|last| !authorities.is_root(last));
    match parsed.and_then(|last| X509Certificate::from_der(last).ok()) {
        Some((_, last)) => {
            let [last, issuer] = [last.subject(), last.issuer()].map(subject_text);
            Refusal::NoRoot { depth, is_trusted, last, issuer }
        }
        None => Refusal::UnknownIssuer,
    }
}

/// The first certificate of the path that is signed with a weak algorithm: the leaf's own refusal where none above it is.
fn weak_signature(leaf: &CertificateDer<'_>, above: &[&CertificateDer<'_>]) -> Refusal {
    let path = std::iter::once(leaf).chain(above.iter().copied());
    let parsed = path.filter_map(|it| Some(X509Certificate::from_der(it).ok()?.1));
    match parsed.enumerate().find(|(_, it)| certificate::is_weakly_signed(it)) {
        Some((depth @ 1.., ca)) => {
            let subject = subject_text(ca.subject());
            Refusal::Authority(FaultyCa { depth, subject, fault: CaFault::WeakSignature })
        }
        _ => Refusal::SignatureAlgorithm,
    }
}

fn is_in_time(certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    X509Certificate::from_der(certificate).is_ok_and(|(_, parsed)| {
        let validity = parsed.validity();
        (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now)
    })
}

/// The refusal that follows from webpki's error about a path.
pub(crate) fn path_refusal(error: webpki::Error) -> Refusal {
    use webpki::Error as E;
    match error {
        E::CertExpired { time, not_after } => Refusal::Expired { now: time, not_after },
        E::CertNotValidYet { time, not_before } => Refusal::NotValidYet { now: time, not_before },
        E::UnknownIssuer => Refusal::UnknownIssuer,
        E::UnsupportedSignatureAlgorithmContext(_) => Refusal::SignatureAlgorithm,
        E::InvalidSignatureForPublicKey => Refusal::Signature,
        E::NameConstraintViolation => Refusal::NameConstraint,
        E::UnsupportedCertVersion => Refusal::Version,
        E::CaUsedAsEndEntity => Refusal::IsACa,
        E::RequiredEkuNotFoundContext(_) => Refusal::WrongPurpose,
        E::BadDer | E::BadDerTime | E::TrailingData(_) => Refusal::BadEncoding,
        other => Refusal::Path(other.to_string()),
    }
}
