//! One certificate revocation list (CRL), signed by an authority.

use std::fmt;

use rustls_pki_types::{
    CertificateRevocationListDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, UnixTime,
};
use webpki::{CertRevocationList, OwnedCertRevocationList, RawPublicKeyEntity};
use x509_parser::der_parser::asn1_rs::{Any, FromDer as _};
use x509_parser::prelude::{CertificateRevocationList, X509Certificate};
use x509_parser::time::ASN1Time;

use crate::canonical_name::CanonicalName;
use crate::certificate::{self, subject_text};
use crate::revocation::RevocationError;

/// cRLSign as [`certificate::key_usage`] counts.
const CRL_SIGN: u16 = 0x02;

/// A revocation list, with what its evaluation needs.
pub(crate) struct SignedList {
    /// The serial numbers.
    revoked: CertRevocationList<'static>,
    issuer: CanonicalName,
    /// The issuer's name, for people.
    pub(crate) issuer_text: String,
    /// The issuing distribution point, which says what part of the authority's certificates the list covers.
    scope: Option<Vec<u8>>,
    this_update: ASN1Time,
    next_update: Option<ASN1Time>,
    signed: Signed,
}

/// What is signed, and how: the three parts of a CertificateList (RFC 5280 §5.1).
struct Signed {
    message: Vec<u8>,
    /// The inside of the AlgorithmIdentifier, by which verification algorithms are named.
    algorithm: Vec<u8>,
    signature: Vec<u8>,
}

/// Why a revocation list lets a certificate not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFault {
    /// It names the certificate.
    Revoked,
    /// Its time is over.
    Expired(ASN1Time),
    /// Its time has not come.
    NotYetValid(ASN1Time),
    /// No list of the issuer is signed by the issuer's key with an algorithm that is accepted.
    Signature,
    /// The issuer must not sign lists.
    NoCrlSign,
}

impl fmt::Display for ListFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListFault::Revoked => f.write_str("names the certificate"),
            ListFault::Expired(at) => write!(f, "expired at {at}"),
            ListFault::NotYetValid(from) => {
                write!(f, "is not valid before {from} (is this machine's clock right?)")
            }
            ListFault::Signature => f.write_str(
                "is not signed by that CA's key with an algorithm that adit accepts (SHA-256 or better)",
            ),
            ListFault::NoCrlSign => f.write_str("is signed by a CA certificate whose keyUsage lacks cRLSign"),
        }
    }
}

impl SignedList {
    pub(crate) fn new(der: &CertificateRevocationListDer<'_>) -> Result<Self, RevocationError> {
        let revoked = OwnedCertRevocationList::from_der(der).map_err(|error| match error {
            webpki::Error::UnsupportedCrlVersion => RevocationError::Version,
            other => RevocationError::List(other.to_string()),
        })?;
        let unreadable = |error: &dyn fmt::Display| RevocationError::List(error.to_string());
        let (_, parsed) = CertificateRevocationList::from_der(der).map_err(|error| unreadable(&error))?;
        let revoked = CertRevocationList::from(revoked);
        Ok(SignedList {
            issuer: CanonicalName::new(parsed.issuer()),
            issuer_text: subject_text(parsed.issuer()),
            scope: revoked.issuing_distribution_point().map(<[u8]>::to_vec),
            this_update: parsed.last_update(),
            next_update: parsed.next_update(),
            signed: Signed::read(der).ok_or_else(|| unreadable(&"its signature cannot be found"))?,
            revoked,
        })
    }

    /// Whether the issuer has that name.
    pub(crate) fn is_of(&self, issuer: &CanonicalName) -> bool {
        self.issuer == *issuer
    }

    /// Whether a certificate with this serial number, by the same issuer, is on the list. Signature and dates are not
    /// considered.
    pub(crate) fn names(&self, certificate: &X509Certificate<'_>) -> bool {
        matches!(self.revoked.find_serial(certificate.raw_serial()), Ok(Some(_)))
    }

    fn date_fault(&self, now: i64) -> Option<ListFault> {
        if now < self.this_update.timestamp() {
            return Some(ListFault::NotYetValid(self.this_update));
        }
        self.next_update.filter(|at| now > at.timestamp()).map(ListFault::Expired)
    }

    /// Whether the other list covers the same certificates and is newer.
    fn is_superseded_by(&self, other: &SignedList) -> bool {
        self.scope == other.scope && self.this_update < other.this_update
    }
}

impl Signed {
    fn read(der: &[u8]) -> Option<Self> {
        let (_, list) = Any::from_der(der).ok()?;
        let (rest, _) = Any::from_der(list.data).ok()?;
        let message = list.data.get(..list.data.len() - rest.len())?;
        let (rest, algorithm) = Any::from_der(rest).ok()?;
        let (_, signature) = Any::from_der(rest).ok()?;
        // A BIT STRING begins with the number of bits that are unused at its end: none in signatures.
        let (0, signature) = signature.data.split_first().map(|(unused, bits)| (*unused, bits))? else {
            return None;
        };
        Some(Signed {
            message: message.to_vec(),
            algorithm: algorithm.data.to_vec(),
            signature: signature.to_vec(),
        })
    }

    fn verifies(&self, key: &[u8], algorithms: &[&dyn SignatureVerificationAlgorithm]) -> bool {
        let key = SubjectPublicKeyInfoDer::from(key);
        let Ok(key) = RawPublicKeyEntity::try_from(&key) else { return false };
        let fits = |algorithm: &&&dyn SignatureVerificationAlgorithm| {
            algorithm.signature_alg_id().as_ref() == self.algorithm
        };
        let verifies = |algorithm: &&dyn SignatureVerificationAlgorithm| {
            key.verify_signature(*algorithm, &self.message, &self.signature).is_ok()
        };
        algorithms.iter().filter(fits).any(verifies)
    }
}

/// What these lists have against `certificate`, which `issuer` signed. No list of that issuer has nothing against it, as in
/// OpenVPN. Of several lists those count that the issuer's key signed, and of these the newest for each scope.
pub(crate) fn fault(
    lists: &[SignedList],
    certificate: &X509Certificate<'_>,
    issuer: &X509Certificate<'_>,
    now: UnixTime,
    algorithms: &[&dyn SignatureVerificationAlgorithm],
) -> Option<ListFault> {
    let name = CanonicalName::new(issuer.subject());
    let key = issuer.public_key().raw;
    let of_issuer: Vec<&SignedList> = lists.iter().filter(|list| list.is_of(&name)).collect();
    let signed: Vec<&SignedList> =
        of_issuer.iter().copied().filter(|list| list.signed.verifies(key, algorithms)).collect();
    if signed.is_empty() {
        return (!of_issuer.is_empty()).then_some(ListFault::Signature);
    }
    let superseded = |list: &SignedList| signed.iter().any(|other| list.is_superseded_by(other));
    let current: Vec<&SignedList> = signed.iter().copied().filter(|list| !superseded(list)).collect();
    if current.iter().any(|list| list.names(certificate)) {
        return Some(ListFault::Revoked);
    }
    if certificate::key_usage(issuer).is_some_and(|usage| usage & CRL_SIGN == 0) {
        return Some(ListFault::NoCrlSign);
    }
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    current.iter().find_map(|list| list.date_fault(now))
}
