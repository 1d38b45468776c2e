//! The options string: the parts of its configuration that each side sends, so that the other can warn of a
//! mismatch (options consistency check). Since cipher negotiation it decides nothing but the cipher of peers
//! that cannot negotiate.
//!
//! Sources: OpenVPN options_string.c (`options_string`), mtu.c (`calc_options_string_link_mtu`), tun.c
//! (`ifconfig_options_string`).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use adit_core::{Cipher, Digest, IpNet, Transport};

use crate::codec::Compression;
use crate::params::{LocalSettings, StaticParams};
use crate::wire::TlsRole;
use crate::wrap::KeyDirection;

/// The parameters of the options string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OccParams {
    /// Which end we are.
    pub role: TlsRole,
    /// The carrier of the datagrams.
    pub transport: Transport,
    /// MTU of the TUN device in bytes.
    pub tun_mtu: u16,
    /// The MTU that the string tells of, if that is another.
    pub told_mtu: Option<u16>,
    /// The data cipher that the configuration names (`data-ciphers-fallback` or `cipher`). `None`: the string
    /// is that of OpenVPN without the directive, which counts as for its old default BF-CBC and does not
    /// name it.
    pub cipher: Option<Cipher>,
    /// The cipher is among `data-ciphers`, and so the string names it. Of point-to-point tunnels it always does.
    pub allowed: bool,
    /// The digest that goes with a cipher that is no AEAD (`auth`).
    pub digest: Digest,
    /// The compression framing configured.
    pub compression: Compression,
    /// `fragment` is.
    pub fragment: bool,
    /// tls-auth is in use.
    pub tls_auth: bool,
    /// `key-direction`.
    pub key_direction: KeyDirection,
    /// A point-to-point tunnel, in which nothing is pushed and both files must agree.
    pub point_to_point: Option<OccPointToPoint>,
    /// There is a static key (`secret`) in place of TLS. The role then says which end connects to the other.
    pub secret: bool,
}

/// The further parameters of an end of a point-to-point tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OccPointToPoint {
    /// `ifconfig` as the other end should have it: its own address and ours, or the network and its mask.
    pub ifconfig: Option<[Ipv4Addr; 2]>,
    /// There is an `ifconfig-ipv6`.
    pub ipv6: bool,
}

impl From<&LocalSettings> for OccPointToPoint {
    fn from(local: &LocalSettings) -> Self {
        let ours = local.addresses.iter().find_map(|address| match address {
            IpNet::V4(address) => Some(*address),
            IpNet::V6(_) => None,
        });
        OccPointToPoint {
            ifconfig: ours.filter(|_| !local.untold).map(|ours| match local.peer_address {
                Some(IpAddr::V4(peer)) => [peer, ours.addr()],
                _ => [ours.network(), ours.netmask()],
            }),
            ipv6: local.addresses.iter().any(|address| matches!(address, IpNet::V6(_))),
        }
    }
}

/// The options string as OpenVPN prints it for a TUN device, with TLS or a static key.
pub fn options_string(params: &OccParams) -> String {
    let proto = match (params.transport, params.role) {
        (Transport::Udp | Transport::Ip(_), _) => "UDPv4",
        (Transport::Tcp, TlsRole::Client) => "TCPv4_CLIENT",
        (Transport::Tcp, TlsRole::Server) => "TCPv4_SERVER",
    };
    let mut options = vec![
        "V4".to_owned(),
        "dev-type tun".to_owned(),
        format!("link-mtu {}", link_mtu(params)),
        format!("tun-mtu {}", params.told_mtu.unwrap_or(params.tun_mtu)),
        format!("proto {proto}"),
    ];
    if let Some(point) = params.point_to_point {
        if point.ipv6 {
            options.push("tun-ipv6".to_owned());
        }
        if let Some([theirs, ours]) = point.ifconfig {
            options.push(format!("ifconfig {theirs} {ours}"));
        }
    }
    if params.compression != Compression::None {
        options.push("comp-lzo".to_owned());
    }
    if params.fragment {
        options.push("mtu-dynamic".to_owned());
    }
    match params.key_direction {
        KeyDirection::Bidirectional => {}
        KeyDirection::Normal => options.push("keydir 0".to_owned()),
        KeyDirection::Inverse => options.push("keydir 1".to_owned()),
    }
    match params.cipher {
        Some(cipher) if params.allowed || params.point_to_point.is_some() => {
            options.push(format!("cipher {cipher}"))
        }
        None if params.point_to_point.is_some() => options.push("cipher BF-CBC".to_owned()),
        _ => {}
    }
    match params.cipher {
        Some(cipher) if cipher.is_aead() => options.push("auth [null-digest]".to_owned()),
        _ => options.push(format!("auth {}", params.digest)),
    }
    let key_len = params.cipher.map_or(BLOWFISH_KEY, Cipher::key_len);
    options.push(format!("keysize {}", 8 * key_len));
    if params.secret {
        options.push("secret".to_owned());
        return options.join(",");
    }
    if params.tls_auth {
        options.push("tls-auth".to_owned());
    }
    options.push("key-method 2".to_owned());
    let role = match params.role {
        TlsRole::Client => "tls-client",
        TlsRole::Server => "tls-server",
    };
    options.push(role.to_owned());
    options.join(",")
}

/// The options string of an end with a static key.
pub(crate) fn static_options_string(params: &StaticParams, transport: Transport) -> String {
    options_string(&OccParams {
        role: if params.waits() { TlsRole::Server } else { TlsRole::Client },
        transport,
        tun_mtu: params.tun_mtu,
        told_mtu: params.told_mtu,
        cipher: Some(params.cipher),
        allowed: true,
        digest: params.digest,
        compression: params.compression,
        fragment: params.fragment.is_some() && transport == Transport::Udp,
        tls_auth: false,
        key_direction: params.direction,
        point_to_point: Some(OccPointToPoint::from(&params.local)),
        secret: true,
    })
}

/// Key length of BF-CBC in bytes.
const BLOWFISH_KEY: usize = 16;

/// The link MTU as old peers count it: with an IV and a cipher block that an AEAD does not send.
fn link_mtu(params: &OccParams) -> usize {
    // With TLS the opcode and a short packet id, else a long packet id alone.
    let header = if params.secret { 8 } else { 1 + 4 };
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
        Compression::LzoNo | Compression::Stub => 1,
        Compression::None | Compression::StubV2 => 0,
    };
    let fragment = if params.fragment { 4 } else { 0 };
    usize::from(params.tun_mtu) + header + tag + iv + block + length + compression + fragment
}

/// Reads a peer's options string: each option's first word, and the words after it (perhaps none). Of an
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
    use adit_core::UnixTime;
    use proptest::prelude::*;

    use super::*;
    use crate::params::{Fragment, RemoteParams};
    use crate::static_key::StaticKey;

    const CLIENT: OccParams = OccParams {
        role: TlsRole::Client,
        transport: Transport::Udp,
        tun_mtu: 1500,
        told_mtu: None,
        cipher: Some(Cipher::Aes256Gcm),
        allowed: true,
        digest: Digest::Sha1,
        compression: Compression::None,
        fragment: false,
        tls_auth: false,
        key_direction: KeyDirection::Bidirectional,
        point_to_point: None,
        secret: false,
    };

    const POINT_TO_POINT: OccPointToPoint = OccPointToPoint {
        ifconfig: Some([Ipv4Addr::new(10, 8, 0, 2), Ipv4Addr::new(10, 8, 0, 1)]),
        ipv6: false,
    };

    // Each as OpenVPN 2.6.14 logs it (`Local Options String`) for the same options.
    #[test]
    fn of_points_as_openvpn_prints_it() {
        let network = [Ipv4Addr::new(10, 8, 0, 0), Ipv4Addr::new(255, 255, 255, 0)];
        let normal = KeyDirection::Normal;
        let cases = [
            (
                OccParams {
                    point_to_point: Some(OccPointToPoint { ipv6: true, ..POINT_TO_POINT }),
                    cipher: None,
                    allowed: false,
                    ..CLIENT
                },
                "link-mtu 1541,tun-mtu 1500,proto UDPv4,tun-ipv6,ifconfig 10.8.0.2 10.8.0.1,cipher BF-CBC,\
                 auth SHA1,keysize 128,key-method 2,tls-client",
            ),
            (
                OccParams {
                    role: TlsRole::Server,
                    transport: Transport::Tcp,
                    tls_auth: true,
                    key_direction: normal,
                    point_to_point: Some(OccPointToPoint { ifconfig: Some(network), ipv6: false }),
                    ..CLIENT
                },
                "link-mtu 1551,tun-mtu 1500,proto TCPv4_SERVER,ifconfig 10.8.0.0 255.255.255.0,keydir 0,\
                 cipher AES-256-GCM,auth [null-digest],keysize 256,tls-auth,key-method 2,tls-server",
            ),
            (
                OccParams {
                    cipher: Some(Cipher::Aes256Cbc),
                    allowed: false,
                    point_to_point: Some(OccPointToPoint::default()),
                    ..CLIENT
                },
                "link-mtu 1557,tun-mtu 1500,proto UDPv4,cipher AES-256-CBC,auth SHA1,keysize 256,\
                 key-method 2,tls-client",
            ),
        ];
        for (params, expected) in cases {
            assert_eq!(options_string(&params), format!("V4,dev-type tun,{expected}"));
        }
    }

    #[test]
    fn of_static_keys_as_openvpn_prints_it() {
        let key = StaticKey::from_bytes(&[7; 256]);
        let local = LocalSettings {
            addresses: vec!["fd00:8::1/64".parse().unwrap(), "10.8.0.1/32".parse().unwrap()],
            peer_address: Some("10.8.0.2".parse().unwrap()),
            ..LocalSettings::default()
        };
        let wall = UnixTime(0);
        let directed = StaticParams {
            digest: Digest::Sha256,
            local: local.clone(),
            remotes: vec![RemoteParams::new("east".to_owned(), Transport::Udp)],
            ..StaticParams::new(key.clone(), KeyDirection::Normal, Cipher::Aes256Cbc, wall)
        };
        assert_eq!(
            static_options_string(&directed, Transport::Udp),
            "V4,dev-type tun,link-mtu 1572,tun-mtu 1500,proto UDPv4,tun-ipv6,ifconfig 10.8.0.2 10.8.0.1,\
             keydir 0,cipher AES-256-CBC,auth SHA256,keysize 256,secret"
        );
        let cut = StaticParams {
            compression: Compression::LzoNo,
            fragment: Some(Fragment::Payload(1200)),
            ..StaticParams::new(key.clone(), KeyDirection::Bidirectional, Cipher::Aes256Cbc, wall)
        };
        assert_eq!(
            static_options_string(&cut, Transport::Udp),
            "V4,dev-type tun,link-mtu 1565,tun-mtu 1500,proto UDPv4,comp-lzo,mtu-dynamic,cipher AES-256-CBC,\
             auth SHA1,keysize 256,secret"
        );
        assert!(!static_options_string(&cut, Transport::Tcp).contains("mtu-dynamic"));
        let waiting = StaticParams {
            compression: Compression::LzoNo,
            local: LocalSettings { addresses: local.addresses[1..].to_vec(), ..local },
            ..StaticParams::new(key, KeyDirection::Bidirectional, Cipher::Aes128Cbc, wall)
        };
        assert_eq!(
            static_options_string(&waiting, Transport::Tcp),
            "V4,dev-type tun,link-mtu 1563,tun-mtu 1500,proto TCPv4_SERVER,ifconfig 10.8.0.2 10.8.0.1,\
             comp-lzo,cipher AES-128-CBC,auth SHA1,keysize 128,secret"
        );
    }

    #[test]
    fn an_end_in_a_network_names_the_network() {
        let local =
            LocalSettings { addresses: vec!["10.8.0.9/20".parse().unwrap()], ..LocalSettings::default() };
        let network = [Ipv4Addr::new(10, 8, 0, 0), Ipv4Addr::new(255, 255, 240, 0)];
        assert_eq!(OccPointToPoint::from(&local), OccPointToPoint { ifconfig: Some(network), ipv6: false });
        assert_eq!(OccPointToPoint::from(&LocalSettings::default()), OccPointToPoint::default());
        assert_eq!(
            OccPointToPoint::from(&LocalSettings { untold: true, ..local }),
            OccPointToPoint::default()
        );
    }

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
                OccParams { cipher: Some(Cipher::Aes128Gcm), compression: Compression::LzoNo, ..CLIENT },
                "link-mtu 1550,tun-mtu 1500,proto UDPv4,comp-lzo,cipher AES-128-GCM,auth [null-digest],\
                 keysize 128,key-method 2,tls-client",
            ),
            (
                OccParams { tun_mtu: 1400, compression: Compression::StubV2, ..CLIENT },
                "link-mtu 1449,tun-mtu 1400,proto UDPv4,comp-lzo,cipher AES-256-GCM,auth [null-digest],\
                 keysize 256,key-method 2,tls-client",
            ),
            (
                OccParams { compression: Compression::LzoNo, fragment: true, ..CLIENT },
                "link-mtu 1554,tun-mtu 1500,proto UDPv4,comp-lzo,mtu-dynamic,cipher AES-256-GCM,auth [null-digest],\
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
                OccParams { told_mtu: Some(1400), cipher: None, allowed: false, ..CLIENT },
                "link-mtu 1541,tun-mtu 1400,proto UDPv4,auth SHA1,keysize 128,key-method 2,tls-client",
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
                OccParams { role: TlsRole::Server, transport: Transport::Tcp, ..CLIENT },
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
