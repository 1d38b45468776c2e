//! What two ends agree on: cipher, key derivation, data header, MSS.

use std::net::SocketAddr;

use adit_core::{Cipher, CompressionFraming, Path, Transport};

use crate::params::MssFix;
use crate::peer_info::PeerVariables;

/// `IV_PROTO` bits (OpenVPN ssl.h). Only those that adit implements are named here.
pub(crate) mod iv_proto {
    /// DATA_V2 is understood.
    pub(crate) const DATA_V2: u32 = 1 << 1;
    /// The client need not ask for the push reply.
    pub(crate) const REQUEST_PUSH: u32 = 1 << 2;
    /// Data keys can come from the TLS exporter.
    pub(crate) const TLS_KEY_EXPORT: u32 = 1 << 3;
    /// `AUTH_PENDING` may carry `timeout SECONDS`.
    pub(crate) const AUTH_PENDING_KW: u32 = 1 << 4;
    /// `AUTH_FAILED,TEMP` is understood.
    pub(crate) const AUTH_FAIL_TEMP: u32 = 1 << 8;
    /// `EXIT` on the control channel, and `protocol-flags`.
    pub(crate) const CC_EXIT: u32 = 1 << 7;
    /// Renegotiations can be wrapped by a key of the session's own.
    pub(crate) const DYNAMIC_TLS_CRYPT: u32 = 1 << 9;
}

/// What a client told of itself in `IV_` lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerAbilities {
    pub(crate) proto: u32,
    pub(crate) ciphers: Vec<String>,
    pub(crate) accepts_tun_mtu: bool,
}

impl PeerAbilities {
    /// Reads the peer-info lines `NAME=VALUE`.
    pub(crate) fn parse(peer_info: &str) -> Self {
        let variables = PeerVariables::parse(peer_info);
        let value = |name: &str| variables.get(name).map(str::trim);
        let ciphers = match (value("IV_CIPHERS"), value("IV_NCP")) {
            (Some(list), _) => list.split(':').map(str::to_owned).collect(),
            // OpenVPN 2.4 says this instead of a list (OpenVPN ssl_ncp.c).
            (None, Some("2")) => vec!["AES-256-GCM".to_owned(), "AES-128-GCM".to_owned()],
            _ => Vec::new(),
        };
        PeerAbilities {
            proto: value("IV_PROTO").and_then(|text| text.parse().ok()).unwrap_or(0),
            ciphers,
            accepts_tun_mtu: value("IV_MTU").is_some(),
        }
    }

    /// Whether renegotiations are wrapped by dynamic tls-crypt: it can, and it can be told so.
    pub(crate) fn wraps_dynamically(&self) -> bool {
        self.has(iv_proto::CC_EXIT) && self.has(iv_proto::DYNAMIC_TLS_CRYPT)
    }

    pub(crate) fn has(&self, bit: u32) -> bool {
        self.proto & bit != 0
    }
}

/// The server's choice: its own most wanted cipher that the client has, else the client's `cipher` if the
/// server allows it, else the fallback for clients that offer nothing.
pub(crate) fn choose_cipher(
    ours: &[Cipher],
    fallback: Option<Cipher>,
    theirs: &PeerAbilities,
    their_occ_cipher: Option<&str>,
) -> Option<Cipher> {
    let offered =
        |cipher: &Cipher| theirs.ciphers.iter().any(|name| cipher.name().eq_ignore_ascii_case(name));
    if let Some(cipher) = ours.iter().copied().find(|cipher| offered(cipher)) {
        return Some(cipher);
    }
    let named = their_occ_cipher.and_then(Cipher::from_name);
    if let Some(cipher) = named.filter(|cipher| ours.contains(cipher) || fallback == Some(*cipher)) {
        return Some(cipher);
    }
    // A peer built without cipher negotiation may not even name its cipher.
    if theirs.ciphers.is_empty() && their_occ_cipher.is_none() { fallback } else { None }
}

/// The most TCP payload an inner IPv4 packet may carry, as `mssfix` computes it (OpenVPN mss.c
/// `frame_calculate_mssfix`). `None`: leave MSS alone.
pub(crate) fn max_mss(
    mssfix: MssFix,
    tun_mtu: u16,
    path: Path,
    peer_id_header: bool,
    compression: CompressionFraming,
) -> Option<u16> {
    const INNER_HEADERS: usize = 20 + 20;
    const PACKET_ID_AND_TAG: usize = 4 + 16;
    let (target, outer_counts) = match mssfix {
        MssFix::Off => return None,
        MssFix::Fixed(mtu) => return u16::try_from(usize::from(mtu).saturating_sub(INNER_HEADERS)).ok(),
        MssFix::Default if tun_mtu != 1500 => {
            return u16::try_from(usize::from(tun_mtu).saturating_sub(INNER_HEADERS)).ok();
        }
        MssFix::Default => (1492, true),
        MssFix::Payload(size) => (size, false),
        MssFix::Mtu(size) => (size, true),
    };
    let header = if peer_id_header { 4 } else { 1 };
    let length_prefix = if path.transport() == Transport::Tcp { 2 } else { 0 };
    let compression_byte =
        usize::from(matches!(compression, CompressionFraming::LzoNo | CompressionFraming::Stub));
    let outer = if outer_counts { outer_headers(path) } else { 0 };
    let overhead = header + length_prefix + PACKET_ID_AND_TAG + compression_byte + outer + INNER_HEADERS;
    u16::try_from(usize::from(target).saturating_sub(overhead)).ok()
}

/// IP and UDP or TCP headers of a datagram on that path.
fn outer_headers(path: Path) -> usize {
    let ip = match path.remote() {
        SocketAddr::V4(_) => 20,
        SocketAddr::V6(_) => 40,
    };
    let transport = match path.transport() {
        Transport::Udp => 8,
        Transport::Tcp => 20,
    };
    ip + transport
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(address: &str) -> Path {
        Path::Udp { socket: 0, remote: address.parse().unwrap() }
    }

    #[test]
    fn default_mss_over_udp4_is_1400() {
        let path = udp("192.0.2.1:1194");
        assert_eq!(max_mss(MssFix::Default, 1500, path, true, CompressionFraming::None), Some(1400));
        assert_eq!(max_mss(MssFix::Default, 1400, path, true, CompressionFraming::None), Some(1360));
        assert_eq!(max_mss(MssFix::Off, 1500, path, true, CompressionFraming::None), None);
        assert_eq!(max_mss(MssFix::Payload(1450), 1500, path, true, CompressionFraming::None), Some(1386));
        assert_eq!(max_mss(MssFix::Fixed(1400), 1500, path, true, CompressionFraming::None), Some(1360));
        let v6 = udp("[2001:db8::1]:1194");
        assert_eq!(max_mss(MssFix::Default, 1500, v6, true, CompressionFraming::LzoNo), Some(1379));
    }

    #[test]
    fn server_order_decides_the_cipher() {
        let theirs =
            PeerAbilities::parse("IV_PROTO=990\nIV_CIPHERS=CHACHA20-POLY1305:AES-128-GCM\nIV_MTU=1600\n");
        assert!(theirs.has(iv_proto::DATA_V2) && theirs.has(iv_proto::CC_EXIT) && theirs.accepts_tun_mtu);
        let ours = [Cipher::Aes256Gcm, Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305];
        assert_eq!(choose_cipher(&ours, None, &theirs, Some("AES-256-GCM")), Some(Cipher::Aes128Gcm));
        assert_eq!(choose_cipher(&[Cipher::Aes256Gcm], None, &theirs, None), None);
    }

    #[test]
    fn old_peers_fall_back() {
        let ncp = PeerAbilities::parse("IV_NCP=2\n");
        assert_eq!(choose_cipher(&[Cipher::Aes128Gcm], None, &ncp, None), Some(Cipher::Aes128Gcm));
        let silent = PeerAbilities::default();
        assert_eq!(
            choose_cipher(&[Cipher::Aes256Gcm], None, &silent, Some("AES-256-GCM")),
            Some(Cipher::Aes256Gcm)
        );
        assert_eq!(choose_cipher(&[Cipher::Aes256Gcm], None, &silent, Some("BF-CBC")), None);
        assert_eq!(choose_cipher(&[], Some(Cipher::Aes128Gcm), &silent, None), Some(Cipher::Aes128Gcm));
    }
}
