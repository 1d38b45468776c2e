//! Floods of UDP packets.

use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::{Ends, TestbedError};
use nix::sys::socket::sockopt::{IpMtu, UdpGroSegment, UdpGsoSegment};
use nix::sys::socket::{MsgFlags, MultiHeaders, getsockopt, recvmmsg, setsockopt};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

/// Packets a system call, at either end.
const BATCH: usize = 64;
/// The sink's buffer: packets that it does not receive shall be the tunnel's loss.
const SINK_BUFFER: usize = 16 << 20;
/// The sink looks this often, so that it is not woken for every packet. Its buffer holds the packets that come
/// meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// The bytes of a packet that the sink reads: it counts packets only.
const SEEN: usize = 32;
/// After the last packet was sent, those under way have this long without any other.
const SILENCE: Duration = Duration::from_millis(200);
/// The most that one send may carry over IPv4.
const MAX_PAYLOAD: usize = 65_507;
const PORT: u16 = 5001;
/// Bytes of the headers of IPv4 and UDP.
const HEADERS: usize = 28;

/// The search for the load at which most packets arrive: from here, by half as much again, so long each.
const FIRST_RATE: u32 = 20_000;
const STEP_TIME: Duration = Duration::from_millis(500);
const LAST_RATE: u32 = 4_000_000;
/// Less than this share of the most that arrived is less.
const AS_GOOD: f64 = 0.97;

fn network(what: &str) -> impl FnOnce(std::io::Error) -> TestbedError {
    let what = what.to_owned();
    move |source| TestbedError::Network { what, source }
}

/// UDP packets from the client to the server, as many a second as asked for or as the sender can.
#[derive(Clone, Copy)]
pub struct Flood {
    /// Bytes of payload.
    pub size: usize,
    /// Packets a second.
    pub rate: u32,
    /// How long.
    pub time: Duration,
    /// The sender gives the kernel a batch as one large packet to cut (UDP_SEGMENT), as QUIC programs do.
    pub segmented: bool,
}

/// Packets a second, and how many in all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// By the source.
    pub sent: f64,
    /// By the sink.
    pub received: f64,
    /// By the source, in all.
    pub packets_sent: u64,
    /// By the sink, in all.
    pub packets_received: u64,
}

impl Rates {
    /// The share that did not arrive.
    pub fn lost(&self) -> f64 {
        let missing = self.packets_sent.saturating_sub(self.packets_received);
        missing as f64 / self.packets_sent.max(1) as f64
    }
}

impl Flood {
    /// Sends and counts.
    pub fn run(self, ends: &Ends<'_>) -> Result<Rates, TestbedError> {
        self.run_from(ends, &[])
    }

    /// Runs the flood through each of these devices in turn.
    pub fn run_from(self, ends: &Ends<'_>, devices: &[String]) -> Result<Rates, TestbedError> {
        let target = SocketAddr::new(ends.target, PORT);
        let sink = ends.server.enter(|| UdpSocket::bind(target))?.map_err(network("cannot bind the sink"))?;
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&sink, SINK_BUFFER)
            .map_err(|error| network("cannot enlarge the sink's buffer")(error.into()))?;
        sink.set_nonblocking(true).map_err(network("cannot set up the sink"))?;
        let source = |device: Option<&String>| -> std::io::Result<UdpSocket> {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            if let Some(device) = device {
                socket2::SockRef::from(&socket).bind_device(Some(device.as_bytes()))?;
            }
            socket.connect(target)?;
            if self.segmented {
                setsockopt(&socket, UdpGsoSegment, &i32::try_from(self.size).unwrap_or(i32::MAX))?;
            }
            Ok(socket)
        };
        let sources = ends.client.enter(|| -> std::io::Result<Vec<UdpSocket>> {
            match devices {
                [] => Ok(vec![source(None)?]),
                devices => devices.iter().map(|device| source(Some(device))).collect(),
            }
        })?;
        let sources = sources.map_err(network("cannot open the source"))?;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sink = scope.spawn(|| drain(&sink, &done));
            let sent = self.send(&sources);
            done.store(true, Ordering::Relaxed);
            let (packets, time) = sink.join().map_err(|_| TestbedError::Worker("counting packets"))?;
            let (sent, sending) = sent.map_err(network("cannot send"))?;
            let seconds = time.max(sending).as_secs_f64();
            Ok(Rates {
                sent: sent as f64 / sending.as_secs_f64(),
                received: packets as f64 / seconds,
                packets_sent: sent,
                packets_received: packets,
            })
        })
    }

    fn send(self, sockets: &[UdpSocket]) -> std::io::Result<(u64, Duration)> {
        let Some(first) = sockets.first() else { return Ok((0, self.time)) };
        let mut turn = sockets.iter().cycle();
        let mut next = move || turn.next().unwrap_or(first);
        if self.segmented {
            let batch = BATCH.min(MAX_PAYLOAD / self.size.max(1));
            let payload = vec![0x2a; self.size * batch];
            return self.pace(batch, |count| {
                let bytes = payload.get(..count * self.size).unwrap_or_default();
                rustix::net::send(next(), bytes, SendFlags::empty()).map(|_| count)
            });
        }
        let payload = vec![0x2a; self.size];
        let slices = [IoSlice::new(&payload)];
        let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> =
            std::iter::repeat_with(SendAncillaryBuffer::default).take(BATCH).collect();
        let mut messages: Vec<MMsgHdr<'_>> =
            controls.iter_mut().map(|control| MMsgHdr::new(&slices, control)).collect();
        self.pace(BATCH, |count| {
            sendmmsg(next(), messages.get_mut(..count).unwrap_or_default(), SendFlags::empty())
        })
    }

    /// Open loop: packets that are late are made up for, up to a batch at a time. Says how many left in what
    /// time.
    fn pace(
        self,
        batch: usize,
        mut send: impl FnMut(usize) -> rustix::io::Result<usize>,
    ) -> std::io::Result<(u64, Duration)> {
        let start = Instant::now();
        let (mut sent, mut tried) = (0, 0);
        loop {
            let elapsed = start.elapsed();
            if elapsed >= self.time {
                return Ok((sent, elapsed));
            }
            let due = (elapsed.as_secs_f64() * f64::from(self.rate)) as u64;
            let count = due.saturating_sub(tried).min(batch as u64) as usize;
            if count == 0 {
                std::thread::sleep(Duration::from_micros(50));
                continue;
            }
            match send(count) {
                Ok(count) => {
                    sent += count as u64;
                    tried += count as u64;
                }
                // The device's queue is full, or ICMP's word on an earlier packet: as lost as the others.
                Err(
                    rustix::io::Errno::NOBUFS | rustix::io::Errno::AGAIN | rustix::io::Errno::CONNREFUSED,
                ) => {
                    tried += count as u64;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Receives until nothing comes any more. Says how many came, and between the first and the last the time.
fn drain(socket: &UdpSocket, done: &AtomicBool) -> (u64, Duration) {
    let mut headers = MultiHeaders::<()>::preallocate(BATCH, None);
    let mut buffers = [[0; SEEN]; BATCH];
    let mut total = 0;
    let mut first = None;
    let mut last = Instant::now();
    loop {
        let mut slices = buffers.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
        let received =
            recvmmsg(socket.as_raw_fd(), &mut headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None);
        let count = received.map_or(0, Iterator::count);
        if count > 0 {
            last = Instant::now();
            first.get_or_insert(last);
            total += count as u64;
        }
        if count == BATCH {
            continue;
        }
        if done.load(Ordering::Relaxed) && last.elapsed() > SILENCE {
            return (total, first.map_or(Duration::ZERO, |first| last - first));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Has a UDP socket cut its large sends into datagrams of this size (UDP_SEGMENT), and give datagrams of one size that
/// came one after the other as one (UDP_GRO).
pub fn segment_and_gather(socket: BorrowedFd<'_>, size: usize) -> std::io::Result<()> {
    setsockopt(&socket, UdpGsoSegment, &i32::try_from(size).unwrap_or(i32::MAX))?;
    Ok(setsockopt(&socket, UdpGroSegment, &true)?)
}

/// The most that a UDP packet may carry to the other end without being cut, over IPv4: by the route's MTU.
pub fn largest_payload(ends: &Ends<'_>) -> Result<usize, TestbedError> {
    let target = SocketAddr::new(ends.target, PORT);
    let mtu = ends.client.enter(|| -> std::io::Result<i32> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(target)?;
        Ok(getsockopt(&socket, IpMtu)?)
    })?;
    let mtu = mtu.map_err(network("cannot ask for the MTU"))?;
    Ok(usize::try_from(mtu).unwrap_or(0).saturating_sub(HEADERS))
}

/// The lowest offered load at which about as many packets arrive as at any: from a low one upwards until twice
/// in a row less than two thirds arrived or the sender could not send as many, then more closely around the
/// best.
pub fn find_saturation(ends: &Ends<'_>, size: usize, segmented: bool) -> Result<u32, TestbedError> {
    search(|rate| Flood { size, rate, time: STEP_TIME, segmented }.run(ends))
}

/// Finds the saturation through each of these devices in turn.
pub fn find_saturation_from(ends: &Ends<'_>, devices: &[String], size: usize) -> Result<u32, TestbedError> {
    search(|rate| Flood { size, rate, time: STEP_TIME, segmented: false }.run_from(ends, devices))
}

fn search(step: impl Fn(u32) -> Result<Rates, TestbedError>) -> Result<u32, TestbedError> {
    let mut seen = Vec::new();
    let mut rate = FIRST_RATE;
    let mut beyond = 0;
    while rate < LAST_RATE && beyond < 2 {
        let rates = step(rate)?;
        seen.push((rate, rates.received));
        let lossy = rates.received < 0.66 * rates.sent;
        let exhausted = rates.sent < 0.9 * f64::from(rate);
        beyond = if lossy || exhausted { beyond + 1 } else { 0 };
        rate = rate.saturating_add(rate / 2);
    }
    let around = saturation(&seen);
    for rate in [around / 5 * 4, around / 5 * 6] {
        seen.push((rate, step(rate)?.received));
    }
    seen.sort_unstable_by_key(|(rate, _)| *rate);
    Ok(saturation(&seen))
}

/// The lowest offered rate that is about as good as the best, of offered and received rates in ascending order.
fn saturation(seen: &[(u32, f64)]) -> u32 {
    let most = seen.iter().map(|(_, received)| *received).fold(0.0, f64::max);
    let enough = seen.iter().find(|(_, received)| *received >= AS_GOOD * most);
    enough.map_or(FIRST_RATE, |(rate, _)| *rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturation_is_where_more_does_not_help() {
        let seen = [(10, 10.0), (20, 19.0), (40, 30.0), (60, 30.5), (90, 12.0)];
        assert_eq!(saturation(&seen), 40);
        assert_eq!(saturation(&seen[..2]), 20);
        assert_eq!(saturation(&[]), FIRST_RATE);
    }
}
