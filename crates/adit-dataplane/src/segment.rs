//! Cuts super-packets (TSO, USO) into packets and finishes checksums, writing straight into the place that
//! is then sealed.

use crate::checksum::Sum;
use crate::counters::Drop;
use crate::headers::{IPV4_HEADER, IPV6_HEADER, Ip, TCP, TCP_HEADER, UDP, UDP_HEADER};
use crate::offload::{Offload, Segmentation};

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;

/// How to cut one super-packet. All offsets were checked against the packet.
pub(crate) struct Segments<'p> {
    packet: &'p [u8],
    v6: bool,
    protocol: u8,
    /// Where the transport header starts.
    transport: usize,
    /// Bytes of all headers.
    headers: usize,
    /// Payload bytes of each segment but the last.
    size: usize,
    /// Of the pseudo-header, without the length.
    pseudo: Sum,
    sequence: u32,
    identification: u16,
}

impl<'p> Segments<'p> {
    /// Checks the packet against what the kernel said of it.
    pub(crate) fn new(offload: &Offload, packet: &'p [u8], ip: &Ip) -> Result<Self, Drop> {
        Self::plan(offload, packet, ip).ok_or(Drop::Malformed)
    }

    fn plan(offload: &Offload, packet: &'p [u8], ip: &Ip) -> Option<Self> {
        let v6 = ip.is_v6();
        let protocol = match (offload.segmentation, v6) {
            (Segmentation::TcpV4, false) | (Segmentation::TcpV6, true) => TCP,
            (Segmentation::Udp, _) => UDP,
            _ => return None,
        };
        let packet = packet.get(..ip.len)?;
        let (found, transport) = ip.transport(packet)?;
        let header = packet.get(transport..)?;
        let (transport_len, sequence) = match protocol {
            TCP => {
                let fixed: &[u8; TCP_HEADER] = header.first_chunk()?;
                let len = usize::from(fixed[12] >> 4) * 4;
                (len, u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]))
            }
            _ => (UDP_HEADER, 0),
        };
        let minimum = if protocol == TCP { TCP_HEADER } else { UDP_HEADER };
        let headers = transport + transport_len;
        let size = usize::from(offload.segment_size);
        if found != protocol || transport_len < minimum || headers > packet.len() || size == 0 {
            return None;
        }
        Some(Segments {
            packet,
            v6,
            protocol,
            transport,
            headers,
            size,
            pseudo: pseudo_header(packet, v6)?.word(u16::from(protocol)),
            sequence,
            identification: u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]),
        })
    }

    fn payload_len(&self) -> usize {
        self.packet.len() - self.headers
    }

    /// How many packets come out; at least one.
    pub(crate) fn count(&self) -> usize {
        self.payload_len().div_ceil(self.size).max(1)
    }

    /// Length of packet number `index`.
    #[inline]
    pub(crate) fn len(&self, index: usize) -> usize {
        let start = index.saturating_mul(self.size);
        self.headers + self.payload_len().saturating_sub(start).min(self.size)
    }

    /// Writes packet number `index` into `out`, which is [`Segments::len`] bytes long. `None` if not.
    #[inline]
    pub(crate) fn write(&self, index: usize, out: &mut [u8]) -> Option<()> {
        let start = index * self.size;
        let len = self.len(index);
        let (head, body) = out.split_at_mut_checked(self.headers)?;
        head.copy_from_slice(self.packet.get(..self.headers)?);
        let from = self.headers + start;
        body.copy_from_slice(self.packet.get(from..from + len - self.headers)?);
        self.patch_ip(index, len, head)?;
        self.patch_transport(index, out)
    }

    fn patch_ip(&self, index: usize, len: usize, head: &mut [u8]) -> Option<()> {
        if self.v6 {
            let fixed: &mut [u8; IPV6_HEADER] = head.first_chunk_mut()?;
            fixed[4..6].copy_from_slice(&((len - IPV6_HEADER) as u16).to_be_bytes());
            return Some(());
        }
        let identification = self.identification.wrapping_add(index as u16);
        let header = head.get_mut(..self.transport)?;
        let fixed: &mut [u8; IPV4_HEADER] = header.first_chunk_mut()?;
        fixed[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        fixed[4..6].copy_from_slice(&identification.to_be_bytes());
        finish_ipv4(header)
    }

    fn patch_transport(&self, index: usize, out: &mut [u8]) -> Option<()> {
        let last = index + 1 == self.count();
        let transport = out.get_mut(self.transport..)?;
        let len = transport.len() as u16;
        if self.protocol == TCP {
            let header: &mut [u8; TCP_HEADER] = transport.first_chunk_mut()?;
            let sequence = self.sequence.wrapping_add((index * self.size) as u32);
            header[4..8].copy_from_slice(&sequence.to_be_bytes());
            if !last {
                header[13] &= !(FIN | PSH);
            }
            if index > 0 {
                header[13] &= !CWR;
            }
            put_checksum(transport, TCP_CHECKSUM, self.pseudo.word(len), false)
        } else {
            let header: &mut [u8; UDP_HEADER] = transport.first_chunk_mut()?;
            header[4..6].copy_from_slice(&len.to_be_bytes());
            put_checksum(transport, UDP_CHECKSUM, self.pseudo.word(len), true)
        }
    }
}

/// The sum of a packet's addresses.
pub(crate) fn pseudo_header(packet: &[u8], v6: bool) -> Option<Sum> {
    let addresses = if v6 { packet.get(8..40)? } else { packet.get(12..20)? };
    Some(Sum::default().bytes(addresses))
}

/// Writes the checksum of an IPv4 header.
pub(crate) fn finish_ipv4(header: &mut [u8]) -> Option<()> {
    header.get_mut(10..12)?.fill(0);
    let checksum = Sum::default().bytes(header).finish();
    header.get_mut(10..12)?.copy_from_slice(&checksum);
    Some(())
}

fn put_checksum(transport: &mut [u8], at: usize, pseudo: Sum, udp: bool) -> Option<()> {
    transport.get_mut(at..at + 2)?.fill(0);
    let mut checksum = pseudo.bytes(transport).finish();
    if udp && checksum == [0, 0] {
        // Zero would mean that there is none (RFC 768).
        checksum = [0xff, 0xff];
    }
    transport.get_mut(at..at + 2)?.copy_from_slice(&checksum);
    Some(())
}

/// Finishes the checksum that the kernel left to us: its field holds the pseudo-header's sum.
pub(crate) fn finish_checksum(offload: &Offload, packet: &mut [u8]) -> Result<(), Drop> {
    if !offload.needs_checksum {
        return Ok(());
    }
    let at = usize::from(offload.checksum_offset);
    let covered = packet.get_mut(usize::from(offload.checksum_start)..).ok_or(Drop::Malformed)?;
    let mut checksum = Sum::default().bytes(covered).finish();
    if at == UDP_CHECKSUM && checksum == [0, 0] {
        checksum = [0xff, 0xff];
    }
    covered.get_mut(at..at + 2).ok_or(Drop::Malformed)?.copy_from_slice(&checksum);
    Ok(())
}
