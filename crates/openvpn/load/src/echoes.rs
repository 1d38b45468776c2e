//! Numbered echo requests that a client without a device sends through its tunnel, and their counts.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;

use adit_core::{Instant, IpNet};

/// An answer that takes longer does not count.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of the headers of IPv4 (RFC 791) and of an ICMP echo (RFC 792).
const IP_HEADER: usize = 20;
const ICMP_HEADER: usize = 8;
/// Bytes after the headers: the number, and as much again.
const PAYLOAD: usize = 16;
const LENGTH: usize = IP_HEADER + ICMP_HEADER + PAYLOAD;
const ICMP: u8 = 1;
const REPLY: u8 = 0;
const REQUEST: u8 = 8;

/// The results of numbered requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EchoTotals {
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that were answered within [`ANSWER_TIMEOUT`].
    pub answered: u64,
    /// Requests that were not.
    pub lost: u64,
    /// Answers beyond the first to a request, and answers that came too late.
    pub repeated: u64,
}

impl EchoTotals {
    /// Adds another client's.
    pub(crate) fn add(&mut self, other: EchoTotals) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.lost += other.lost;
        self.repeated += other.repeated;
    }
}

/// Requests whose answers are waited for, in the order of their numbers.
#[derive(Debug, Default)]
struct Window {
    /// The number of the first of them.
    first: u64,
    /// When each was sent, and whether it was answered.
    requests: VecDeque<(Instant, bool)>,
    totals: EchoTotals,
}

impl Window {
    fn send(&mut self, now: Instant) -> u64 {
        self.requests.push_back((now, false));
        self.totals.sent += 1;
        self.first + self.requests.len() as u64 - 1
    }

    fn answer(&mut self, number: u64) {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| self.requests.get_mut(index)) {
            Some((_, answered)) if !*answered => {
                *answered = true;
                self.totals.answered += 1;
            }
            _ => self.totals.repeated += 1,
        }
    }

    /// Counts requests that have waited too long as lost.
    fn expire(&mut self, now: Instant) {
        while let Some((sent, answered)) = self.requests.front()
            && now.saturating_since(*sent) > ANSWER_TIMEOUT
        {
            self.totals.lost += u64::from(!*answered);
            self.requests.pop_front();
            self.first += 1;
        }
    }
}

/// The requests of one client. It sends none before it has an address.
#[derive(Debug)]
pub(crate) struct Echoes {
    interval: Duration,
    /// When the next one is due.
    next: Instant,
    /// The client's address, and the server's.
    ends: Option<[Ipv4Addr; 2]>,
    window: Window,
}

impl Echoes {
    /// Echoes at a rate of so many a second, which is not 0.
    pub(crate) fn new(rate: u32, now: Instant) -> Echoes {
        let interval = Duration::from_secs(1) / rate.max(1);
        Echoes { interval, next: now, ends: None, window: Window::default() }
    }

    /// The client is up with these addresses. The server's is the first of the network.
    pub(crate) fn begin(&mut self, addresses: &[IpNet], now: Instant) {
        self.ends = addresses.iter().find_map(|address| match address {
            IpNet::V4(own) => Some([own.addr(), own.hosts().next()?]),
            IpNet::V6(_) => None,
        });
        self.next = now;
    }

    /// The request that is due, if one is: called until there is none. Requests that were missed for longer than a
    /// second are not made up for.
    pub(crate) fn due(&mut self, now: Instant) -> Option<[u8; LENGTH]> {
        self.window.expire(now);
        let [own, server] = self.ends?;
        if now < self.next {
            return None;
        }
        let late = now.saturating_since(self.next);
        self.next = if late > Duration::from_secs(1) { now } else { self.next } + self.interval;
        Some(request(own, server, self.window.send(now)))
    }

    /// A packet came out of the tunnel.
    pub(crate) fn take(&mut self, packet: &[u8]) {
        if let Some(number) = answered(packet) {
            self.window.answer(number);
        }
    }

    pub(crate) fn totals(&self) -> EchoTotals {
        self.window.totals
    }
}

/// The packet of an echo request with that number.
fn request(own: Ipv4Addr, server: Ipv4Addr, number: u64) -> [u8; LENGTH] {
    let mut packet = [0; LENGTH];
    let (ip, icmp) = packet.split_at_mut(IP_HEADER);
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&(LENGTH as u16).to_be_bytes());
    ip[8] = 64;
    ip[9] = ICMP;
    ip[12..16].copy_from_slice(&own.octets());
    ip[16..20].copy_from_slice(&server.octets());
    let sum = checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    icmp[0] = REQUEST;
    icmp[ICMP_HEADER..ICMP_HEADER + 8].copy_from_slice(&number.to_be_bytes());
    let sum = checksum(icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The number of the request that a packet answers.
fn answered(packet: &[u8]) -> Option<u64> {
    let is_reply = packet.len() == LENGTH
        && packet.first() == Some(&0x45)
        && packet.get(9) == Some(&ICMP)
        && packet.get(IP_HEADER) == Some(&REPLY);
    let number = packet.get(IP_HEADER + ICMP_HEADER..)?.first_chunk()?;
    is_reply.then(|| u64::from_be_bytes(*number))
}

/// The Internet checksum (RFC 1071) of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(millis)
    }

    /// The server's answer to a request.
    fn reply(mut packet: [u8; LENGTH]) -> [u8; LENGTH] {
        packet[IP_HEADER] = REPLY;
        packet
    }

    fn client() -> Echoes {
        let mut echoes = Echoes::new(10, at(0));
        assert_eq!(echoes.due(at(500)), None, "it has no address yet");
        echoes.begin(&["10.8.0.7/20".parse().unwrap()], at(1000));
        echoes
    }

    #[test]
    fn a_request_without_an_answer_is_lost_after_a_while() {
        let mut echoes = client();
        let first = echoes.due(at(1000)).unwrap();
        assert_eq!(echoes.due(at(1000)), None);
        let second = echoes.due(at(1100)).unwrap();
        assert_ne!(first, second);
        echoes.take(&reply(second));
        assert_eq!(echoes.totals(), EchoTotals { sent: 2, answered: 1, ..EchoTotals::default() });
        echoes.ends = None;
        assert_eq!(echoes.due(at(1000) + ANSWER_TIMEOUT), None);
        assert_eq!(echoes.totals().lost, 0, "just in time");
        assert_eq!(echoes.due(at(1001) + ANSWER_TIMEOUT), None);
        assert_eq!(echoes.totals().lost, 1);
        assert_eq!(echoes.due(at(5000)), None);
        echoes.take(&reply(first));
        assert_eq!(echoes.totals(), EchoTotals { sent: 2, answered: 1, lost: 1, repeated: 1 });
    }

    #[test]
    fn a_second_answer_does_not_stand_for_another_request() {
        let mut echoes = client();
        let (first, _second) = (echoes.due(at(1000)).unwrap(), echoes.due(at(1100)).unwrap());
        echoes.take(&reply(first));
        echoes.take(&reply(first));
        echoes.ends = None;
        assert_eq!(echoes.due(at(5000)), None);
        assert_eq!(echoes.totals(), EchoTotals { sent: 2, answered: 1, lost: 1, repeated: 1 });
    }

    #[test]
    fn only_answers_count() {
        let mut echoes = client();
        let packet = echoes.due(at(1000)).unwrap();
        echoes.take(&packet);
        echoes.take(&reply(packet)[..LENGTH - 1]);
        echoes.take(&[]);
        assert_eq!(echoes.totals().answered, 0);
        echoes.take(&reply(packet));
        assert_eq!(echoes.totals().answered, 1);
    }

    #[test]
    fn the_pace_is_kept_but_a_pause_is_not_made_up_for() {
        let mut echoes = client();
        let sent = |echoes: &mut Echoes, now: u64| std::iter::from_fn(|| echoes.due(at(now))).count();
        assert_eq!(sent(&mut echoes, 1450), 5);
        assert_eq!(sent(&mut echoes, 9000), 1);
        assert_eq!(sent(&mut echoes, 9100), 1);
    }

    #[test]
    fn a_request_is_a_packet_with_right_checksums() {
        let packet = request(Ipv4Addr::new(10, 8, 0, 7), Ipv4Addr::new(10, 8, 0, 1), 5);
        // With its checksum in it, each part sums up to 0.
        assert_eq!([checksum(&packet[..IP_HEADER]), checksum(&packet[IP_HEADER..])], [0, 0]);
        assert_eq!(answered(&reply(packet)), Some(5));
        let mut echoes = client();
        assert_eq!(echoes.due(at(1000)).unwrap()[16..20], [10, 8, 0, 1], "the server's address");
    }
}
