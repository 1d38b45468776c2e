//! The names of algorithms, identities and selectors in strongSwan's messages.

use std::net::IpAddr;

use adit_core::{Cipher, Digest};
use adit_ike::suite::Group;
use adit_ike::wire::{AddressRange, IdType, Identification, TrafficSelector};
use adit_ike_config::{self as model, IdentityPattern, PortRange};
use adit_pki::name_text;

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

/// A selector: a network or a range, with the protocol and the ports in brackets where not all are meant.
pub(super) fn selector(selector: &TrafficSelector) -> String {
    let addresses = match &selector.addresses {
        AddressRange::V4(first, last) => range((*first).into(), (*last).into()),
        AddressRange::V6(first, last) => range((*first).into(), (*last).into()),
        AddressRange::Other(kind, _) => format!("kind {kind}"),
    };
    with_protocol(addresses, selector.protocol, (selector.first_port, selector.last_port))
}

fn with_protocol(addresses: String, protocol: u8, ports: (u16, u16)) -> String {
    let protocol = match protocol {
        0 => String::new(),
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "ipv6-icmp".to_owned(),
        other => other.to_string(),
    };
    let ports = match ports {
        (0, u16::MAX) => String::new(),
        (u16::MAX, 0) => "OPAQUE".to_owned(),
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    };
    match (protocol.is_empty(), ports.is_empty()) {
        (true, true) => addresses,
        (false, true) => format!("{addresses}[{protocol}]"),
        (_, false) => format!("{addresses}[{protocol}/{ports}]"),
    }
}

/// A network where the range is one.
fn range(first: IpAddr, last: IpAddr) -> String {
    let network = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            prefix((first.to_bits() ^ last.to_bits()).into(), first.to_bits().into(), 32)
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            prefix(first.to_bits() ^ last.to_bits(), first.to_bits(), 128)
        }
        _ => None,
    };
    match network {
        Some(len) => format!("{first}/{len}"),
        None => format!("{first}..{last}"),
    }
}

/// The length of the prefix, if the addresses from `first` on that differ from it in `difference` at most are a network.
fn prefix(difference: u128, first: u128, bits: u32) -> Option<u32> {
    let is_network = difference & difference.wrapping_add(1) == 0 && first & difference == 0;
    is_network.then_some(bits - difference.count_ones())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_written_as_strongswan_writes_them() {
        let v4 = |first: &str, last: &str| AddressRange::V4(first.parse().unwrap(), last.parse().unwrap());
        let v6 = |first: &str, last: &str| AddressRange::V6(first.parse().unwrap(), last.parse().unwrap());
        let all = |addresses| TrafficSelector { protocol: 0, first_port: 0, last_port: u16::MAX, addresses };
        for (addresses, expected) in [
            (v4("10.77.1.0", "10.77.1.255"), "10.77.1.0/24"),
            (v4("0.0.0.0", "255.255.255.255"), "0.0.0.0/0"),
            (v4("10.0.0.1", "10.0.0.1"), "10.0.0.1/32"),
            (v4("10.0.0.1", "10.0.0.2"), "10.0.0.1..10.0.0.2"),
            (v4("10.0.0.4", "10.0.0.11"), "10.0.0.4..10.0.0.11"),
            (v6("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), "::/0"),
            (v6("fd00:1::", "fd00:1::ffff:ffff:ffff:ffff"), "fd00:1::/64"),
        ] {
            assert_eq!(selector(&all(addresses)), expected);
        }
        let base = all(v4("10.0.0.0", "10.255.255.255"));
        let of = |protocol, first_port, last_port| {
            selector(&TrafficSelector { protocol, first_port, last_port, ..base.clone() })
        };
        assert_eq!(of(6, 80, 80), "10.0.0.0/8[tcp/80]");
        assert_eq!(of(17, 0, u16::MAX), "10.0.0.0/8[udp]");
        assert_eq!(of(0, 1000, 2000), "10.0.0.0/8[/1000-2000]");
        assert_eq!(of(132, u16::MAX, 0), "10.0.0.0/8[132/OPAQUE]");
    }
}
