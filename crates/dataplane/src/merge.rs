//! Merges packets of one flow into super-packets, so that the kernel's stack is passed once for many.
//!
//! A packet joins the flow's newest item only, and only if cutting the merged packet gives both back: same
//! headers but for length, identification, sequence and checksum; contiguous; checksums verified, for the
//! kernel will not verify them again.
//!
//! One thing is not given back: PSH stands at the last packet alone where several had it. TCP's PSH marks no
//! record, and a sender itself collapses several (RFC 9293 §3.9.1.2). Linux sets it at the end of every super-packet
//! (`__tcp_transmit_skb`), which is seldom where a batch of datagrams ends, so that each batch would become two packets.

use adit_checksum::WordSum;

use crate::checksum::Sum;
use crate::headers::{Address, IPV4_DF, IPV4_HEADER, IPV6_HEADER, Ip, TCP, TCP_HEADER, UDP, UDP_HEADER};
use crate::offload::{Offload, Segmentation};
use crate::receive::{Item, MergePolicy, Placed};
use crate::segment::{finish_ipv4, pseudo_header};

const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
/// Flows that are merged at once; the one that began first gives way.
const FLOWS_MAX: usize = 8;
/// Packets in a merged one at most (as many as USO takes).
const RUN_MAX: usize = 64;
/// Bytes of a merged packet at most.
const BYTES_MAX: usize = 65_535;

/// The fields by which flows are told apart.
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

/// An item that may still grow, and the state that is needed to grow it.
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
    /// The sum of addresses and protocol, once the first packet's checksums were found right.
    pseudo: Option<Sum>,
    /// A packet carried PSH.
    push: bool,
    /// Nothing may follow: a shorter packet came, or the checksums are wrong.
    closed: bool,
}

impl Flows {
    pub(crate) fn clear(&mut self) {
        self.flows.clear();
    }

    /// Forgets all flows but that of one item. Whether that item may wait for the next receive.
    pub(crate) fn keep_only(&mut self, item: usize, items: &[Item]) -> bool {
        let run = items.get(item).and_then(|item| item.run.as_ref());
        let open = run.is_some_and(Run::may_wait);
        self.flows.retain(|flow| open && flow.item == item);
        !self.flows.is_empty()
    }

    /// Gives the flows that are left to the first item.
    pub(crate) fn move_to_front(&mut self) {
        for flow in &mut self.flows {
            flow.item = 0;
        }
    }

    /// Where a packet goes. `packet` ends where its IP header says.
    #[inline]
    pub(crate) fn place(
        &mut self,
        words: WordSum,
        policy: MergePolicy,
        buffer: &[u8],
        items: &mut [Item],
        packet: &[u8],
        ip: &Ip,
    ) -> Placed {
        for flow in self.flows.iter().rev() {
            if let Some(Item { packet: first, run: Some(run), .. }) = items.get_mut(flow.item)
                && let Some(first) = buffer.get(first.clone())
                && run.take(words, first, packet)
            {
                return Placed::Onto { item: flow.item, payload: run.headers };
            }
        }
        self.start(policy, items.len(), packet, ip)
    }

    /// The packet becomes item number `item`.
    fn start(&mut self, policy: MergePolicy, item: usize, packet: &[u8], ip: &Ip) -> Placed {
        let Some(key) = Key::of(packet, ip) else {
            // A fragment, or a packet of an unknown protocol, may belong to any flow: it must not be overtaken.
            self.flows.clear();
            return Placed::New(None);
        };
        // The earlier items of this flow may not grow any more.
        self.flows.retain(|flow| flow.key != key);
        let run = Run::start(policy, packet, ip);
        if run.is_some() {
            if self.flows.len() == FLOWS_MAX {
                self.flows.remove(0);
            }
            self.flows.push(Flow { key, item });
        }
        Placed::New(run)
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
            TCP if policy.tcp() => {
                let header: &[u8; TCP_HEADER] = transport.first_chunk()?;
                let len = usize::from(header[12] >> 4) * 4;
                if header[13] & !PSH != ACK || header[12] & 0x0f != 0 || len < TCP_HEADER {
                    return None;
                }
                let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                (len, sequence, header[13] & PSH != 0)
            }
            UDP if policy.udp() => {
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
            pseudo: None,
            push,
            closed: false,
        })
    }

    /// Whether it may wait for the packets of the next receive: another packet of full size would find room, and the
    /// sender did not ask for delivery at once by PSH.
    fn may_wait(&self) -> bool {
        !self.closed && !self.push && self.count < RUN_MAX && self.len + self.size <= BYTES_MAX
    }

    /// Takes the packet in if it continues the run whose first packet is `first`.
    #[inline]
    fn take(&mut self, words: WordSum, first: &[u8], packet: &[u8]) -> bool {
        let size = packet.len().saturating_sub(self.headers);
        let fits = !self.closed
            && size > 0
            && size <= self.size
            && self.count < RUN_MAX
            && self.len + size <= BYTES_MAX;
        if !fits || !self.continued_by(first, packet) {
            return false;
        }
        let pseudo = match self.pseudo {
            Some(pseudo) => pseudo,
            None => match self.verify_first(words, first) {
                Some(pseudo) => pseudo,
                None => return false,
            },
        };
        if !self.checksums_ok(words, pseudo, packet) {
            return false;
        }
        self.closed = size < self.size;
        self.push |=
            self.protocol == TCP && packet.get(self.ip_len() + 13).is_some_and(|flags| flags & PSH != 0);
        self.len += size;
        self.count += 1;
        self.sequence = self.sequence.wrapping_add(size as u32);
        true
    }

    /// Whether the packet is next, and its headers differ from the first one's only in the fields that
    /// cutting writes anew. That makes it a packet of the same flow, of the same kind, no fragment and
    /// without surprises.
    #[inline]
    fn continued_by(&self, first: &[u8], packet: &[u8]) -> bool {
        let (Some(a), Some(b)) = (first.get(..self.headers), packet.get(..self.headers)) else {
            return false;
        };
        match self.v6 {
            true => self.v6_continues(a, b, packet.len()),
            false => self.v4_continues(a, b, packet.len()),
        }
    }

    /// Everything of the IP headers is equal but length, identification and checksum.
    #[inline]
    fn v4_continues(&self, a: &[u8], b: &[u8], len: usize) -> bool {
        let (Some((ip_a, a)), Some((ip_b, b))) =
            (a.split_first_chunk::<IPV4_HEADER>(), b.split_first_chunk::<IPV4_HEADER>())
        else {
            return false;
        };
        self.transport_continues(a, b, len - IPV4_HEADER)
            && ip_a[0..2] == ip_b[0..2]
            && ip_a[6..10] == ip_b[6..10]
            && ip_a[12..20] == ip_b[12..20]
            && self.identification_continues(ip_b)
    }

    /// Everything of the IP headers is equal but the length.
    #[inline]
    fn v6_continues(&self, a: &[u8], b: &[u8], len: usize) -> bool {
        let (Some((ip_a, a)), Some((ip_b, b))) =
            (a.split_first_chunk::<IPV6_HEADER>(), b.split_first_chunk::<IPV6_HEADER>())
        else {
            return false;
        };
        self.transport_continues(a, b, len - IPV6_HEADER)
            && ip_a[0..4] == ip_b[0..4]
            && ip_a[6..40] == ip_b[6..40]
    }

    /// `len`: bytes of the transport header and its payload.
    #[inline]
    fn transport_continues(&self, a: &[u8], b: &[u8], len: usize) -> bool {
        match self.protocol {
            TCP => self.tcp_continues(a, b),
            _ => udp_continues(a, b, len),
        }
    }

    /// The sequence is next; all else is equal but the checksum; the flags are ACK or ACK and PSH.
    #[inline]
    fn tcp_continues(&self, a: &[u8], b: &[u8]) -> bool {
        let (Some((a, options_a)), Some((b, options_b))) =
            (a.split_first_chunk::<TCP_HEADER>(), b.split_first_chunk::<TCP_HEADER>())
        else {
            return false;
        };
        b[4..8] == self.sequence.to_be_bytes()
            && a[0..4] == b[0..4]
            && a[8..13] == b[8..13]
            && b[13] & !PSH == ACK
            && a[14..16] == b[14..16]
            && a[18..20] == b[18..20]
            && options_equal(options_a, options_b)
    }

    /// Cutting counts the identification up from the first packet's. It means nothing under
    /// don't-fragment (RFC 6864 §4.1).
    #[inline]
    fn identification_continues(&self, ip: &[u8; IPV4_HEADER]) -> bool {
        let dont_fragment = u16::from(ip[6]) << 8 & IPV4_DF != 0;
        let next = self.identification.wrapping_add(self.count as u16);
        dont_fragment || ip[4..6] == next.to_be_bytes()
    }

    /// Verifies the first packet once another would follow it. The pseudo-header's sum (without a length)
    /// is the same for all.
    fn verify_first(&mut self, words: WordSum, first: &[u8]) -> Option<Sum> {
        let pseudo = pseudo_header(first, self.v6)?.word(u16::from(self.protocol));
        if self.checksums_ok(words, pseudo, first) {
            self.pseudo = Some(pseudo);
        } else {
            self.closed = true;
        }
        self.pseudo
    }

    fn ip_len(&self) -> usize {
        if self.v6 { IPV6_HEADER } else { IPV4_HEADER }
    }

    #[inline]
    fn checksums_ok(&self, words: WordSum, pseudo: Sum, packet: &[u8]) -> bool {
        let transport = match self.v6 {
            true => packet.get(IPV6_HEADER..),
            false => packet
                .split_first_chunk::<IPV4_HEADER>()
                .filter(|(ip, _)| Sum::default().bytes(*ip).is_valid())
                .map(|(_, transport)| transport),
        };
        transport
            .is_some_and(|transport| pseudo.word(transport.len() as u16).payload(words, transport).is_valid())
    }

    /// Writes the merged packet's headers over the first packet's, and says how to cut it. `None` if there
    /// is nothing to cut.
    pub(crate) fn finish(&self, packet: &mut [u8]) -> Option<Offload> {
        if self.count < 2 {
            return None;
        }
        let ip_len = self.ip_len();
        let transport_bytes = (self.len - ip_len) as u16;
        let pseudo = self.pseudo?.word(transport_bytes);
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

/// Ports are equal, and the datagram is the whole payload and has a checksum.
#[inline]
fn udp_continues(a: &[u8], b: &[u8], len: usize) -> bool {
    let (Some(a), Some(b)) = (a.first_chunk::<UDP_HEADER>(), b.first_chunk::<UDP_HEADER>()) else {
        return false;
    };
    a[0..4] == b[0..4] && b[4..6] == (len as u16).to_be_bytes() && b[6..8] != [0, 0]
}

/// Whether options of TCP are equal. Those that most packets have, timestamps alone, are compared without a call.
#[inline]
fn options_equal(a: &[u8], b: &[u8]) -> bool {
    match (<&[u8; 12]>::try_from(a), <&[u8; 12]>::try_from(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a.is_empty() && b.is_empty() || a == b,
    }
}
