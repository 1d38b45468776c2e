//! A tunnel that moves packets and does nothing else: no encryption, no checksums, no cutting, no merging. What a
//! tunnel in user space reaches is compared with what this reaches on the same machine.
//!
//! Each read from the device, with a length in front, goes out in datagrams of [`SEGMENT`] bytes by as few sends
//! as UDP_SEGMENT allows. The other side takes what UDP_GRO gathered as a stream and writes each packet whole.
//! Nothing repairs a lost datagram: it shifts the stream, which starts anew when a length makes no sense.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::thread;

use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// Bytes of each datagram: with IPv4 and UDP headers they fit an MTU of 1500.
const SEGMENT: usize = 1440;
/// Segments that one send takes, kept below 65,507 bytes.
const SEGMENTS: usize = 44;
/// Bytes of the length in front of each packet.
const LENGTH: usize = 4;
/// A packet of 65,535 bytes with its virtio header.
const LARGEST: usize = 65_535 + 12;
const SOCKET_BUFFER: usize = 8 << 20;

/// Carries packets between a device, which it makes, and a peer, until it is killed.
pub(crate) fn run(device: &str, local: SocketAddr, remote: SocketAddr) -> io::Result<()> {
    let device = DeviceBuilder::new().name(device).layer(Layer::L3).offload(true).build_sync()?;
    let socket = UdpSocket::bind(local)?;
    set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER)?;
    set_socket_send_buffer_size_force(&socket, SOCKET_BUFFER)?;
    adit_testbed::segment_and_gather(socket.as_fd(), SEGMENT)?;
    socket.connect(remote)?;
    thread::scope(|scope| {
        let out = scope.spawn(|| from_device(&device, &socket));
        to_device(&socket, &device)?;
        out.join().map_err(|_| io::Error::other("the other thread failed"))?
    })
}

fn from_device(device: &SyncDevice, socket: &UdpSocket) -> io::Result<()> {
    let mut buffer = vec![0; LENGTH + LARGEST];
    loop {
        let (length, packet) = buffer.split_at_mut(LENGTH);
        let count = device.recv(packet)?;
        length.copy_from_slice(&(count as u32).to_be_bytes());
        for train in buffer.get(..LENGTH + count).unwrap_or_default().chunks(SEGMENTS * SEGMENT) {
            // The receiver may not be there yet.
            let _ = socket.send(train);
        }
    }
}

fn to_device(socket: &UdpSocket, device: &SyncDevice) -> io::Result<()> {
    let mut stream = Stream { buffer: vec![0; 4 * LARGEST], filled: 0 };
    loop {
        match socket.recv(stream.room()) {
            // A device that is not up yet refuses.
            Ok(count) => stream.packets(count, |packet| drop(device.send(packet))),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Datagrams on their way back to packets.
struct Stream {
    buffer: Vec<u8>,
    filled: usize,
}

impl Stream {
    fn room(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.filled..).unwrap_or_default()
    }

    /// So many bytes were put into the room: gives each packet that is whole now.
    fn packets(&mut self, count: usize, mut give: impl FnMut(&[u8])) {
        self.filled += count;
        let mut start = 0;
        let filled = self.buffer.get(..self.filled).unwrap_or_default();
        while let Some((length, rest)) = filled.get(start..).and_then(<[u8]>::split_first_chunk::<LENGTH>) {
            let length = u32::from_be_bytes(*length) as usize;
            if length > LARGEST {
                start = self.filled;
                break;
            }
            let Some(packet) = rest.get(..length) else { break };
            give(packet);
            start += LENGTH + length;
        }
        self.buffer.copy_within(start..self.filled, 0);
        self.filled -= start;
        if self.filled > 2 * LARGEST {
            self.filled = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(stream: &mut Stream, bytes: &[u8]) -> Vec<Vec<u8>> {
        stream.room()[..bytes.len()].copy_from_slice(bytes);
        let mut packets = Vec::new();
        stream.packets(bytes.len(), |packet| packets.push(packet.to_vec()));
        packets
    }

    #[test]
    fn packets_come_back_whole_however_they_were_cut() {
        let sent: Vec<Vec<u8>> = (1..50_u8).map(|number| vec![number; usize::from(number) * 37]).collect();
        let bytes: Vec<u8> = sent
            .iter()
            .flat_map(|packet| [&(packet.len() as u32).to_be_bytes()[..], packet].concat())
            .collect();
        for cut in [1, 7, 1440, 60_000] {
            let mut stream = Stream { buffer: vec![0; 4 * LARGEST], filled: 0 };
            let come: Vec<Vec<u8>> = bytes.chunks(cut).flat_map(|piece| feed(&mut stream, piece)).collect();
            assert_eq!(come, sent, "{cut}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_dropped() {
        let mut stream = Stream { buffer: vec![0; 4 * LARGEST], filled: 0 };
        assert!(feed(&mut stream, &[0xff; 100]).is_empty());
        assert_eq!(feed(&mut stream, &[0, 0, 0, 2, 8, 9]), [[8, 9]]);
    }
}
