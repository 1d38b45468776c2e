//! Judges a peer's certificate: its path, purpose and name.

use std::cell::RefCell;

use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, UnixTime};
use webpki::{EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeIdIter, KeyUsage, VerifiedPath};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::authorities::Authorities;
use crate::ca_fault::Terms;
use crate::certificate::{self, subject_text};
use crate::name_check::NameCheck;
use crate::name_fields::NameFields;
use crate::path_refusal::{named_refusal, path_refusal};
use crate::purpose::Purpose;
use crate::refusal::Refusal;
use crate::revocation::{RevocationLists, Revocations};

/// id-kp-serverAuth (RFC 5280 §4.2.1.12), the value bytes of its DER.
const EKU_SERVER: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
/// id-kp-clientAuth.
const EKU_CLIENT: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];

/// Whether a peer must show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertificateDemand {
    /// The peer must show a certificate.
    #[default]
    Require,
    /// The peer may show a certificate; one that is shown must be good.
    Optional,
    /// The peer is not asked for a certificate.
    None,
}

/// The requirements on a peer's certificate, besides a path to a trusted authority.
#[derive(Clone, Debug, Default)]
pub struct PeerRequirements {
    /// Key usage and extended key usage must be there, and not only not contradict.
    pub require_usage: bool,
    /// The key usage must be there and, unless the list is empty, have all bits of one of these, as
    /// [`certificate::key_usage`] counts them.
    pub key_usages: Option<Vec<u16>>,
    /// A dotted OID that the extended key usage must name.
    pub extended_usage: Option<String>,
    /// SHA-256 of the certificates that are accepted; empty for no such limit.
    pub fingerprints: Vec<Vec<u8>>,
    /// SHA-1 or SHA-256 (20 or 32 bytes) of the certificates that may have issued the peer's; empty for no such limit.
    pub issuer_fingerprints: Vec<Vec<u8>>,
    /// The name that it must have.
    pub name: Option<NameCheck>,
    /// The fields that name the peer.
    pub name_fields: NameFields,
    /// Whether a client must show a certificate. A server always must. The code that runs the handshake reads this; a
    /// [`Verifier`] judges certificates that are shown.
    pub demand: CertificateDemand,
    /// Which certificates are revoked.
    pub revocations: Option<Revocations>,
}

/// The extended key usage that the certificates of a path must allow. `None`: any.
struct Usage(Option<KeyUsage>);

impl ExtendedKeyUsageValidator for Usage {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        self.0.map_or(Ok(()), |usage| usage.validate(purposes))
    }
}

/// Judges a peer's certificate as OpenVPN does: path, purpose, fingerprint and name. The host name by which the peer was
/// reached plays no part. That the peer has the certificate's key is for the handshake to verify.
#[derive(Debug)]
pub struct Verifier {
    purpose: Purpose,
    authorities: Option<Authorities>,
    requirements: PeerRequirements,
    algorithms: &'static [&'static dyn SignatureVerificationAlgorithm],
}

impl Verifier {
    /// A verifier of peers with that purpose, which accepts these signature algorithms. Without authorities, fingerprints
    /// alone decide; without either, no peer is accepted.
    pub fn new(
        purpose: Purpose,
        authorities: Option<Authorities>,
        requirements: PeerRequirements,
        algorithms: &'static [&'static dyn SignatureVerificationAlgorithm],
    ) -> Self {
        Verifier { purpose, authorities, requirements, algorithms }
    }

    /// Whether the peer must show a certificate.
    pub fn demand(&self) -> CertificateDemand {
        self.requirements.demand
    }

    /// Judges the certificate of a peer and the others that it sent.
    ///
    /// # Errors
    /// Says why the peer is refused.
    pub fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Refusal> {
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|error| Refusal::Unreadable(error.to_string()))?;
        if certificate::has_nul(parsed.subject()) {
            return Err(Refusal::Nul);
        }
        if certificate::is_malformed(&parsed) {
            return Err(Refusal::Malformed);
        }
        if let Some(bits) = certificate::small_rsa_key(&parsed) {
            return Err(Refusal::SmallKey { bits });
        }
        let lists = self.requirements.revocations.as_ref().map(Revocations::current);
        let lists: Option<&RevocationLists> = lists.as_deref();
        let terms = Terms { purpose: self.purpose, now, lists, algorithms: self.algorithms };
        match &self.authorities {
            Some(authorities) => self.verify_chain(authorities, (certificate, &parsed), chain, terms)?,
            None => self.verify_alone(certificate, terms)?,
        }
        let fingerprints = &self.requirements.fingerprints;
        if !fingerprints.is_empty() && !certificate::is_one_of(certificate, fingerprints) {
            let subject = subject_text(parsed.subject());
            return Err(Refusal::Fingerprint { subject, found: certificate::fingerprint(certificate) });
        }
        self.check_usages(&parsed)?;
        self.check_name(&parsed)?;
        Ok(())
    }

    /// Verifies without authorities: fingerprints decide. As in OpenVPN everything else about the chain is irrelevant
    /// then, dates included. Revocation lists are consulted though nothing can verify their signatures: they are named
    /// in the configuration. OpenVPN accepts such a peer, and disconnects it when it reads the list again.
    fn verify_alone(&self, certificate: &CertificateDer<'_>, terms: Terms<'_>) -> Result<(), Refusal> {
        if self.requirements.fingerprints.is_empty() {
            return Err(Refusal::UnknownIssuer);
        }
        if terms.lists.is_some_and(|lists| lists.names(certificate)) {
            return Err(Refusal::Revoked);
        }
        Ok(())
    }

    fn verify_chain(
        &self,
        authorities: &Authorities,
        (certificate, parsed): (&CertificateDer<'_>, &X509Certificate<'_>),
        chain: &[CertificateDer<'_>],
        terms: Terms<'_>,
    ) -> Result<(), Refusal> {
        let entity = EndEntityCert::try_from(certificate).map_err(path_refusal)?;
        // As OpenSSL: a certificate with another extended key usage alone may not stand in the path, wherever. That
        // the leaf has one at all is asked by `check_usages`.
        let usage = Usage(match self.purpose {
            Purpose::Server => Some(KeyUsage::required_if_present(EKU_SERVER)),
            Purpose::Client => Some(KeyUsage::required_if_present(EKU_CLIENT)),
            Purpose::Any => None,
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
                None => named_refusal(authorities, certificate, chain, terms, error),
            })?;
        if !certificate::fits_a_handshake(parsed, self.purpose) {
            return Err(Refusal::WrongKey { wanted: self.purpose.noun() });
        }
        self.check_issuer(authorities, &path)
    }

    /// Whether the certificate that issued the peer's is one of those that may.
    fn check_issuer(&self, authorities: &Authorities, path: &VerifiedPath<'_>) -> Result<(), Refusal> {
        let wanted = &self.requirements.issuer_fingerprints;
        if wanted.is_empty() {
            return Ok(());
        }
        let is_wanted = |issuer: &CertificateDer<'_>| certificate::is_one_of(issuer, wanted);
        let good = match path.intermediate_certificates().next() {
            Some(intermediate) => is_wanted(&intermediate.der()),
            None => authorities.roots_of(path).any(|(root, _)| is_wanted(root)),
        };
        if !good {
            return Err(Refusal::IssuerFingerprint);
        }
        Ok(())
    }

    fn check_usages(&self, parsed: &X509Certificate<'_>) -> Result<(), Refusal> {
        let found = certificate::key_usage(parsed);
        if self.requirements.require_usage && found.is_none() {
            return Err(Refusal::NoKeyUsage);
        }
        if self.requirements.require_usage && !certificate::names_purpose(parsed, self.purpose) {
            return Err(Refusal::NoUsage { wanted: self.purpose.noun() });
        }
        if let Some(allowed) = &self.requirements.key_usages {
            let fits = |found: u16| {
                allowed.is_empty() || allowed.iter().any(|bits| *bits != 0 && found & bits == *bits)
            };
            if !found.is_some_and(fits) {
                let found = found.map_or("absent".to_owned(), |found| format!("{found:02x}"));
                return Err(Refusal::KeyUsage { found });
            }
        }
        if let Some(wanted) = &self.requirements.extended_usage {
            let found = certificate::extended_key_usage(parsed);
            if !found.contains(wanted) {
                let found = if found.is_empty() { "absent".to_owned() } else { found.join(", ") };
                return Err(Refusal::ExtendedUsage { found, wanted: wanted.clone() });
            }
        }
        Ok(())
    }

    fn check_name(&self, parsed: &X509Certificate<'_>) -> Result<(), Refusal> {
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
        if matches { Ok(()) } else { Err(Refusal::Name { found, wanted: wanted.clone() }) }
    }
}
