//! Cuts super-packets (TSO, USO) into packets and finishes checksums, where they lie: the cipher then reads
//! each packet there and writes it where it is sent from, so nothing is copied.

use adit_checksum::WordSum;

use crate::checksum::Sum;
use crate::counters::DropReason;
use crate::headers::{IPV4_HEADER, IPV6_HEADER, Ip, TCP, TCP_HEADER, UDP, UDP_HEADER};
use crate::offload::{Offload, Segmentation};

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;

/// How to cut one super-packet. All offsets were checked against the packet.
pub(crate) struct Segments {
    v6: bool,
    protocol: u8,
    /// Where the transport header starts.
    transport: usize,
    /// Where the payload starts.
    headers: usize,
    /// Bytes of payload in each packet but the last.
    size: usize,
    /// Bytes of payload in all.
    payload: usize,
    /// How many packets it makes.
    count: usize,
    /// The sum of an IPv4 header without length, identification and checksum.
    fixed: Sum,
    /// Addresses and protocol.
    pseudo: Sum,
    sequence: u32,
    identification: u16,
    words: WordSum,
}

impl Segments {
    /// Plans the cut of a super-packet, whose header was read already, and keeps its headers in `template`,
    /// which is replaced.
    pub(crate) fn new(
        words: WordSum,
        offload: &Offload,
        packet: &[u8],
        ip: &Ip,
        template: &mut Vec<u8>,
    ) -> Result<Self, DropReason> {
        let segments = Self::plan(words, offload, packet, ip).ok_or(DropReason::Malformed)?;
        template.clear();
        template.extend_from_slice(packet.get(..segments.headers).ok_or(DropReason::Malformed)?);
        Ok(segments)
    }

    fn plan(words: WordSum, offload: &Offload, packet: &[u8], ip: &Ip) -> Option<Self> {
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
        let payload = packet.len() - headers;
        Some(Segments {
            v6,
            protocol,
            transport,
            headers,
            size,
            payload,
            count: payload.div_ceil(size).max(1),
            fixed: if v6 { Sum::default() } else { fixed_sum(packet.get(..transport)?)? },
            pseudo: pseudo_header(packet, v6)?.word(u16::from(protocol)),
            sequence,
            identification: u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]),
            words,
        })
    }

    /// How many packets it makes.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// How many packets, from the first, have all of a segment's payload, and their length.
    #[inline]
    pub(crate) fn whole(&self) -> (usize, usize) {
        (self.payload / self.size, self.headers + self.size)
    }

    /// Packet number `index`, made in the super-packet itself: its headers are put right in front of its
    /// payload, over the end of the payload before, so packets must be taken in order, each once. `template`
    /// are the headers that [`Segments::new`] kept.
    #[inline]
    pub(crate) fn take<'p>(
        &self,
        index: usize,
        template: &[u8],
        super_packet: &'p mut [u8],
    ) -> Option<&'p mut [u8]> {
        let start = index * self.size;
        let len = self.headers + self.payload.saturating_sub(start).min(self.size);
        let packet = super_packet.get_mut(start..start + len)?;
        let head = packet.get_mut(..self.headers)?;
        if index > 0 {
            copy_headers(template, head);
        }
        self.patch_ip(index, len, head)?;
        self.patch_transport(index, packet)?;
        Some(packet)
    }

    #[inline]
    fn patch_ip(&self, index: usize, len: usize, head: &mut [u8]) -> Option<()> {
        if self.v6 {
            let fixed: &mut [u8; IPV6_HEADER] = head.first_chunk_mut()?;
            fixed[4..6].copy_from_slice(&((len - IPV6_HEADER) as u16).to_be_bytes());
            return Some(());
        }
        let identification = self.identification.wrapping_add(index as u16);
        let header: &mut [u8; IPV4_HEADER] = head.first_chunk_mut()?;
        let checksum = self.fixed.word(len as u16).word(identification).finish();
        header[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        header[4..6].copy_from_slice(&identification.to_be_bytes());
        header[10..12].copy_from_slice(&checksum);
        Some(())
    }

    #[inline]
    fn patch_transport(&self, index: usize, out: &mut [u8]) -> Option<()> {
        let last = index + 1 == self.count;
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
            put_checksum(self.words, transport, TCP_CHECKSUM, self.pseudo.word(len), false)
        } else {
            let header: &mut [u8; UDP_HEADER] = transport.first_chunk_mut()?;
            header[4..6].copy_from_slice(&len.to_be_bytes());
            put_checksum(self.words, transport, UDP_CHECKSUM, self.pseudo.word(len), true)
        }
    }
}

/// Copies headers over as many bytes. Of the usual lengths, of TCP without options and with timestamps, the compiler makes
/// moves; of any other length it is a call.
#[inline]
fn copy_headers(headers: &[u8], to: &mut [u8]) {
    const PLAIN: usize = IPV4_HEADER + TCP_HEADER;
    const TIMESTAMPS: usize = PLAIN + 12;
    if let (Ok(headers), Ok(to)) =
        (<&[u8; TIMESTAMPS]>::try_from(headers), <&mut [u8; TIMESTAMPS]>::try_from(&mut *to))
    {
        *to = *headers;
    } else if let (Ok(headers), Ok(to)) =
        (<&[u8; PLAIN]>::try_from(headers), <&mut [u8; PLAIN]>::try_from(&mut *to))
    {
        *to = *headers;
    } else {
        to.copy_from_slice(headers);
    }
}

/// The sum of an IPv4 header without length, identification and checksum.
fn fixed_sum(header: &[u8]) -> Option<Sum> {
    let sum = Sum::default().bytes(header.get(..2)?).bytes(header.get(6..10)?);
    Some(sum.bytes(header.get(12..)?))
}

/// The sum of a packet's addresses.
pub(crate) fn pseudo_header(packet: &[u8], v6: bool) -> Option<Sum> {
    let addresses = if v6 { packet.get(8..40)? } else { packet.get(12..20)? };
    Some(Sum::default().bytes(addresses))
}

/// Writes the checksum of an IPv4 header.
#[inline]
pub(crate) fn finish_ipv4(header: &mut [u8]) -> Option<()> {
    header.get_mut(10..12)?.fill(0);
    let checksum = Sum::default().bytes(header).finish();
    header.get_mut(10..12)?.copy_from_slice(&checksum);
    Some(())
}

#[inline]
fn put_checksum(words: WordSum, transport: &mut [u8], at: usize, pseudo: Sum, udp: bool) -> Option<()> {
    transport.get_mut(at..at + 2)?.fill(0);
    let mut checksum = pseudo.payload(words, transport).finish();
    if udp && checksum == [0, 0] {
        // Zero would mean that there is none (RFC 768).
        checksum = [0xff, 0xff];
    }
    transport.get_mut(at..at + 2)?.copy_from_slice(&checksum);
    Some(())
}

/// Finishes the checksum that the kernel left to us: its field holds the pseudo-header's sum.
#[inline]
pub(crate) fn finish_checksum(
    words: WordSum,
    offload: &Offload,
    packet: &mut [u8],
) -> Result<(), DropReason> {
    match offload.needs_checksum {
        true => finish_partial_checksum(words, offload, packet),
        false => Ok(()),
    }
}

fn finish_partial_checksum(words: WordSum, offload: &Offload, packet: &mut [u8]) -> Result<(), DropReason> {
    let at = usize::from(offload.checksum_offset);
    let covered = packet.get_mut(usize::from(offload.checksum_start)..).ok_or(DropReason::Malformed)?;
    let mut checksum = Sum::default().payload(words, covered).finish();
    if at == UDP_CHECKSUM && checksum == [0, 0] {
        checksum = [0xff, 0xff];
    }
    covered.get_mut(at..at + 2).ok_or(DropReason::Malformed)?.copy_from_slice(&checksum);
    Ok(())
}
