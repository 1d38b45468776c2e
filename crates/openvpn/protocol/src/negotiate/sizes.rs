//! How large datagrams and payloads of the data channel may be.

use std::net::SocketAddr;

use adit_core::{Cipher, Digest, Path, Transport};

use crate::codec::{Compression, LONGEST_PAYLOAD, Payloads};
use crate::params::{Fragment, MssFix, StaticParams};

/// Bytes of the IPv4 and TCP headers of a packet inside.
const INNER_HEADERS: usize = 20 + 20;
/// Bytes of an AEAD's tag.
const TAG: usize = 16;
/// Bytes of a cipher's block, and of its IV.
const BLOCK: usize = 16;
/// Bytes in front of a part (OpenVPN fragment.h, `fragment_header_type`).
const FRAGMENT_HEADER: usize = 4;
/// Bytes of the IP and UDP headers, if it is not known to which address datagrams go.
const LARGEST_OUTER_HEADERS: usize = 40 + 8;

/// A path, and its MTU in bytes where the system knows that ([`adit_core::Command::PathMtu`]).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathSize {
    pub(crate) path: Path,
    pub(crate) mtu: Option<u16>,
}

impl From<Path> for PathSize {
    fn from(path: Path) -> Self {
        PathSize { path, mtu: None }
    }
}

/// The parts of a datagram of the data channel besides the packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Bytes of opcode and peer-id.
    pub(crate) header: usize,
    /// Bytes of the packet id.
    pub(crate) packet_id: usize,
    pub(crate) cipher: Cipher,
    pub(crate) digest: Digest,
    pub(crate) compression: Compression,
    pub(crate) fragment: Option<Fragment>,
}

impl Shape {
    /// How many bytes can be sealed in a datagram of `size` bytes, beside the packet id (OpenVPN mss.c,
    /// `adjust_payload_max_cbc`).
    fn room(&self, size: usize) -> usize {
        let room = size.saturating_sub(self.header);
        if self.cipher.is_aead() {
            return room.saturating_sub(self.packet_id + TAG);
        }
        // Whole blocks, at least one byte of padding, and the packet id inside.
        let blocks = room.saturating_sub(BLOCK + self.digest.output_len()) / BLOCK * BLOCK;
        blocks.saturating_sub(1 + self.packet_id)
    }
}

impl From<&StaticParams> for Shape {
    /// The shape with a static key: no header, and a long packet id.
    fn from(params: &StaticParams) -> Self {
        Shape {
            header: 0,
            packet_id: 8,
            cipher: params.cipher,
            digest: params.digest,
            compression: params.compression,
            fragment: params.fragment,
        }
    }
}

/// The most TCP payload an inner IPv4 packet may carry, as `mssfix` computes it (OpenVPN mss.c
/// `frame_calculate_mssfix`), or fewer if datagrams are to fit the path's MTU. `None`: leave MSS alone.
pub(crate) fn max_mss(mssfix: MssFix, tun_mtu: u16, path: impl Into<PathSize>, shape: &Shape) -> Option<u16> {
    let PathSize { path, mtu } = path.into();
    let most = configured_mss(mssfix, tun_mtu, path, shape)?;
    // The system itself cuts data that goes over TCP.
    let mtu = mtu.filter(|_| path.transport() == Transport::Udp);
    // Parts fit already, or are meant to be larger.
    let fitting = mtu.filter(|_| shape.fragment.is_none()).and_then(|mtu| mss(mtu, true, path, shape));
    Some(fitting.map_or(most, |fitting| fitting.min(most)))
}

/// The MSS that `mssfix` sets.
fn configured_mss(mssfix: MssFix, tun_mtu: u16, path: Path, shape: &Shape) -> Option<u16> {
    let (target, outer_counts) = match (mssfix, shape.fragment) {
        (MssFix::Off, _) => return None,
        (MssFix::Fixed(mtu), _) => {
            return u16::try_from(usize::from(mtu).saturating_sub(INNER_HEADERS)).ok();
        }
        // So that TCP needs no parts. OpenVPN counts outer headers, however `fragment` is meant (options.c).
        (MssFix::Default, Some(Fragment::Payload(size) | Fragment::Mtu(size))) => (size, true),
        (MssFix::Default, None) if tun_mtu != 1500 => {
            return u16::try_from(usize::from(tun_mtu).saturating_sub(INNER_HEADERS)).ok();
        }
        (MssFix::Default, None) => (1492, true),
        (MssFix::Payload(size), _) => (size, false),
        (MssFix::Mtu(size), _) => (size, true),
    };
    mss(target, outer_counts, path, shape)
}

/// The most TCP payload of a packet in a datagram of that size, which may count the outer headers.
fn mss(target: u16, outer_counts: bool, path: Path, shape: &Shape) -> Option<u16> {
    let length_prefix = if path.transport() == Transport::Tcp { 2 } else { 0 };
    let outer = if outer_counts { outer_headers(path) } else { 0 };
    let compression_byte = usize::from(matches!(shape.compression, Compression::LzoNo | Compression::Stub));
    let fragment = if shape.fragment.is_some() { FRAGMENT_HEADER } else { 0 };
    let room = shape.room(usize::from(target).saturating_sub(length_prefix + outer));
    u16::try_from(room.saturating_sub(compression_byte + fragment + INNER_HEADERS)).ok()
}

/// The form of payloads in datagrams of that shape, for the data plane (OpenVPN mss.c, `frame_calculate_fragment`).
/// `path`: their path, if that is known.
pub(crate) fn payloads(path: Option<Path>, tun_mtu: u16, shape: &Shape, decompress: bool) -> Payloads {
    let fragment = shape.fragment.map(|fragment| {
        let size = match fragment {
            Fragment::Payload(size) => usize::from(size),
            Fragment::Mtu(size) => {
                usize::from(size).saturating_sub(path.map_or(LARGEST_OUTER_HEADERS, outer_headers))
            }
        };
        u16::try_from(shape.room(size).saturating_sub(FRAGMENT_HEADER)).unwrap_or(u16::MAX)
    });
    Payloads { decompress, fragment, longest: tun_mtu.max(LONGEST_PAYLOAD) }
}

/// IP and UDP or TCP headers of a datagram on that path.
fn outer_headers(path: Path) -> usize {
    let ip = match path.remote() {
        SocketAddr::V4(_) => 20,
        SocketAddr::V6(_) => 40,
    };
    let transport = match path.transport() {
        Transport::Udp | Transport::Ip(_) => 8,
        Transport::Tcp => 20,
    };
    ip + transport
}

#[cfg(test)]
mod tests {
    use adit_core::ReplayWindow;

    use super::*;
    use crate::codec::DataHeader;
    use crate::data_keys::Agreement;

    fn udp(address: &str) -> Path {
        Path::Udp { socket: 0, remote: address.parse().unwrap() }
    }

    fn agreement(cipher: Cipher, compression: Compression) -> Agreement {
        Agreement {
            cipher,
            digest: Digest::Sha1,
            header: DataHeader::V2 { peer_id: 0 },
            compression,
            exporter: true,
            epoch: false,
            replay_window: ReplayWindow::default(),
            fragment: None,
            payloads: Payloads::default(),
        }
    }

    #[test]
    fn default_mss_over_udp4_is_1400() {
        let path = udp("192.0.2.1:1194");
        let gcm = agreement(Cipher::Aes256Gcm, Compression::None);
        assert_eq!(max_mss(MssFix::Default, 1500, path, &gcm.shape()), Some(1400));
        assert_eq!(max_mss(MssFix::Default, 1400, path, &gcm.shape()), Some(1360));
        assert_eq!(max_mss(MssFix::Off, 1500, path, &gcm.shape()), None);
        assert_eq!(max_mss(MssFix::Payload(1450), 1500, path, &gcm.shape()), Some(1386));
        assert_eq!(max_mss(MssFix::Fixed(1400), 1500, path, &gcm.shape()), Some(1360));
        let epoch = Agreement { epoch: true, ..gcm };
        assert_eq!(max_mss(MssFix::Default, 1500, path, &epoch.shape()), Some(1396), "packet ids of 8 bytes");
        let v6 = udp("[2001:db8::1]:1194");
        let lzo = agreement(Cipher::Aes256Gcm, Compression::LzoNo);
        assert_eq!(max_mss(MssFix::Default, 1500, v6, &lzo.shape()), Some(1379));
    }

    #[test]
    fn datagrams_fit_the_paths_mtu() {
        let (path, gcm) = (udp("192.0.2.1:1194"), agreement(Cipher::Aes256Gcm, Compression::None));
        let narrow = PathSize { path, mtu: Some(1300) };
        for (mssfix, mss) in [
            (MssFix::Default, Some(1208)),
            (MssFix::Payload(1450), Some(1208)),
            (MssFix::Fixed(1400), Some(1208)),
            (MssFix::Mtu(1280), Some(1188)),
            (MssFix::Off, None),
        ] {
            assert_eq!(max_mss(mssfix, 1500, narrow, &gcm.shape()), mss, "{mssfix:?}");
        }
        let wide = PathSize { path, mtu: Some(9000) };
        assert_eq!(max_mss(MssFix::Default, 1500, wide, &gcm.shape()), Some(1400));
        let parts = Agreement { fragment: Some(Fragment::Mtu(1400)), ..gcm };
        assert_eq!(
            max_mss(MssFix::Default, 1500, narrow, &parts.shape()),
            max_mss(MssFix::Default, 1500, path, &parts.shape())
        );
        let tcp = Path::Tcp { connection: adit_core::ConnectionId(1), remote: path.remote() };
        let narrow = PathSize { path: tcp, mtu: Some(1300) };
        assert_eq!(
            max_mss(MssFix::Default, 1500, narrow, &gcm.shape()),
            max_mss(MssFix::Default, 1500, tcp, &gcm.shape())
        );
    }

    // As OpenVPN's tests/unit_tests/openvpn/test_crypto.c (`test_mssfix_mtu_calculation`) has it for static
    // keys and no digest: TLS has 1 byte of header more, packet ids 4 bytes shorter, and SHA1 20 bytes, so
    // that the steps come 21 bytes later and the value is 4 more.
    #[test]
    fn mss_of_cbc_goes_by_blocks() {
        let path = udp("192.0.2.1:1194");
        for (compression, byte) in [(Compression::None, 0), (Compression::LzoNo, 1)] {
            let cbc = Agreement { header: DataHeader::V1, ..agreement(Cipher::Aes128Cbc, compression) };
            for size in 990..=1010 {
                let expected = match size {
                    ..=991 => 911,
                    1008.. => 943,
                    _ => 927,
                };
                let found = max_mss(MssFix::Payload(size + 21), 1400, path, &cbc.shape());
                assert_eq!(found, Some(expected + 4 - byte), "{size}");
                let with_secret = Shape { header: 0, packet_id: 8, ..cbc.shape() };
                let found = max_mss(MssFix::Payload(size + 20), 1400, path, &with_secret);
                assert_eq!(found, Some(expected - byte), "{size} with a static key");
            }
        }
    }

    /// As OpenVPN 2.6.14 logs them (`Fragmentation MTU parms`) for `fragment 1200`, the one with TLS, the other with a static
    /// key.
    #[test]
    fn sizes_are_those_of_openvpn() {
        let v6 = udp("[2001:db8::1]:1194");
        let cut = Agreement {
            header: DataHeader::V1,
            fragment: Some(Fragment::Payload(1200)),
            ..agreement(Cipher::Aes256Gcm, Compression::LzoNo)
        };
        let secret = Shape { header: 0, packet_id: 8, cipher: Cipher::Aes256Cbc, ..cut.shape() };
        for (shape, mss, part) in [(cut.shape(), 1086, 1175), (secret, 1050, 1139)] {
            assert_eq!(max_mss(MssFix::Default, 1500, v6, &shape), Some(mss));
            assert_eq!(payloads(Some(v6), 1500, &shape, false).fragment, Some(part));
        }
    }

    #[test]
    fn parts_fit_their_datagrams() {
        let v4 = Some(udp("192.0.2.1:1194"));
        let gcm = agreement(Cipher::Aes256Gcm, Compression::None);
        let most = |fragment, path, agreement: Agreement| {
            let agreement = Agreement { fragment: Some(fragment), ..agreement };
            payloads(path, 1500, &agreement.shape(), false).fragment
        };
        // Header 4, packet id 4, tag 16; header of the part 4.
        assert_eq!(most(Fragment::Payload(1200), v4, gcm), Some(1172));
        assert_eq!(most(Fragment::Mtu(1200), v4, gcm), Some(1144));
        assert_eq!(most(Fragment::Mtu(1200), Some(udp("[2001:db8::1]:1194")), gcm), Some(1124));
        assert_eq!(most(Fragment::Mtu(1200), None, gcm), Some(1124), "as if by IPv6");
        // Header 4, HMAC 20, IV 16, and 72 blocks of 16; a byte of padding, packet id 4, header of the part 4.
        assert_eq!(
            most(Fragment::Payload(1200), v4, agreement(Cipher::Aes128Cbc, Compression::None)),
            Some(1143)
        );
        assert_eq!(most(Fragment::Payload(68), v4, agreement(Cipher::Aes256Cbc, Compression::None)), Some(7));
        let plain = payloads(v4, 1500, &gcm.shape(), true);
        assert_eq!(plain, Payloads { decompress: true, fragment: None, longest: 1600 });
        assert_eq!(payloads(v4, 9000, &gcm.shape(), false).longest, 9000);
    }

    /// `mssfix` goes by `fragment` unless the file says otherwise, and counts the header of a part.
    #[test]
    fn segments_need_no_parts() {
        let path = udp("192.0.2.1:1194");
        let gcm = agreement(Cipher::Aes256Gcm, Compression::None);
        let cut = |fragment| Agreement { fragment: Some(fragment), ..gcm }.shape();
        assert_eq!(max_mss(MssFix::Default, 1500, path, &cut(Fragment::Payload(1200))), Some(1104));
        assert_eq!(max_mss(MssFix::Default, 1400, path, &cut(Fragment::Mtu(1200))), Some(1104));
        assert_eq!(max_mss(MssFix::Payload(1450), 1500, path, &cut(Fragment::Payload(1200))), Some(1382));
        assert_eq!(max_mss(MssFix::Off, 1500, path, &cut(Fragment::Payload(1200))), None);
    }
}
