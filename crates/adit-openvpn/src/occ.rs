//! The options string: what each side tells of its configuration, so that the other can warn of a mismatch
//! (options consistency check). Since cipher negotiation it decides nothing but the cipher of peers that
//! cannot negotiate.
//!
//! Sources: OpenVPN options_string.c (`options_string`), mtu.c (`calc_options_string_link_mtu`).

use std::collections::BTreeMap;

use adit_core::{Cipher, CompressionFraming, Digest, Transport};

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
    /// The data cipher that the configuration names (`data-ciphers-fallback` or `cipher`). `None`: the string
    /// is that of OpenVPN without the directive, which counts as for its old default BF-CBC and does not
    /// name it.
    pub cipher: Option<Cipher>,
    /// The cipher is among `data-ciphers`, and so the string names it.
    pub allowed: bool,
    /// The digest that goes with a cipher that is no AEAD (`auth`).
    pub digest: Digest,
    /// The compression framing configured.
    pub compression: CompressionFraming,
    /// tls-auth is in use.
    pub tls_auth: bool,
    /// `key-direction`.
    pub key_direction: KeyDirection,
}

/// The options string as OpenVPN prints it for a TUN device and TLS.
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
    if let Some(cipher) = params.cipher.filter(|_| params.allowed) {
        options.push(format!("cipher {cipher}"));
    }
    match params.cipher {
        Some(cipher) if cipher.is_aead() => options.push("auth [null-digest]".to_owned()),
        _ => options.push(format!("auth {}", params.digest)),
    }
    let key_len = params.cipher.map_or(BLOWFISH_KEY, Cipher::key_len);
    options.push(format!("keysize {}", 8 * key_len));
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

/// Key length of BF-CBC in bytes.
const BLOWFISH_KEY: usize = 16;

/// The link MTU as old peers count it: with an IV and a cipher block that an AEAD does not send.
fn link_mtu(params: &OccParams) -> usize {
    const OPCODE: usize = 1;
    const PACKET_ID: usize = 4;
    const TAG: usize = 16;
    let (iv, block, tag) = match params.cipher {
        Some(Cipher::Aes128Gcm | Cipher::Aes192Gcm | Cipher::Aes256Gcm) => (12, 16, TAG),
        Some(Cipher::ChaCha20Poly1305) => (12, 1, TAG),
        Some(Cipher::Aes128Cbc | Cipher::Aes192Cbc | Cipher::Aes256Cbc) => {
            (16, 16, params.digest.output_len())
        }
        None => (8, 8, params.digest.output_len()),
    };
    let length = if params.transport == Transport::Tcp { 2 } else { 0 };
    let compression = match params.compression {
        CompressionFraming::LzoNo | CompressionFraming::Stub => 1,
        CompressionFraming::None | CompressionFraming::StubV2 => 0,
    };
    usize::from(params.tun_mtu) + OPCODE + PACKET_ID + tag + iv + block + length + compression
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
        cipher: Some(Cipher::Aes256Gcm),
        allowed: true,
        digest: Digest::Sha1,
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
                OccParams { cipher: Some(Cipher::ChaCha20Poly1305), ..CLIENT },
                "link-mtu 1534,tun-mtu 1500,proto UDPv4,cipher CHACHA20-POLY1305,auth [null-digest],\
                 keysize 256,key-method 2,tls-client",
            ),
            (
                OccParams {
                    cipher: Some(Cipher::Aes128Gcm),
                    compression: CompressionFraming::LzoNo,
                    ..CLIENT
                },
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
                OccParams { cipher: None, allowed: false, ..CLIENT },
                "link-mtu 1541,tun-mtu 1500,proto UDPv4,auth SHA1,keysize 128,key-method 2,tls-client",
            ),
            (
                OccParams { cipher: None, allowed: false, digest: Digest::Sha384, ..CLIENT },
                "link-mtu 1569,tun-mtu 1500,proto UDPv4,auth SHA384,keysize 128,key-method 2,tls-client",
            ),
            (
                OccParams {
                    cipher: Some(Cipher::Aes256Cbc),
                    allowed: false,
                    digest: Digest::Sha256,
                    ..CLIENT
                },
                "link-mtu 1569,tun-mtu 1500,proto UDPv4,auth SHA256,keysize 256,key-method 2,tls-client",
            ),
            (
                OccParams { cipher: Some(Cipher::Aes128Cbc), transport: Transport::Tcp, ..CLIENT },
                "link-mtu 1559,tun-mtu 1500,proto TCPv4_CLIENT,cipher AES-128-CBC,auth SHA1,keysize 128,\
                 key-method 2,tls-client",
            ),
            (
                OccParams { cipher: Some(Cipher::Aes192Gcm), ..CLIENT },
                "link-mtu 1549,tun-mtu 1500,proto UDPv4,cipher AES-192-GCM,auth [null-digest],keysize 192,\
                 key-method 2,tls-client",
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
        let cipher = Some(Cipher::Aes128Cbc);
        assert_eq!(link_mtu(&OccParams { tun_mtu: 1400, cipher, ..CLIENT }), 1457);
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
