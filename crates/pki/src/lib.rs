//! Certificates, for every protocol that authenticates by them.
//!
//! - [`Verifier`] judges a peer's certificate: its path to a trusted authority ([`Authorities`]), the dates, usages and
//!   names in it ([`PeerRequirements`]), and revocation ([`Revocations`]). The reason for which it refuses one is a
//!   [`Refusal`].
//! - [`encrypted_key`] and [`pkcs12`] open private keys that a password protects; [`PrivateKey`] says whether adit can sign with
//!   one, [`pem`] reads certificates.
//! - [`tls`] brings a private key and the verdict on a peer into TLS handshakes by rustls.
//! - [`issue`] makes an authority, certificates and revocation lists; [`inspect`] reads those that were made
//!   before.
//!
//! Nothing here reads a clock or a file: times are arguments, and so is the randomness of serial numbers. New private
//! keys and signatures draw their randomness from AWS-LC, which has a generator of its own.
//!
//! The rules are those of RFC 5280 as OpenSSL applies them (x509_vfy.c, v3_purp.c); each place where they differ names
//! its source.
#![forbid(unsafe_code)]

mod authorities;
mod ca_fault;
mod canonical_name;
pub mod certificate;
mod der_values;
pub mod encrypted_key;
pub mod inspect;
pub mod issue;
mod key_form;
mod list_content;
mod list_fault;
mod list_warning;
mod name_check;
mod name_fields;
pub mod object_names;
mod path_check;
mod path_refusal;
mod pbe;
pub mod pem;
mod pem_block;
pub mod pkcs12;
pub mod private_key;
mod purpose;
mod refusal;
mod revocation;
pub mod signature;
mod signed_list;
mod subject_names;
pub mod tls;
mod verify;

pub use authorities::{Authorities, AuthorityWarning, UnmatchedList};
pub use ca_fault::{CaFault, FaultyCa};
pub use key_form::KeyForm;
pub use list_fault::{ListFault, RevocationError};
pub use list_warning::ListWarning;
pub use name_check::NameCheck;
pub use name_fields::{NameField, NameFields};
pub use private_key::{PrivateKey, PrivateKeyError};
pub use purpose::{Purpose, SIGNATURE_ALGORITHMS};
pub use refusal::Refusal;
pub use revocation::{RevocationLists, Revocations};
pub use signature::KeyKind;
pub use subject_names::{
    CertificateName, has_name, name_text, organizational_units, public_key_digest, subject_key_digest,
    units_of_name,
};
pub use verify::{CertificateDemand, PeerRequirements, Verifier};

/// A time as messages show it.
pub fn date(time: rustls_pki_types::UnixTime) -> String {
    let seconds = time.as_secs();
    i64::try_from(seconds)
        .ok()
        .and_then(|seconds| x509_parser::time::ASN1Time::from_timestamp(seconds).ok())
        .map_or_else(|| format!("{seconds} s after 1970"), |time| time.to_string())
}
