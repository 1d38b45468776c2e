//! The faults of revocation lists.

use std::fmt;

use thiserror::Error;
use x509_parser::time::ASN1Time;

/// Why a revocation list cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RevocationError {
    /// The file holds no list.
    #[error("holds no revocation list; a \"-----BEGIN X509 CRL-----\" block is expected")]
    Empty,
    /// The file is no PEM text.
    #[error("not valid PEM: {0}")]
    Pem(String),
    /// The file is no PEM, but DER.
    #[error("it is in DER; convert it to PEM: openssl crl -inform DER -in LIST -out NEWLIST")]
    Der,
    /// A date of a list has no form that counts.
    #[error(
        "the {field} of the list of {issuer} in it is \"{found}\", where RFC 5280 wants YYMMDDHHMMSSZ or YYYYMMDDHHMMSSZ; OpenVPN, too, would refuse every certificate of that CA: make the list anew (openssl ca -gencrl, easyrsa gen-crl)"
    )]
    Date {
        /// The list's authority.
        issuer: String,
        /// `thisUpdate` or `nextUpdate`.
        field: &'static str,
        /// The date as it stands there.
        found: String,
    },
    /// The list says something that must be understood, and is not.
    #[error(
        "the list of {issuer} in it has a critical extension ({oid}) that adit does not know; OpenVPN, too, would refuse every certificate of that CA: make the list without it (crl_extensions in openssl.cnf)"
    )]
    Critical {
        /// The list's authority.
        issuer: String,
        /// The extension's dotted OID.
        oid: String,
    },
    /// The list cannot be read.
    #[error("a list in it cannot be read: {0}")]
    List(String),
}

/// Why a revocation list lets a certificate not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFault {
    /// The list names the certificate.
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
                "is not signed by that CA's key with an algorithm that adit accepts (SHA-256 or better, by `openssl ca -gencrl -md sha256`)",
            ),
            ListFault::NoCrlSign => f.write_str("is signed by a CA certificate whose keyUsage lacks cRLSign"),
        }
    }
}
