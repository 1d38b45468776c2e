//! The options string: what each side tells of its configuration, so that the other can warn of a mismatch
//! (options consistency check). Since cipher negotiation it decides nothing but the cipher of peers that
//! cannot negotiate.
//!
//! Sources: OpenVPN options_string.c (`options_string`), mtu.c (`calc_options_string_link_mtu`).

use std::collections::BTreeMap;

use adit_core::{Cipher, CompressionFraming, Transport};

use crate::wire::Role;
use crate::wrap::KeyDirection;

/// What the options string tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OccParams {
    /// Which end we are.
    pub role: Role,
    /// What carries the datagrams.
    pub transport: Transport,
    /// MTU of the TUN device in bytes.
    pub tun_mtu: u16,
    /// The data cipher, as far as it is known when the exchange starts.
    pub cipher: Cipher,
    /// The compression framing configured.
    pub compression: CompressionFraming,
    /// tls-auth is in use.
    pub tls_auth: bool,
    /// `key-direction`.
    pub key_direction: KeyDirection,
}

/// The options string as OpenVPN prints it for a TUN device, TLS and an AEAD.
pub fn options_string(params: &OccParams) -> String {
    let proto = match (params.transport, params.role) {
        (Transport::Udp, _) => "UDPv4",
        (Transport::Tcp, Role::Client) => "TCPv4_CLIENT",
        (Transport::Tcp, Role::Server) => "TCPv4_SERVER",
    };
    let mut options = vec![
        "V4".to_owned(),
        "dev-type tun".to_owned(),
        format!("link-mtu {}", link_mtu(params)),
        format!("tun-mtu {}", params.tun_mtu),
        format!("proto {proto}"),
    ];
    if params.compression != CompressionFraming::None {
        options.push("comp-lzo".to_owned());
    }
    match params.key_direction {
        KeyDirection::Bidirectional => {}
        KeyDirection::Normal => options.push("keydir 0".to_owned()),
        KeyDirection::Inverse => options.push("keydir 1".to_owned()),
    }
    options.push(format!("cipher {}", params.cipher));
    options.push("auth [null-digest]".to_owned());
    options.push(format!("keysize {}", 8 * params.cipher.key_len()));
    if params.tls_auth {
        options.push("tls-auth".to_owned());
    }
    options.push("key-method 2".to_owned());
    let role = match params.role {
        Role::Client => "tls-client",
        Role::Server => "tls-server",
    };
    options.push(role.to_owned());
    options.join(",")
}

/// The link MTU as old peers count it: with an IV and a cipher block that an AEAD does not send.
fn link_mtu(params: &OccParams) -> u32 {
    const OPCODE: u32 = 1;
    const PACKET_ID: u32 = 4;
    const TAG: u32 = 16;
    const IV: u32 = 12;
    let block = match params.cipher {
        Cipher::Aes128Gcm | Cipher::Aes256Gcm => 16,
        Cipher::ChaCha20Poly1305 => 1,
    };
    let length = if params.transport == Transport::Tcp { 2 } else { 0 };
    let compression = match params.compression {
        CompressionFraming::LzoNo | CompressionFraming::Stub => 1,
        CompressionFraming::None | CompressionFraming::StubV2 => 0,
    };
    u32::from(params.tun_mtu) + OPCODE + PACKET_ID + TAG + IV + block + length + compression
}

/// Reads a peer's options string: each option's first word, and what follows it (perhaps nothing). Of an
/// option that occurs twice the first counts. The version (`V4`) is an option without a value.
pub fn parse_options(options: &str) -> BTreeMap<&str, &str> {
    let mut map = BTreeMap::new();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once(' ').unwrap_or((option, ""));
        map.entry(name).or_insert(value);
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLIENT: OccParams = OccParams {
        role: Role::Client,
        transport: Transport::Udp,
        tun_mtu: 1500,
        cipher: Cipher::Aes256Gcm,
        compression: CompressionFraming::None,
        tls_auth: false,
        key_direction: KeyDirection::Bidirectional,
    };

    // Each as OpenVPN 2.6.14 logs it (`Local Options String`) for the same options.
    #[test]
    fn as_openvpn_prints_it() {
        let cases = [
            (
                CLIENT,
                "link-mtu 1549,tun-mtu 1500,proto UDPv4,cipher AES-256-GCM,auth [null-digest],keysize 256,\
                 key-method 2,tls-client",
            ),
            (
                OccParams { cipher: Cipher::ChaCha20Poly1305, ..CLIENT },
                "link-mtu 1534,tun-mtu 1500,proto UDPv4,cipher CHACHA20-POLY1305,auth [null-digest],\
                 keysize 256,key-method 2,tls-client",
            ),
            (
                OccParams { cipher: Cipher::Aes128Gcm, compression: CompressionFraming::LzoNo, ..CLIENT },
                "link-mtu 1550,tun-mtu 1500,proto UDPv4,comp-lzo,cipher AES-128-GCM,auth [null-digest],\
                 keysize 128,key-method 2,tls-client",
            ),
            (
                OccParams { tun_mtu: 1400, compression: CompressionFraming::StubV2, ..CLIENT },
                "link-mtu 1449,tun-mtu 1400,proto UDPv4,comp-lzo,cipher AES-256-GCM,auth [null-digest],\
                 keysize 256,key-method 2,tls-client",
            ),
            (
                OccParams { tls_auth: true, key_direction: KeyDirection::Inverse, ..CLIENT },
                "link-mtu 1549,tun-mtu 1500,proto UDPv4,keydir 1,cipher AES-256-GCM,auth [null-digest],\
                 keysize 256,tls-auth,key-method 2,tls-client",
            ),
            (
                OccParams { transport: Transport::Tcp, ..CLIENT },
                "link-mtu 1551,tun-mtu 1500,proto TCPv4_CLIENT,cipher AES-256-GCM,auth [null-digest],\
                 keysize 256,key-method 2,tls-client",
            ),
            (
                OccParams { role: Role::Server, transport: Transport::Tcp, ..CLIENT },
                "link-mtu 1551,tun-mtu 1500,proto TCPv4_SERVER,cipher AES-256-GCM,auth [null-digest],\
                 keysize 256,key-method 2,tls-server",
            ),
        ];
        for (params, expected) in cases {
            assert_eq!(options_string(&params), format!("V4,dev-type tun,{expected}"));
        }
    }

    // The value of OpenVPN's tests/unit_tests/openvpn/test_crypto.c (`test_occ_mtu_calculation`).
    #[test]
    fn link_mtu_vector() {
        assert_eq!(link_mtu(&OccParams { tun_mtu: 1400, ..CLIENT }), 1449);
    }

    #[test]
    fn peers_string_becomes_a_map() {
        let text = options_string(&CLIENT);
        let map = parse_options(&text);
        assert_eq!(map.get("cipher"), Some(&"AES-256-GCM"));
        assert_eq!(map.get("tls-client"), Some(&""));
        assert_eq!(map.get("V4"), Some(&""));
        assert_eq!(map.len(), 10);
        assert_eq!(parse_options("a 1,,a 2").into_iter().collect::<Vec<_>>(), [("a", "1")]);
    }

    proptest! {
        #[test]
        fn parse_never_panics(text: String) {
            parse_options(&text);
        }
    }
}
