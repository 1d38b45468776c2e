//! The data thread's way from the network to the TUN device.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;

use adit_core::{ConnectionId, DeviceId, PreambleVerdict};
use adit_dataplane::{Arrival, TunPacket};

use super::data::Running;
use super::forward::Origin;
use super::mail::Mail;
use super::status::count;
use crate::clock;
use crate::poller::Ready;
use crate::tun::Tun;
use crate::udp::RECEIVE_SLOT;

/// Receives from one socket before the others have their turn.
const RECEIVE_BATCH: usize = 16;
/// Bytes received from one socket before the others have their turn: a few full receives.
const RECEIVE_BATCH_BYTES: usize = 256 * 1024;
/// Bytes that processors move at once.
const CACHE_LINE: usize = 64;
/// The remote of a path that is not complete.
const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
/// Pieces of one packet that are gathered without an allocation.
const PIECES: usize = 80;

impl Running {
    pub(super) fn receive_datagrams(&mut self, number: u32, buffer: &mut [u8]) -> Result<(), String> {
        let Some(socket) = self.transports.socket(number) else { return Ok(()) };
        let by_socket = socket.path(number, UNKNOWN);
        let mut total = 0;
        // Where the next receive goes: behind the bytes that must stay, a run of packets that the next GSO batch may
        // continue.
        let mut at = 0;
        for _ in 0..RECEIVE_BATCH {
            let Some(room) = buffer.get_mut(at..) else { break };
            let more = match socket.receive(room, &mut self.gathered) {
                Ok(more) => more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // ICMP's word on an earlier send, or a signal: nothing was received.
                Err(_) => continue,
            };
            // Keys that were ready when these datagrams came must be known when they are opened.
            self.take_waiting_mail()?;
            for message in self.gathered.messages() {
                if message.truncated {
                    count(&self.losses.udp_truncated);
                    continue;
                }
                let socket = by_socket.to_remote(message.from);
                let path = match message.local {
                    None => socket,
                    Some(local) => {
                        let arrived = (local, message.device);
                        socket.by_socket(self.transports.arrived(number, arrived, &self.members))
                    }
                };
                let start = at + message.at;
                let within = start..(start + message.len).min(buffer.len());
                let arrival = Arrival { socket, path, traffic_class: message.traffic_class };
                let out = &mut self.receive_batch;
                self.ingress.gather_datagrams_at(&arrival, buffer, within, message.segment, out);
                total += message.len;
            }
            let last = !more || total >= RECEIVE_BATCH_BYTES;
            at = self.deliver_but_newest(buffer, last || self.gathered.small());
            if last {
                return Ok(());
            }
        }
        self.receive_batch.finish(buffer);
        self.deliver(buffer, Origin::Network);
        // More waits already.
        self.moderation.stop();
        Ok(())
    }

    /// Opens the datagrams that came before their sessions, which have come since.
    pub(super) fn open_released(&mut self) {
        let mut datagram = Vec::new();
        while self.ingress.open_released(&mut datagram, &mut self.receive_batch) {
            self.deliver(&mut datagram, Origin::Network);
        }
    }

    /// Hands out the opened packets. A run of packets that the next receive may continue stays, unless `all` is to go.
    /// Gives where in the buffer the next receive goes.
    fn deliver_but_newest(&mut self, buffer: &mut [u8], all: bool) -> usize {
        let kept = if all { None } else { self.receive_batch.finish_but_newest(buffer) };
        let next = kept.and_then(|kept| room_beside(&kept, buffer.len()));
        if next.is_none() {
            self.receive_batch.finish(buffer);
        }
        self.deliver(buffer, Origin::Network);
        next.unwrap_or(0)
    }

    /// A connection has room to write, or something to read.
    pub(super) fn look_after_connection(
        &mut self,
        number: u32,
        event: Ready,
        buffer: &mut [u8],
    ) -> Result<(), String> {
        let id = ConnectionId(number);
        if event.writable {
            self.transports.flush(id);
        }
        if event.readable {
            self.receive_stream(id, buffer)?;
        }
        Ok(())
    }

    fn receive_stream(&mut self, id: ConnectionId, buffer: &mut [u8]) -> Result<(), String> {
        let Some(connection) = self.transports.connection(id).filter(|connection| connection.reading) else {
            return Ok(());
        };
        let (kept, path) = (connection.partial.len(), connection.path);
        let Some((front, rest)) = buffer.split_at_mut_checked(kept) else { return Ok(()) };
        front.copy_from_slice(&connection.partial);
        let count = match self.transports.read(id, rest) {
            Ok(0) => return self.break_off(id, "the other end closed the connection".to_owned()),
            Ok(count) => count,
            Err(error) if is_transient(&error) => return Ok(()),
            // The error of TLS names the fault.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return self.break_off(id, error.to_string());
            }
            Err(error) => return self.break_off(id, format!("cannot read: {error}")),
        };
        self.take_waiting_mail()?;
        let Some(bytes) = buffer.get_mut(..kept + count) else { return Ok(()) };
        let begin = match self.transports.judge_preamble(id, bytes, &self.losses) {
            None => 0,
            Some(PreambleVerdict::Incomplete) => {
                self.keep(id, bytes);
                return Ok(());
            }
            Some(PreambleVerdict::Complete { taken }) => {
                self.tell_owner(id, Mail::Prepared(id));
                taken
            }
            Some(PreambleVerdict::Refused(why)) => {
                self.transports.stop_reading(id);
                self.tell_owner(id, Mail::NotFramed { connection: id, why });
                return Ok(());
            }
        };
        let Some(bytes) = bytes.get_mut(begin..) else { return Ok(()) };
        let result = self.ingress.open_stream(path, bytes, &mut self.receive_batch);
        self.deliver(bytes, Origin::Network);
        match result {
            Ok(consumed) => {
                self.keep(id, bytes.get(consumed..).unwrap_or_default());
                Ok(())
            }
            Err(error) if self.ingress.serves(&path) => self.break_off(id, error.to_string()),
            Err(error) => {
                self.transports.stop_reading(id);
                self.tell_owner(id, Mail::NotFramed { connection: id, why: error.to_string() });
                Ok(())
            }
        }
    }

    /// Keeps the start of a record that has not come whole.
    fn keep(&mut self, id: ConnectionId, start: &[u8]) {
        if let Some(connection) = self.transports.connection(id) {
            connection.partial.clear();
            connection.partial.extend_from_slice(start);
        }
    }

    fn break_off(&mut self, connection: ConnectionId, reason: String) -> Result<(), String> {
        self.transports.stop_reading(connection);
        self.tell_owner(connection, Mail::Broken { connection, reason });
        Ok(())
    }

    /// Tells the control thread of the connection's endpoint.
    fn tell_owner(&mut self, connection: ConnectionId, mail: Mail) {
        if let Some(endpoint) = self.transports.connection(connection).map(|found| found.endpoint) {
            self.members.post(endpoint, mail);
        }
    }

    /// Measures the rate of control datagrams while nothing else comes.
    fn moderate(&mut self) {
        match self.receive_batch.control().len() {
            0 => {}
            datagrams => self.moderation.add(datagrams, clock()),
        }
        if self.receive_batch.packets().next().is_some() {
            self.moderation.stop();
        }
    }

    /// Hands out the opened packets, and empties the receive batch.
    pub(super) fn deliver(&mut self, bytes: &mut [u8], origin: Origin) {
        self.moderate();
        // First of all: the reply to a packet may be there as soon as the packet is written.
        for order in self.receive_batch.orders().drain(..) {
            self.egress.apply(order, &mut self.transmit_batch);
        }
        for packet in self.receive_batch.packets() {
            let tun = match packet.device() {
                DeviceId::MAIN => Some(&self.tun),
                other => self.devices.get(other),
            };
            if tun.is_none_or(|tun| write_packet(tun, &packet, bytes).is_err()) {
                count(&self.losses.tun_write);
            }
        }
        self.receive_batch
            .relay_each(bytes, |packet| self.egress.relay_packet(packet, &mut self.transmit_batch));
        if !self.receive_batch.passed().is_empty() {
            self.pass_on(bytes, origin);
        }
        for (path, range) in self.receive_batch.control() {
            let Some(datagram) = bytes.get(range.clone()) else { continue };
            match self.transports.endpoint_of(path, datagram) {
                Some(endpoint) => self.members.datagram(endpoint, *path, datagram),
                // Its socket was closed meanwhile.
                None => count(&self.losses.no_path),
            }
        }
        for notice in self.receive_batch.notices().drain(..) {
            self.members.notice(notice);
        }
        self.receive_batch.clear();
        self.members.wake();
        if !self.transmit_batch.is_empty() {
            self.send();
        }
    }
}

/// Where the next receive may go when a part of the buffer must stay: before it rather than behind it, as memory that
/// is used over and over stays in the cache. `None` if there is no room.
fn room_beside(kept: &Range<usize>, len: usize) -> Option<usize> {
    if kept.start >= RECEIVE_SLOT {
        return Some(0);
    }
    let behind = kept.end.next_multiple_of(CACHE_LINE);
    (behind + RECEIVE_SLOT <= len).then_some(behind)
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// One write of a header and the pieces of a packet.
fn write_packet(tun: &Tun, packet: &TunPacket<'_>, bytes: &[u8]) -> io::Result<()> {
    let header = IoSlice::new(packet.header());
    let mut pieces = packet.slices(bytes).map(IoSlice::new);
    let (first, second) = (pieces.next(), pieces.next());
    match (first, second) {
        (Some(first), None) => tun.write(&[header, first])?,
        _ => write_pieces(tun, [header].into_iter().chain(first).chain(second).chain(pieces))?,
    };
    Ok(())
}

/// One write of many pieces.
fn write_pieces<'a>(tun: &Tun, mut pieces: impl Iterator<Item = IoSlice<'a>>) -> io::Result<usize> {
    let mut few = [IoSlice::new(&[]); PIECES];
    let mut used = 0;
    for (place, piece) in few.iter_mut().zip(&mut pieces) {
        *place = piece;
        used += 1;
    }
    match pieces.next() {
        None => tun.write(few.get(..used).unwrap_or_default()),
        Some(next) => {
            let all: Vec<IoSlice<'_>> = few.into_iter().chain([next]).chain(pieces).collect();
            tun.write(&all)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_receive_goes_where_nothing_is_kept() {
        let len = 3 * RECEIVE_SLOT;
        assert_eq!(room_beside(&(0..60_001), len), Some(60_032), "behind it");
        assert_eq!(room_beside(&(60_032..120_001), len), Some(120_064), "too little room before it");
        assert_eq!(room_beside(&(65_536..120_001), len), Some(0), "before it");
        assert_eq!(room_beside(&(30_000..150_000), len), None, "nowhere");
    }
}
