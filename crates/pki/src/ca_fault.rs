//! The faults of the CA certificates of a path.
//!
//! webpki verifies signatures, names and dates below the trust anchor. It takes the anchor for good whatever it says, and
//! does not look for keyCertSign. This judges as OpenSSL's `check_chain` and `check_revocation` do (x509_vfy.c,
//! v3_purp.c).

use std::fmt;

use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};
use x509_parser::time::ASN1Time;

use crate::certificate::{self, is_self_signed, subject_text};
use crate::purpose::Purpose;
use crate::revocation::RevocationLists;

/// keyCertSign as [`certificate::key_usage`] counts.
const KEY_CERT_SIGN: u16 = 0x04;

/// Why a CA certificate cannot stand in a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaFault {
    /// The certificate, or an extension by which it is judged, cannot be read.
    Unreadable,
    /// Its time is over since then.
    Expired(ASN1Time),
    /// Its time begins then.
    NotYetValid(ASN1Time),
    /// The certificate is no CA certificate.
    NotACa,
    /// Its key usage lacks keyCertSign.
    NoCertSign,
    /// There are more CA certificates below it than it allows.
    PathLength {
        /// How many it allows.
        allowed: u32,
        /// How many there are.
        below: usize,
    },
    /// Its extended key usage lacks that of the peer.
    Purpose(Purpose),
    /// Its RSA key has so many bits, which are too few.
    SmallKey(usize),
    /// The certificate is signed with an algorithm that is too weak, such as SHA-1.
    WeakSignature,
    /// The certificate was revoked.
    Revoked,
}

impl fmt::Display for CaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CaFault::Unreadable => f.write_str(
                "cannot be read, or has a basicConstraints, keyUsage, extendedKeyUsage or nsCertType that cannot be read or stands there twice",
            ),
            CaFault::Expired(at) => {
                write!(f, "expired at {at}: it must be renewed, unless this machine's clock is wrong")
            }
            CaFault::NotYetValid(from) => {
                write!(f, "is not valid before {from}: is this machine's clock right?")
            }
            CaFault::NotACa => f.write_str(
                "is no CA certificate and cannot have issued another: it needs basicConstraints CA:TRUE",
            ),
            CaFault::NoCertSign => f.write_str("must not sign certificates: its keyUsage needs keyCertSign"),
            CaFault::PathLength { allowed, below } => write!(
                f,
                "allows {allowed} CA certificates below it (pathlen in basicConstraints), but the path has {below}"
            ),
            CaFault::Purpose(purpose) => {
                let (ends, usage) = match purpose {
                    Purpose::Server => ("servers", "serverAuth"),
                    Purpose::Client => ("clients", "clientAuth"),
                    Purpose::Any => ("peers", "any usage"),
                };
                write!(f, "must not issue certificates of {ends}: its extendedKeyUsage lacks {usage}")
            }
            CaFault::SmallKey(bits) => {
                write!(f, "has an RSA key of {bits} bits; adit accepts {} and more", certificate::LEAST_RSA_BITS)
            }
            CaFault::WeakSignature => f.write_str(
                "is signed with an algorithm that adit does not accept, such as SHA-1 or MD5: it must be signed again, with SHA-256 or better",
            ),
            CaFault::Revoked => f.write_str("was revoked"),
        }
    }
}

/// A CA certificate with a fault. Its `Display` is half a sentence: `CN=Example CA is no CA certificate ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultyCa {
    /// How many certificates of the path stand below it.
    pub depth: usize,
    /// Its subject, as [`certificate::subject_text`] prints it.
    pub subject: String,
    /// The fault.
    pub fault: CaFault,
}

impl fmt::Display for FaultyCa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.subject, self.fault)
    }
}

/// The terms by which a path is judged.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) purpose: Purpose,
    pub(crate) now: UnixTime,
    pub(crate) lists: Option<&'a RevocationLists>,
    /// Signature algorithms that are accepted.
    pub(crate) algorithms: &'a [&'static dyn SignatureVerificationAlgorithm],
}

/// The facts by which a CA certificate is judged. Those of a trusted one are read once, and not for each
/// peer.
#[derive(Clone, Debug)]
pub(crate) struct CaFacts {
    subject: String,
    /// Its issuer has another name.
    is_issued: bool,
    is_malformed: bool,
    not_before: ASN1Time,
    not_after: ASN1Time,
    is_a_ca: bool,
    can_sign: bool,
    path_length: Option<u32>,
    /// The ends whose certificates it may issue.
    purposes: Vec<Purpose>,
    small_key: Option<usize>,
}

impl CaFacts {
    pub(crate) fn new(certificate: &X509Certificate<'_>) -> Self {
        let (validity, usage) = (certificate.validity(), certificate::key_usage(certificate));
        let mut purposes = vec![Purpose::Server, Purpose::Client, Purpose::Any];
        purposes.retain(|purpose| certificate::is_for(certificate, *purpose));
        CaFacts {
            subject: subject_text(certificate.subject()),
            is_issued: certificate.subject().as_raw() != certificate.issuer().as_raw(),
            is_malformed: certificate::is_malformed(certificate),
            not_before: validity.not_before,
            not_after: validity.not_after,
            is_a_ca: is_a_ca(certificate, usage),
            can_sign: usage.is_none_or(|usage| usage & KEY_CERT_SIGN != 0),
            path_length: path_length(certificate),
            purposes,
            small_key: certificate::small_rsa_key(certificate),
        }
    }

    /// `None`: it cannot be read.
    pub(crate) fn read(certificate: &CertificateDer<'_>) -> Option<Self> {
        X509Certificate::from_der(certificate).ok().map(|(_, parsed)| CaFacts::new(&parsed))
    }

    fn fault(&self, below: usize, terms: Terms<'_>) -> Option<CaFault> {
        if self.is_malformed {
            return Some(CaFault::Unreadable);
        }
        let now = i64::try_from(terms.now.as_secs()).unwrap_or(i64::MAX);
        if now > self.not_after.timestamp() {
            return Some(CaFault::Expired(self.not_after));
        }
        if now < self.not_before.timestamp() {
            return Some(CaFault::NotYetValid(self.not_before));
        }
        if !self.is_a_ca {
            return Some(CaFault::NotACa);
        }
        if !self.can_sign {
            return Some(CaFault::NoCertSign);
        }
        if let Some(allowed) = self.path_length
            && below > usize::try_from(allowed).unwrap_or(usize::MAX)
        {
            return Some(CaFault::PathLength { allowed, below });
        }
        if !self.purposes.contains(&terms.purpose) {
            return Some(CaFault::Purpose(terms.purpose));
        }
        self.small_key.map(CaFault::SmallKey)
    }
}

/// The first fault of certificates with these facts, which stand in this order above the leaf.
pub(crate) fn first_fault<'a>(
    above: impl IntoIterator<Item = Option<&'a CaFacts>>,
    terms: Terms<'_>,
) -> Option<FaultyCa> {
    let mut below = 0;
    for (depth, facts) in (1..).zip(above) {
        let Some(facts) = facts else {
            return Some(FaultyCa { depth, subject: "in the path".to_owned(), fault: CaFault::Unreadable });
        };
        if let Some(fault) = facts.fault(below, terms) {
            return Some(FaultyCa { depth, subject: facts.subject.clone(), fault });
        }
        // RFC 5280 §4.2.1.9: self-issued certificates do not count.
        below += usize::from(facts.is_issued);
    }
    None
}

/// As OpenSSL's `check_ca`: a certificate without basic constraints may be one if it is of version 1, or if its key
/// usage says so, and is self-signed.
fn is_a_ca(certificate: &X509Certificate<'_>, usage: Option<u16>) -> bool {
    match certificate.basic_constraints() {
        Ok(Some(constraints)) => constraints.value.ca,
        Ok(None) => {
            is_self_signed(certificate) && (certificate.version() == X509Version::V1 || usage.is_some())
        }
        Err(_) => false,
    }
}

fn path_length(certificate: &X509Certificate<'_>) -> Option<u32> {
    certificate.basic_constraints().ok()??.value.path_len_constraint
}
