//! The names of algorithms in strongSwan's messages.

use adit_core::{Cipher, Digest};
use adit_ike::suite::Group;
use adit_ike::wire::{IdType, Identification};
use adit_ike_config::{self as model, IdentityPattern, PortRange};
use adit_pki::name_text;

use crate::selectors::{range, with_protocol};
use crate::status_rows;

/// A cipher, and the length of its key in bits where the name does not say it.
pub(super) const fn cipher(cipher: Cipher) -> (&'static str, Option<u16>) {
    match cipher {
        Cipher::Aes128Gcm => ("AES_GCM_16", Some(128)),
        Cipher::Aes192Gcm => ("AES_GCM_16", Some(192)),
        Cipher::Aes256Gcm => ("AES_GCM_16", Some(256)),
        Cipher::Aes128Cbc => ("AES_CBC", Some(128)),
        Cipher::Aes192Cbc => ("AES_CBC", Some(192)),
        Cipher::Aes256Cbc => ("AES_CBC", Some(256)),
        Cipher::ChaCha20Poly1305 => ("CHACHA20_POLY1305", None),
    }
}

/// An integrity algorithm. `None`: there is none with that digest.
pub(super) const fn integrity(digest: Digest) -> Option<&'static str> {
    match digest {
        Digest::Sha1 => Some("HMAC_SHA1_96"),
        Digest::Sha224 => None,
        Digest::Sha256 => Some("HMAC_SHA2_256_128"),
        Digest::Sha384 => Some("HMAC_SHA2_384_192"),
        Digest::Sha512 => Some("HMAC_SHA2_512_256"),
    }
}

/// A pseudo-random function. `None`: there is none with that digest.
pub(super) const fn prf(digest: Digest) -> Option<&'static str> {
    match digest {
        Digest::Sha1 => Some("PRF_HMAC_SHA1"),
        Digest::Sha224 => None,
        Digest::Sha256 => Some("PRF_HMAC_SHA2_256"),
        Digest::Sha384 => Some("PRF_HMAC_SHA2_384"),
        Digest::Sha512 => Some("PRF_HMAC_SHA2_512"),
    }
}

/// A method of key exchange.
pub(super) const fn group(group: Group) -> &'static str {
    match group {
        Group::P256 => "ECP_256",
        Group::P384 => "ECP_384",
        Group::P521 => "ECP_521",
        Group::X25519 => "CURVE_25519",
        Group::Modp2048 => "MODP_2048",
        Group::Modp3072 => "MODP_3072",
        Group::Modp4096 => "MODP_4096",
        Group::MlKem768 => "ML_KEM_768",
        Group::MlKem1024 => "ML_KEM_1024",
    }
}

/// An identity: a distinguished name in words, an address, or text.
pub(super) fn identity(identity: &Identification) -> String {
    let name = (identity.kind == IdType::DER_ASN1_DN).then(|| name_text(&identity.data)).flatten();
    name.unwrap_or_else(|| status_rows::identity(identity))
}

/// An identity that a peer may prove, or a pattern of such identities.
pub(super) fn pattern(pattern: &IdentityPattern) -> String {
    match pattern {
        IdentityPattern::Any => "%any".to_owned(),
        IdentityPattern::Exact(exact) | IdentityPattern::Name(exact) => identity(exact),
        IdentityPattern::EndsWith(end) => format!("*{}", identity(end)),
        IdentityPattern::Addresses(first, last) => range(*first, *last),
    }
}

/// A selector of the configuration.
pub(super) fn configured_selector(of: &model::TrafficSelector) -> String {
    let addresses = match &of.addresses {
        model::Addresses::Dynamic => "dynamic".to_owned(),
        model::Addresses::Network(network) => network.to_string(),
        model::Addresses::Range(first, last) => range(*first, *last),
    };
    let ports = match of.ports {
        PortRange::From(first, last) => (first, last),
        PortRange::Opaque => (u16::MAX, 0),
    };
    with_protocol(addresses, of.protocol, ports)
}
