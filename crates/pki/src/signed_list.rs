//! One certificate revocation list (CRL), signed by an authority.

use rustls_pki_types::{
    CertificateRevocationListDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, UnixTime,
};
use webpki::RawPublicKeyEntity;
use x509_parser::prelude::X509Certificate;
use x509_parser::time::ASN1Time;

use crate::canonical_name::CanonicalName;
use crate::certificate;
use crate::der_values::{Values, dotted, tag};
use crate::list_content::{Entry, ListContent};
use crate::list_fault::{ListFault, RevocationError};
use crate::purpose::SIGNATURE_ALGORITHMS;

/// cRLSign as [`certificate::key_usage`] counts.
const CRL_SIGN: u16 = 0x02;

/// A revocation list, with the facts that its evaluation needs.
pub(crate) struct SignedList {
    pub(crate) content: ListContent,
    signed: Signed,
}

/// The signed message and its signature: the three parts of a CertificateList (RFC 5280 §5.1).
struct Signed {
    message: Vec<u8>,
    /// The inside of the AlgorithmIdentifier, by which verification algorithms are named.
    algorithm: Vec<u8>,
    signature: Vec<u8>,
}

impl SignedList {
    pub(crate) fn new(der: &CertificateRevocationListDer<'_>) -> Result<Self, RevocationError> {
        let signed = Signed::read(der);
        let signed = signed.ok_or_else(|| RevocationError::List("it is damaged or incomplete".to_owned()))?;
        Ok(SignedList { content: ListContent::read(&signed.message)?, signed })
    }

    /// Whether the issuer has that name.
    pub(crate) fn is_of(&self, issuer: &CanonicalName) -> bool {
        self.content.issuer == *issuer
    }

    /// The dotted OID of the signature's algorithm, if adit verifies no signatures by it.
    pub(crate) fn unknown_algorithm(&self) -> Option<String> {
        let is_known =
            SIGNATURE_ALGORITHMS.iter().any(|it| it.signature_alg_id().as_ref() == self.signed.algorithm);
        let oid = || Values::new(&self.signed.algorithm).take(tag::OBJECT_IDENTIFIER);
        (!is_known).then(|| oid().map_or_else(String::new, |oid| dotted(oid.content)))
    }

    fn date_fault(&self, now: i64) -> Option<ListFault> {
        let date = |seconds| ASN1Time::from_timestamp(seconds).ok();
        let ListContent { this_update, next_update, .. } = self.content;
        if now < this_update {
            return date(this_update).map(ListFault::NotYetValid);
        }
        next_update.filter(|at| now > *at).and_then(date).map(ListFault::Expired)
    }

    /// Whether the other list covers the same certificates and is newer. A list of changes takes the place of no complete
    /// one.
    fn is_superseded_by(&self, other: &SignedList) -> bool {
        let (own, other) = (&self.content, &other.content);
        own.scope == other.scope && own.this_update < other.this_update && (own.is_delta || !other.is_delta)
    }
}

/// The lists among these, all of one issuer, that no newer one supersedes.
fn current<'a>(lists: &[&'a SignedList]) -> Vec<&'a SignedList> {
    let superseded = |list: &SignedList| lists.iter().any(|other| list.is_superseded_by(other));
    lists.iter().copied().filter(|list| !superseded(list)).collect()
}

/// Whether the certificate is revoked by these lists, all of its issuer: one of those in force names it, and no newer list of
/// changes takes it off.
fn is_revoked(lists: &[&SignedList], certificate: &X509Certificate<'_>) -> bool {
    let serial = certificate.raw_serial();
    let current = current(lists);
    let removed = |from: &ListContent| {
        current.iter().map(|it| &it.content).any(|it| {
            it.is_delta
                && it.scope == from.scope
                && it.this_update > from.this_update
                && it.entry(serial) == Some(Entry::Removed)
        })
    };
    let names = |list: &&SignedList| list.content.entry(serial) == Some(Entry::Revoked);
    current.iter().filter(|it| names(it)).any(|it| !removed(&it.content))
}

/// Whether these lists revoke the certificate. Signatures and dates are not considered.
pub(crate) fn names(lists: &[SignedList], certificate: &X509Certificate<'_>) -> bool {
    let issuer = CanonicalName::new(certificate.issuer());
    let of_issuer: Vec<&SignedList> = lists.iter().filter(|list| list.is_of(&issuer)).collect();
    is_revoked(&of_issuer, certificate)
}

impl Signed {
    fn read(der: &[u8]) -> Option<Self> {
        let mut list = Values::inside(tag::SEQUENCE, der)?;
        let message = list.take(tag::SEQUENCE)?;
        let algorithm = list.take(tag::SEQUENCE)?;
        let signature = list.take(tag::BIT_STRING)?;
        // A BIT STRING begins with the number of bits that are unused at its end: none in signatures.
        let (0, bits) = signature.content.split_first()? else { return None };
        list.is_empty().then(|| Signed {
            message: message.whole.to_vec(),
            algorithm: algorithm.content.to_vec(),
            signature: bits.to_vec(),
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

/// The fault that these lists find in `certificate`, which `issuer` signed. No list of that issuer has nothing against
/// it, as in OpenVPN. Of several lists those count that the issuer's key signed, and of these the newest for each
/// scope.
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
    if is_revoked(&signed, certificate) {
        return Some(ListFault::Revoked);
    }
    if certificate::key_usage(issuer).is_some_and(|usage| usage & CRL_SIGN == 0) {
        return Some(ListFault::NoCrlSign);
    }
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    current(&signed).iter().find_map(|list| list.date_fault(now))
}
