use std::io::{Error, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::{MAX_WAIT, Namespace, TestbedError};

/// Bytes of an ICMP echo header (RFC 792, RFC 4443 §4.1).
const HEADER: usize = 8;
/// Bytes at the start of the payload that hold the time of sending.
const STAMP: usize = 8;
/// How long [`wait_until_reachable`] waits for an answer before it looks whether to ask again.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long the receiver of a series waits for an answer before it looks whether the series is over: an emulated processor has many
/// receivers.
const RECEIVER_LOOKS_EVERY: Duration = Duration::from_millis(100);
/// A socket's buffer: answers that come while the receiver does not run shall not be lost.
const BUFFER: usize = 4 << 20;
/// How often [`wait_until_reachable`] asks.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Tells the series apart that run at once.
static NEXT_IDENTIFIER: AtomicU16 = AtomicU16::new(1);

/// A series of echo requests. Unlike the `ping` program, which stops two round trips after the last request,
/// this waits for every answer as long as `timeout` says.
#[derive(Clone, Copy, Debug)]
pub struct Ping {
    /// How many.
    pub count: u16,
    /// One every so often.
    pub interval: Duration,
    /// Bytes of payload in each, at least 8.
    pub size: u16,
    /// How long to wait for answers after the last request was sent.
    pub timeout: Duration,
}

/// The answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PingReport {
    /// Requests sent, or tried to send.
    pub sent: u32,
    /// Requests answered.
    pub received: u32,
    /// Answers beyond the first to a request.
    pub duplicates: u32,
    /// Answers whose payload is not the request's.
    pub changed: u32,
    /// Round trips: least, mean, most. Absent if nothing came back.
    pub round_trip: Option<[Duration; 3]>,
    /// Each round trip, the shortest first.
    pub round_trips: Vec<Duration>,
    /// Sequence numbers (from 0) that were never answered.
    pub missing: Vec<u16>,
    /// Why the system refused to send, the last time it did.
    pub refused: Option<String>,
}

impl PingReport {
    /// Requests that were not answered.
    pub fn lost(&self) -> u32 {
        self.sent.saturating_sub(self.received)
    }

    /// Puts another series behind this one. Numbers of missing requests are each series' own.
    pub(crate) fn add(&mut self, later: PingReport) {
        let sums = [self.received, later.received].map(f64::from);
        self.sent += later.sent;
        self.received += later.received;
        self.duplicates += later.duplicates;
        self.changed += later.changed;
        self.round_trip = match (self.round_trip, later.round_trip) {
            (Some([least, mean, most]), Some(other)) => {
                let mean =
                    (mean.as_secs_f64() * sums[0] + other[1].as_secs_f64() * sums[1]) / (sums[0] + sums[1]);
                Some([least.min(other[0]), Duration::from_secs_f64(mean), most.max(other[2])])
            }
            (first, second) => first.or(second),
        };
        self.round_trips.extend(later.round_trips);
        self.round_trips.sort_unstable();
        self.missing.extend(later.missing);
        self.refused = later.refused.or(self.refused.take());
    }

    /// The round trip that this share of all answers (0.5: half of them) did not exceed.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let rank = (share * self.round_trips.len() as f64).ceil() as usize;
        self.round_trips.get(rank.saturating_sub(1)).copied()
    }

    /// Whether each request was answered once and unchanged.
    pub fn is_clean(&self) -> bool {
        self.lost() == 0 && self.duplicates == 0 && self.changed == 0
    }
}

impl Ping {
    /// `count` requests of 56 bytes, `interval` apart. The last answer may come late; for series that lose some, set a
    /// shorter time.
    pub fn new(count: u16, interval: Duration) -> Self {
        Self { count, interval, size: 56, timeout: MAX_WAIT / 4 }
    }

    /// Sends them from `namespace` to `target` and collects the answers. That none comes is not an error.
    pub fn run(&self, namespace: &Namespace, target: IpAddr) -> Result<PingReport, TestbedError> {
        let failed =
            |source| TestbedError::Network { what: format!("cannot open a socket to ping {target}"), source };
        let socket = namespace.enter(|| open(target))?.map_err(failed)?;
        let series = Series {
            ping: self,
            target,
            identifier: NEXT_IDENTIFIER.fetch_add(1, Ordering::Relaxed),
            start: Instant::now(),
            all_sent: OnceLock::new(),
        };
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| series.receive(&socket));
            let refused = series.send(&socket);
            let mut report = receiver.join().map_err(|_| TestbedError::Worker("receiving pings"))?;
            report.refused = refused.map(|error| error.to_string());
            Ok(report)
        })
    }
}

/// Pings `target` until an answer comes, and returns how long that took.
pub fn wait_until_reachable(
    namespace: &Namespace,
    target: IpAddr,
    timeout: Duration,
) -> Result<Duration, TestbedError> {
    let failed =
        |source| TestbedError::Network { what: format!("cannot open a socket to ping {target}"), source };
    let mut socket = namespace.enter(|| open(target))?.map_err(failed)?;
    let series = Series {
        ping: &Ping::new(u16::MAX, ASK_EVERY),
        target,
        identifier: NEXT_IDENTIFIER.fetch_add(1, Ordering::Relaxed),
        start: Instant::now(),
        all_sent: OnceLock::new(),
    };
    let (mut sequence, mut buffer) = (0_u16, vec![0; 65_536]);
    // An answer may take longer than the next request: that to any request will do.
    while series.start.elapsed() < timeout {
        if ASK_EVERY * u32::from(sequence) <= series.start.elapsed() {
            // Without a tunnel there may be no way yet.
            let _ = series.send_one(&socket, sequence);
            sequence = sequence.saturating_add(1);
        }
        let answer = match socket.read(&mut buffer) {
            Ok(length) => echo_message(target, &buffer[..length]).and_then(|message| series.answer(message)),
            Err(_) => None,
        };
        if answer.is_some() {
            return Ok(series.start.elapsed());
        }
    }
    Err(TestbedError::TimedOut {
        what: format!("an answer from {target} in {}", namespace.name()),
        waited: timeout,
    })
}

fn open(target: IpAddr) -> std::io::Result<Socket> {
    let (domain, protocol) = match target {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
    };
    let socket = Socket::new(domain, Type::RAW, Some(protocol))?;
    socket.set_read_timeout(Some(LOOK_EVERY))?;
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER)?;
    Ok(socket)
}

/// One run of a [`Ping`].
struct Series<'a> {
    ping: &'a Ping,
    target: IpAddr,
    identifier: u16,
    start: Instant,
    /// When the last request was sent.
    all_sent: OnceLock<Instant>,
}

impl Series<'_> {
    fn length(&self) -> usize {
        HEADER + usize::from(self.ping.size).max(STAMP)
    }

    /// An echo request without its time stamp, and without a checksum where the kernel fills it in (IPv6).
    fn request(&self, sequence: u16) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..self.length()).map(|index| index as u8).collect();
        bytes[..4].copy_from_slice(&[if self.target.is_ipv4() { 8 } else { 128 }, 0, 0, 0]);
        bytes[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        bytes[6..8].copy_from_slice(&sequence.to_be_bytes());
        bytes
    }

    /// Sends all requests on time. Returns the last refusal: the answer to it is counted as missing.
    fn send(&self, socket: &Socket) -> Option<Error> {
        let mut refused = None;
        for sequence in 0..self.ping.count {
            let due = self.ping.interval * u32::from(sequence);
            std::thread::sleep(due.saturating_sub(self.start.elapsed()));
            if let Err(error) = self.send_one(socket, sequence) {
                refused = Some(error);
            }
        }
        self.all_sent.get_or_init(Instant::now);
        refused
    }

    fn send_one(&self, socket: &Socket, sequence: u16) -> std::io::Result<usize> {
        let mut bytes = self.request(sequence);
        let stamp = self.start.elapsed().as_nanos() as u64;
        bytes[HEADER..HEADER + STAMP].copy_from_slice(&stamp.to_be_bytes());
        if self.target.is_ipv4() {
            let sum = checksum(&bytes);
            bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        socket.send_to(&bytes, &SocketAddr::new(self.target, 0).into())
    }

    fn receive(&self, mut socket: &Socket) -> PingReport {
        let mut report = PingReport { sent: self.ping.count.into(), ..PingReport::default() };
        let mut answered = vec![false; usize::from(self.ping.count)];
        let mut times = Vec::new();
        // A sender that is not run in time sends late.
        let is_over = || self.all_sent.get().is_some_and(|sent| sent.elapsed() >= self.ping.timeout);
        let mut buffer = vec![0; 65_536];
        let _ = socket.set_read_timeout(Some(RECEIVER_LOOKS_EVERY));
        while !is_over() && report.received < report.sent {
            let message = match socket.read(&mut buffer) {
                Ok(length) => echo_message(self.target, &buffer[..length]),
                // A timeout, or a router's word about an earlier request: look again until the time is up.
                Err(_) => None,
            };
            let Some((sequence, payload)) = message.and_then(|message| self.answer(message)) else {
                continue;
            };
            let Some(seen) = answered.get_mut(usize::from(sequence)) else { continue };
            if std::mem::replace(seen, true) {
                report.duplicates += 1;
                continue;
            }
            report.received += 1;
            let (stamp, rest) = payload;
            times.push(self.start.elapsed().saturating_sub(Duration::from_nanos(stamp)));
            if rest != &self.request(sequence)[HEADER + STAMP..] {
                report.changed += 1;
            }
        }
        times.sort_unstable();
        let mean = times.iter().sum::<Duration>().checked_div(report.received);
        if let (Some(least), Some(most), Some(mean)) = (times.first(), times.last(), mean) {
            report.round_trip = Some([*least, mean, *most]);
        }
        report.round_trips = times;
        let unanswered = (0u16..).zip(answered).filter(|(_, answered)| !answered);
        report.missing = unanswered.map(|(sequence, _)| sequence).collect();
        report
    }

    /// The sequence number, the time stamp and the rest of an answer to this series.
    fn answer<'m>(&self, message: &'m [u8]) -> Option<(u16, (u64, &'m [u8]))> {
        let (header, rest) = message.split_first_chunk::<HEADER>()?;
        let (stamp, rest) = rest.split_first_chunk::<STAMP>()?;
        let [kind, 0, _, _, id0, id1, seq0, seq1] = *header else { return None };
        let expected = if self.target.is_ipv4() { 0 } else { 129 };
        let ours = kind == expected && u16::from_be_bytes([id0, id1]) == self.identifier;
        ours.then(|| (u16::from_be_bytes([seq0, seq1]), (u64::from_be_bytes(*stamp), rest)))
    }
}

/// The ICMP message in the bytes of a raw socket: with the IP header for IPv4, without for IPv6.
fn echo_message(target: IpAddr, bytes: &[u8]) -> Option<&[u8]> {
    match target {
        IpAddr::V4(_) => bytes.get(usize::from(bytes.first()? & 0x0f) * 4..),
        IpAddr::V6(_) => Some(bytes),
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_add_up() {
        let one = |millis: u64, lost: u32| PingReport {
            sent: 10,
            received: 10 - lost,
            round_trip: Some([Duration::from_millis(millis); 3]),
            round_trips: vec![Duration::from_millis(millis); 10 - lost as usize],
            ..PingReport::default()
        };
        let mut all = PingReport::default();
        all.add(one(8, 0));
        all.add(one(2, 5));
        assert_eq!((all.sent, all.lost()), (20, 5));
        assert_eq!(all.round_trip, Some([2, 6, 8].map(Duration::from_millis)));
        assert_eq!(all.percentile(0.2), Some(Duration::from_millis(2)));
    }

    #[test]
    fn the_checksum_is_rfc_1071s() {
        // The example of RFC 1071 §3: the sum is 0xddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(checksum(&[0xff]), 0x00ff);
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let round_trips = (1..=200).map(Duration::from_millis).collect();
        let report = PingReport { round_trips, ..PingReport::default() };
        assert_eq!(report.percentile(0.5), Some(Duration::from_millis(100)));
        assert_eq!(report.percentile(0.99), Some(Duration::from_millis(198)));
        assert_eq!(report.percentile(1.0), Some(Duration::from_millis(200)));
        assert_eq!(PingReport::default().percentile(0.5), None);
    }

    #[test]
    fn only_answers_to_this_series_count() {
        let ping = Ping::new(1, Duration::ZERO);
        let target = "10.0.0.1".parse().unwrap();
        let series =
            Series { ping: &ping, target, identifier: 7, start: Instant::now(), all_sent: OnceLock::new() };
        let mut message = series.request(3);
        assert_eq!(series.answer(&message), None, "a request is no answer");
        message[0] = 0;
        assert_eq!(series.answer(&message).map(|(sequence, _)| sequence), Some(3));
        message[5] = 8;
        assert_eq!(series.answer(&message), None, "another series");
        assert_eq!(series.answer(&message[..12]), None, "cut off");
    }

    #[test]
    fn the_ip_header_is_skipped() {
        let target = "10.0.0.1".parse().unwrap();
        let mut packet = vec![0x46];
        packet.resize(24, 0);
        packet.push(99);
        assert_eq!(echo_message(target, &packet), Some(&[99][..]));
        assert_eq!(echo_message(target, &packet[..20]), None);
        assert_eq!(echo_message(target, &[]), None);
    }
}
