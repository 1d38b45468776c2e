//! The `virtio_net_hdr` that stands in front of each packet of a TUN device opened with `IFF_VNET_HDR`.

/// Bytes of the header: `struct virtio_net_hdr` without `num_buffers`.
pub const VNET_HEADER_LEN: usize = 10;

const FLAG_NEEDS_CSUM: u8 = 1;
const FLAG_DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// How a super-packet is to be cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Segmentation {
    /// The super-packet is one packet.
    #[default]
    None,
    /// TCP over IPv4 (TSO).
    TcpV4,
    /// TCP over IPv6 (TSO).
    TcpV6,
    /// UDP (USO): each segment becomes a datagram of its own.
    Udp,
}

/// The work that is left to do to a packet: the decoded `virtio_net_hdr`. Numbers are in the host's byte
/// order, as the kernel has it unless `TUNSETVNETLE` or `TUNSETVNETBE` was set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// The checksum from `csum_start` on is not finished: its field holds the pseudo-header's sum.
    pub needs_checksum: bool,
    /// How to cut.
    pub segmentation: Segmentation,
    /// The first segment carries CWR, the others must not (`VIRTIO_NET_HDR_GSO_ECN`).
    pub ecn: bool,
    /// Length of all headers in front of the payload, as a hint.
    pub header_len: u16,
    /// Payload bytes of each segment but the last.
    pub segment_size: u16,
    /// Where the checksum starts: the offset of the transport header.
    pub checksum_start: u16,
    /// The checksum field, counted from `checksum_start`.
    pub checksum_offset: u16,
}

impl Offload {
    /// Nothing to do: a plain packet with complete checksums.
    pub const NONE: Offload = Offload {
        needs_checksum: false,
        segmentation: Segmentation::None,
        ecn: false,
        header_len: 0,
        segment_size: 0,
        checksum_start: 0,
        checksum_offset: 0,
    };

    /// Decodes the header; `None` if it asks for a kind of segmentation we never offered the kernel.
    pub fn from_vnet_header(header: &[u8; VNET_HEADER_LEN]) -> Option<Offload> {
        let [flags, gso, h0, h1, s0, s1, c0, c1, o0, o1] = *header;
        let segmentation = match gso & !GSO_ECN {
            GSO_NONE => Segmentation::None,
            GSO_TCPV4 => Segmentation::TcpV4,
            GSO_TCPV6 => Segmentation::TcpV6,
            GSO_UDP_L4 => Segmentation::Udp,
            _ => return None,
        };
        if flags & !(FLAG_NEEDS_CSUM | FLAG_DATA_VALID) != 0 {
            return None;
        }
        Some(Offload {
            needs_checksum: flags & FLAG_NEEDS_CSUM != 0,
            segmentation,
            ecn: gso & GSO_ECN != 0,
            header_len: u16::from_ne_bytes([h0, h1]),
            segment_size: u16::from_ne_bytes([s0, s1]),
            checksum_start: u16::from_ne_bytes([c0, c1]),
            checksum_offset: u16::from_ne_bytes([o0, o1]),
        })
    }

    /// Encodes the header.
    pub fn to_vnet_header(self) -> [u8; VNET_HEADER_LEN] {
        let gso = match self.segmentation {
            Segmentation::None => GSO_NONE,
            Segmentation::TcpV4 => GSO_TCPV4,
            Segmentation::TcpV6 => GSO_TCPV6,
            Segmentation::Udp => GSO_UDP_L4,
        };
        let [h0, h1] = self.header_len.to_ne_bytes();
        let [s0, s1] = self.segment_size.to_ne_bytes();
        let [c0, c1] = self.checksum_start.to_ne_bytes();
        let [o0, o1] = self.checksum_offset.to_ne_bytes();
        let flags = if self.needs_checksum { FLAG_NEEDS_CSUM } else { 0 };
        [flags, gso | if self.ecn { GSO_ECN } else { 0 }, h0, h1, s0, s1, c0, c1, o0, o1]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn none_is_all_zero() {
        assert_eq!(Offload::NONE.to_vnet_header(), [0; VNET_HEADER_LEN]);
        assert_eq!(Offload::from_vnet_header(&[0; VNET_HEADER_LEN]), Some(Offload::NONE));
    }

    #[test]
    fn unknown_kinds_are_refused() {
        assert_eq!(Offload::from_vnet_header(&[0, 3, 0, 0, 0, 0, 0, 0, 0, 0]), None, "UFO");
        assert_eq!(Offload::from_vnet_header(&[8, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None, "unknown flag");
    }

    proptest! {
        #[test]
        fn round_trip(header: [u8; VNET_HEADER_LEN]) {
            if let Some(offload) = Offload::from_vnet_header(&header) {
                prop_assert_eq!(Offload::from_vnet_header(&offload.to_vnet_header()), Some(offload));
            }
        }
    }
}
