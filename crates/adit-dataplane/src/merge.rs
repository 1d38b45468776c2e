//! Merges packets of one flow into super-packets, so that the kernel's stack is passed once for many.
//!
//! A packet joins the flow's newest item only, and only if cutting the merged packet gives both back: same
//! headers but for length, identification, sequence and checksum; contiguous; checksums verified, for the
//! kernel will not verify them again.

use crate::checksum::Sum;
use crate::headers::{Address, IPV4_DF, IPV4_HEADER, IPV6_HEADER, Ip, TCP, TCP_HEADER, UDP, UDP_HEADER};
use crate::inbox::{Item, MergePolicy, Placed};
use crate::offload::{Offload, Segmentation};
use crate::segment::{finish_ipv4, pseudo_header};

const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
/// Flows that are merged at once; the one that began first gives way.
const FLOWS_MAX: usize = 8;
/// Packets in a merged one at most (what USO takes).
const RUN_MAX: usize = 64;
/// Bytes of a merged packet at most.
const BYTES_MAX: usize = 65_535;

/// What tells flows apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    source: Address,
    destination: Address,
    ports: [u8; 4],
    protocol: u8,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    key: Key,
    /// The flow's newest item.
    item: usize,
}

/// The flows with an item that may still grow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows {
    flows: Vec<Flow>,
}

/// An item that may still grow, and what it takes to grow it.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    v6: bool,
    protocol: u8,
    /// Bytes of all headers.
    headers: usize,
    /// Bytes of the merged packet.
    len: usize,
    count: usize,
    /// Payload bytes of each packet but the last.
    size: usize,
    /// The sequence number that continues it (TCP).
    sequence: u32,
    identification: u16,
    /// The first packet's checksums were found right.
    verified: bool,
    /// A packet carried PSH.
    push: bool,
    /// Nothing may follow: a shorter packet or PSH came, or the checksums are wrong.
    closed: bool,
}

impl Flows {
    pub(crate) fn clear(&mut self) {
        self.flows.clear();
    }

    /// Where a packet goes.
    #[inline]
    pub(crate) fn place(
        &mut self,
        policy: MergePolicy,
        buffer: &[u8],
        items: &mut [Item],
        packet: &[u8],
        ip: &Ip,
    ) -> Placed {
        let Some(key) = Key::of(packet, ip) else {
            // A fragment or a stranger may belong to any flow: it must not be overtaken.
            self.flows.clear();
            return Placed::New(None);
        };
        let known = self.flows.iter().rposition(|flow| flow.key == key);
        let Some(run) = Run::start(policy, packet, ip) else {
            if let Some(known) = known {
                self.flows.remove(known);
            }
            return Placed::New(None);
        };
        if let Some(flow) = known.and_then(|known| self.flows.get_mut(known)) {
            if let Some(Item { packet: first, run: Some(older), .. }) = items.get_mut(flow.item)
                && let Some(first) = buffer.get(first.clone())
                && older.take(first, packet, &run)
            {
                return Placed::Onto { item: flow.item, payload: run.headers };
            }
            flow.item = items.len();
            return Placed::New(Some(run));
        }
        if self.flows.len() == FLOWS_MAX {
            self.flows.remove(0);
        }
        self.flows.push(Flow { key, item: items.len() });
        Placed::New(Some(run))
    }
}

impl Key {
    fn of(packet: &[u8], ip: &Ip) -> Option<Key> {
        let (protocol, transport) = ip.transport(packet)?;
        let ports = match protocol {
            TCP | UDP => *packet.get(transport..ip.len)?.first_chunk()?,
            _ => [0; 4],
        };
        Some(Key { source: ip.source, destination: ip.destination, ports, protocol })
    }
}

impl Run {
    /// A run of one packet; `None` if the packet is of a kind that never merges.
    fn start(policy: MergePolicy, packet: &[u8], ip: &Ip) -> Option<Run> {
        let v6 = ip.is_v6();
        let ip_header = if v6 { IPV6_HEADER } else { IPV4_HEADER };
        // IPv4 options, IPv6 extension headers and fragments pass as they are.
        if ip.header_len != ip_header || ip.fragment || ip.len != packet.len() {
            return None;
        }
        let transport = packet.get(ip_header..)?;
        let (transport_len, sequence, push) = match ip.protocol {
            TCP if policy >= MergePolicy::Tcp => {
                let header: &[u8; TCP_HEADER] = transport.first_chunk()?;
                let len = usize::from(header[12] >> 4) * 4;
                if header[13] & !PSH != ACK || header[12] & 0x0f != 0 || len < TCP_HEADER {
                    return None;
                }
                let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                (len, sequence, header[13] & PSH != 0)
            }
            UDP if policy >= MergePolicy::TcpAndUdp => {
                let header: &[u8; UDP_HEADER] = transport.first_chunk()?;
                let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
                if len != transport.len() || header[6..8] == [0, 0] {
                    return None;
                }
                (UDP_HEADER, 0, false)
            }
            _ => return None,
        };
        let headers = ip_header + transport_len;
        let size = packet.len().checked_sub(headers).filter(|size| *size > 0)?;
        Some(Run {
            v6,
            protocol: ip.protocol,
            headers,
            len: packet.len(),
            count: 1,
            size,
            sequence: sequence.wrapping_add(size as u32),
            identification: u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]),
            verified: false,
            push,
            closed: push,
        })
    }

    /// Takes the packet in if it continues the run whose first packet is `first`.
    fn take(&mut self, first: &[u8], packet: &[u8], new: &Run) -> bool {
        let continues = !self.closed
            && new.headers == self.headers
            && new.size <= self.size
            && self.count < RUN_MAX
            && self.len + new.size <= BYTES_MAX
            && (self.protocol == UDP || self.sequence == new.sequence.wrapping_sub(new.size as u32))
            && self.same_headers(first, packet, new);
        if !continues {
            return false;
        }
        if !self.verified {
            if !self.checksums_ok(first) {
                self.closed = true;
                return false;
            }
            self.verified = true;
        }
        if !new.checksums_ok(packet) {
            return false;
        }
        self.closed = new.size < self.size || new.push;
        self.push = new.push;
        self.len += new.size;
        self.count += 1;
        self.sequence = new.sequence;
        true
    }

    /// Whether the headers differ only in what cutting writes anew.
    fn same_headers(&self, first: &[u8], packet: &[u8], new: &Run) -> bool {
        let (Some(a), Some(b)) = (first.get(..self.headers), packet.get(..self.headers)) else {
            return false;
        };
        let same = |range: std::ops::Range<usize>| a.get(range.clone()) == b.get(range);
        // Everything but lengths, identification and checksums.
        let ip = if self.v6 {
            same(0..4) && same(6..40)
        } else {
            same(0..2) && same(6..10) && same(12..20) && self.identification_continues(b, new)
        };
        let at = self.headers - self.transport_len();
        let transport = match self.protocol {
            // Ports; acknowledgement and offset; window; urgent pointer and options. The flags are ACK or
            // ACK and PSH.
            TCP => {
                same(at..at + 4)
                    && same(at + 8..at + 13)
                    && same(at + 14..at + 16)
                    && same(at + 18..self.headers)
            }
            _ => same(at..at + 4),
        };
        ip && transport
    }

    /// Cutting counts the identification up from the first packet's. It means nothing under
    /// don't-fragment (RFC 6864 §4.1).
    fn identification_continues(&self, packet: &[u8], new: &Run) -> bool {
        let dont_fragment = packet.get(6).is_some_and(|flags| u16::from(*flags) << 8 & IPV4_DF != 0);
        dont_fragment || new.identification == self.identification.wrapping_add(self.count as u16)
    }

    fn ip_len(&self) -> usize {
        if self.v6 { IPV6_HEADER } else { IPV4_HEADER }
    }

    fn transport_len(&self) -> usize {
        self.headers - self.ip_len()
    }

    fn checksums_ok(&self, packet: &[u8]) -> bool {
        let Some((ip, transport)) = packet.split_at_checked(self.ip_len()) else { return false };
        let Some(pseudo) = pseudo_header(packet, self.v6) else { return false };
        let pseudo = pseudo.word(u16::from(self.protocol)).word(transport.len() as u16);
        pseudo.bytes(transport).is_valid() && (self.v6 || Sum::default().bytes(ip).is_valid())
    }

    /// Writes the merged packet's headers over the first packet's, and says how to cut it. `None` if there
    /// is nothing to cut.
    pub(crate) fn finish(&self, packet: &mut [u8]) -> Option<Offload> {
        if self.count < 2 {
            return None;
        }
        let ip_len = self.ip_len();
        let transport_bytes = (self.len - ip_len) as u16;
        let pseudo = pseudo_header(packet, self.v6)?.word(u16::from(self.protocol)).word(transport_bytes);
        let (ip, transport) = packet.split_at_mut_checked(ip_len)?;
        if self.v6 {
            ip.get_mut(4..6)?.copy_from_slice(&transport_bytes.to_be_bytes());
        } else {
            ip.get_mut(2..4)?.copy_from_slice(&(self.len as u16).to_be_bytes());
            finish_ipv4(ip)?;
        }
        let checksum_offset = if self.protocol == TCP {
            if self.push {
                *transport.get_mut(13)? |= PSH;
            }
            16
        } else {
            transport.get_mut(4..6)?.copy_from_slice(&transport_bytes.to_be_bytes());
            6
        };
        transport.get_mut(checksum_offset..checksum_offset + 2)?.copy_from_slice(&pseudo.folded());
        Some(Offload {
            needs_checksum: true,
            segmentation: match (self.protocol, self.v6) {
                (TCP, false) => Segmentation::TcpV4,
                (TCP, true) => Segmentation::TcpV6,
                _ => Segmentation::Udp,
            },
            ecn: false,
            header_len: self.headers as u16,
            segment_size: self.size as u16,
            checksum_start: ip_len as u16,
            checksum_offset: checksum_offset as u16,
        })
    }
}
