//! Answers to packets that cannot be carried: ICMP and ICMPv6 destination unreachable (RFC 792; RFC 4443, section 3.1),
//! so that applications fail at once instead of waiting.

use std::time::Duration;

use adit_core::Instant;

use crate::checksum::Sum;
use crate::headers::{Address, IPV4_HEADER, IPV6_HEADER, Ip};

/// Answers in a row, when there were none for a while (as Linux: `net.ipv4.icmp_msgs_burst`).
const BURST: u32 = 50;
/// Time in which one more answer becomes allowed.
const INTERVAL: Duration = Duration::from_millis(10);

/// The longest ICMP message with its IP header (RFC 1812, section 4.3.2.3).
const LONGEST_V4: usize = 576;
/// The longest ICMPv6 message with its IP header: the least MTU (RFC 4443, section 2.4 (c)).
const LONGEST_V6: usize = 1280;
/// Type, code, checksum, and four bytes without use.
const ICMP_HEADER: usize = 8;
/// The host cannot be reached.
const UNREACHABLE_V4: [u8; 2] = [3, 1];
/// The address cannot be reached.
const UNREACHABLE_V6: [u8; 2] = [1, 3];
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const HOP_LIMIT: u8 = 64;
/// Internetwork control, as Linux marks its answers.
const TYPE_OF_SERVICE: u8 = 0xc0;

/// Writes answers, and not too many.
#[derive(Debug)]
pub(crate) struct Unreachable {
    left: u32,
    /// When the last answer that is allowed again became so.
    refilled: Instant,
    answers: Vec<Vec<u8>>,
}

impl Default for Unreachable {
    fn default() -> Self {
        Unreachable { left: BURST, refilled: Instant::ORIGIN, answers: Vec::new() }
    }
}

impl Unreachable {
    /// Answers the sender of a packet that could not be carried, if it may be answered and the limit on
    /// answers permits it.
    pub(crate) fn answer(&mut self, packet: &[u8], now: Instant) {
        let answer = Ip::parse(packet).filter(|ip| may_answer(ip, packet)).and_then(|ip| write(&ip, packet));
        if let Some(answer) = answer
            && self.take(now)
        {
            self.answers.push(answer);
        }
    }

    /// The answers since the last call: whole packets, for the device that the packets came from.
    pub(crate) fn take_answers(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.answers)
    }

    fn take(&mut self, now: Instant) -> bool {
        let passed = (now - self.refilled).as_nanos() / INTERVAL.as_nanos();
        let more = u32::try_from(passed).unwrap_or(u32::MAX);
        if more >= BURST - self.left.min(BURST) {
            (self.left, self.refilled) = (BURST, now);
        } else {
            self.left += more;
            self.refilled += INTERVAL * more;
        }
        let allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allowed
    }
}

/// Whether a packet may be answered with an error (RFC 1122, section 3.2.2; RFC 4443, section 2.4 (e)).
fn may_answer(ip: &Ip, packet: &[u8]) -> bool {
    is_one_host(ip.source)
        && !ip.destination.is_multicast()
        && !is_later_fragment(ip, packet)
        && !is_icmp_error(ip, packet)
}

/// Whether an address is that of a single host.
fn is_one_host(address: Address) -> bool {
    let is_unspecified = matches!(address, Address::V4(0) | Address::V6(0));
    // 240.0.0.0/4 is reserved, and its last address is the broadcast.
    let is_reserved = matches!(address, Address::V4(address) if address >> 28 == 0xf);
    !(is_unspecified || is_reserved || address.is_multicast())
}

/// A fragment other than the first.
fn is_later_fragment(ip: &Ip, packet: &[u8]) -> bool {
    match ip.is_v6() {
        false => packet.get(6..8).is_none_or(|word| word[0] & 0x1f != 0 || word[1] != 0),
        true => ip.fragment_v6(packet).is_some_and(|offset| offset != 0),
    }
}

/// Whether it is an ICMP error, or too short to tell.
fn is_icmp_error(ip: &Ip, packet: &[u8]) -> bool {
    let (protocol, start) = match ip.is_v6() {
        // The first fragment begins with its header.
        false => (ip.protocol, ip.header_len),
        true => match ip.upper_v6(packet) {
            Some(upper) => upper,
            None => return true,
        },
    };
    let kind = packet.get(..ip.len).and_then(|packet| packet.get(start));
    match (ip.is_v6(), protocol) {
        // Destination unreachable, source quench, redirect, time exceeded, parameter problem.
        (false, ICMP) => kind.is_none_or(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12)),
        (true, ICMPV6) => kind.is_none_or(|kind| *kind < 128),
        _ => false,
    }
}

/// The answer. It comes from the address that cannot be reached: the kernel drops packets that come by a device from
/// one of its own addresses, which a router's answer would come from (Linux's net/ipv4/fib_frontend.c,
/// `__fib_validate_source`).
fn write(ip: &Ip, packet: &[u8]) -> Option<Vec<u8>> {
    let quoted = packet.get(..ip.len)?;
    match (ip.source, ip.destination) {
        (Address::V4(source), Address::V4(destination)) => {
            let quoted = quoted.get(..LONGEST_V4 - IPV4_HEADER - ICMP_HEADER).unwrap_or(quoted);
            let length = u16::try_from(IPV4_HEADER + ICMP_HEADER + quoted.len()).ok()?;
            let mut header = [0; IPV4_HEADER];
            header[..2].copy_from_slice(&[0x45, TYPE_OF_SERVICE]);
            header[2..4].copy_from_slice(&length.to_be_bytes());
            header[8..10].copy_from_slice(&[HOP_LIMIT, ICMP]);
            header[12..16].copy_from_slice(&destination.to_be_bytes());
            header[16..].copy_from_slice(&source.to_be_bytes());
            let checksum = Sum::default().bytes(&header).finish();
            header[10..12].copy_from_slice(&checksum);
            Some([&header, &message(UNREACHABLE_V4, Sum::default(), quoted)[..]].concat())
        }
        (Address::V6(source), Address::V6(destination)) => {
            let quoted = quoted.get(..LONGEST_V6 - IPV6_HEADER - ICMP_HEADER).unwrap_or(quoted);
            let length = u16::try_from(ICMP_HEADER + quoted.len()).ok()?;
            let mut header = [0; IPV6_HEADER];
            header[0] = 0x60;
            header[4..6].copy_from_slice(&length.to_be_bytes());
            header[6..8].copy_from_slice(&[ICMPV6, HOP_LIMIT]);
            header[8..24].copy_from_slice(&destination.to_be_bytes());
            header[24..].copy_from_slice(&source.to_be_bytes());
            // The pseudo-header (RFC 8200, section 8.1).
            let pseudo = Sum::default().bytes(&header[8..]).word(length).word(ICMPV6.into());
            Some([&header, &message(UNREACHABLE_V6, pseudo, quoted)[..]].concat())
        }
        _ => None,
    }
}

/// The ICMP message with its checksum, which begins with `sum`.
fn message(kind: [u8; 2], sum: Sum, quoted: &[u8]) -> Vec<u8> {
    let mut message = [&kind[..], &[0; ICMP_HEADER - 2], quoted].concat();
    let checksum = sum.bytes(&message).finish();
    message[2..4].copy_from_slice(&checksum);
    message
}

#[cfg(test)]
mod tests;
