//! A tunnel that moves packets and does nothing else: no encryption, no checksums, no cutting, no merging. The figures
//! of a tunnel in user space are compared with those of this tunnel on the same machine.
//!
//! Each read from the device goes out in datagrams of [`SEGMENT`] bytes, by as few sends as UDP_SEGMENT allows: a mark,
//! its length and its number in front, and the number again behind. The other side takes what UDP_GRO gathered as a
//! stream and writes each packet whole. Nothing repairs a lost datagram; it shifts the stream, so that the number
//! behind is not the one in front, and the stream goes on at the next mark. Without the numbers wrong bytes would pass
//! for right ones: the kernel leaves checksums out of packets that a device with offloads carries, and believes them.

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
/// Where a packet begins, which is always where a datagram begins. Any bytes would do.
const MARK: [u8; WORD] = [0xad, 0x17, 0x0f, 0x5e];
/// Bytes of the mark, of the length and of the number.
const WORD: usize = 4;
/// Bytes in front of a packet.
const HEAD: usize = 3 * WORD;
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
    let mut buffer = vec![0; HEAD + LARGEST + WORD];
    let mut number = 0_u32;
    loop {
        let count = device.recv(buffer.get_mut(HEAD..HEAD + LARGEST).unwrap_or_default())?;
        number = number.wrapping_add(1);
        for batch in wrapped(&mut buffer, count, number).chunks(SEGMENTS * SEGMENT) {
            // The receiver may not be there yet.
            let _ = socket.send(batch);
        }
    }
}

/// Puts mark, length and number around a packet of so many bytes that lies behind the room for its head.
fn wrapped(buffer: &mut [u8], length: usize, number: u32) -> &[u8] {
    let (bytes, number) = ((length as u32).to_be_bytes(), number.to_be_bytes());
    for (place, word) in [(0, MARK), (WORD, bytes), (2 * WORD, number), (HEAD + length, number)] {
        if let Some(room) = buffer.get_mut(place..place + WORD) {
            room.copy_from_slice(&word);
        }
    }
    buffer.get(..HEAD + length + WORD).unwrap_or_default()
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

    /// Takes bytes that were put into the room: gives each packet that is whole now.
    fn packets(&mut self, count: usize, mut give: impl FnMut(&[u8])) {
        let before = self.filled;
        self.filled += count;
        let filled = self.buffer.get(..self.filled).unwrap_or_default();
        // The rest of the packet before will not come: another packet begins.
        let is_torn = before > 0 && filled.get(before..).is_some_and(|new| new.starts_with(&MARK));
        let mut start = if is_torn { to_next_mark(filled) } else { 0 };
        loop {
            match front(filled.get(start..).unwrap_or_default()) {
                Front::Packet { packet, taken } => {
                    give(packet);
                    start += taken;
                }
                Front::Rubbish(bytes) => start += bytes,
                Front::Part => break,
            }
        }
        self.buffer.copy_within(start..self.filled, 0);
        self.filled -= start;
    }
}

/// The beginning of a stream.
enum Front<'a> {
    /// A packet, and how many bytes it takes with all around it.
    Packet { packet: &'a [u8], taken: usize },
    /// The number of bytes that belong to nothing.
    Rubbish(usize),
    /// Too few bytes to tell.
    Part,
}

fn front(bytes: &[u8]) -> Front<'_> {
    let Some((mark, rest)) = bytes.split_first_chunk::<WORD>() else { return Front::Part };
    let Some((length, rest)) = rest.split_first_chunk::<WORD>() else { return Front::Part };
    let Some((number, rest)) = rest.split_first_chunk::<WORD>() else { return Front::Part };
    let length = u32::from_be_bytes(*length) as usize;
    if *mark != MARK || length > LARGEST {
        return Front::Rubbish(to_next_mark(bytes));
    }
    let Some((packet, rest)) = rest.split_at_checked(length) else { return Front::Part };
    match rest.split_first_chunk::<WORD>() {
        None => Front::Part,
        Some((behind, _)) if behind == number => Front::Packet { packet, taken: HEAD + length + WORD },
        Some(_) => Front::Rubbish(to_next_mark(bytes)),
    }
}

/// How far the next mark is behind the first byte, or the end if there is none.
fn to_next_mark(bytes: &[u8]) -> usize {
    let behind = bytes.get(1..).unwrap_or_default();
    behind.windows(WORD).position(|word| word == MARK).map_or(bytes.len(), |place| place + 1)
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

    /// Packets of many lengths, as they are sent.
    fn sent() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let packets: Vec<Vec<u8>> =
            (1..60_u8).map(|number| vec![number; usize::from(number) * 137]).collect();
        let wrap = |(packet, number): (&Vec<u8>, u32)| {
            let mut buffer = vec![0; HEAD + LARGEST + WORD];
            buffer[HEAD..HEAD + packet.len()].copy_from_slice(packet);
            wrapped(&mut buffer, packet.len(), number).to_vec()
        };
        let wrapped = packets.iter().zip(7..).map(wrap).collect();
        (packets, wrapped)
    }

    #[test]
    fn packets_come_back_whole_however_they_were_gathered() {
        let (packets, wrapped) = sent();
        for gathered in [1, 3, 44] {
            let mut stream = Stream { buffer: vec![0; 4 * LARGEST], filled: 0 };
            let datagrams: Vec<&[u8]> = wrapped.iter().flat_map(|bytes| bytes.chunks(SEGMENT)).collect();
            let come: Vec<Vec<u8>> =
                datagrams.chunks(gathered).flat_map(|some| feed(&mut stream, &some.concat())).collect();
            assert_eq!(come, packets, "{gathered}");
            assert_eq!(stream.filled, 0);
        }
    }

    #[test]
    fn a_lost_datagram_takes_its_packet_with_it_and_no_other() {
        let (packets, wrapped) = sent();
        // Each datagram with the packet that it belongs to.
        let datagrams: Vec<(usize, &[u8])> = wrapped
            .iter()
            .enumerate()
            .flat_map(|(packet, bytes)| bytes.chunks(SEGMENT).map(move |datagram| (packet, datagram)))
            .collect();
        for lost in 0..datagrams.len() {
            let torn = datagrams[lost].0;
            let left: Vec<&[u8]> =
                datagrams.iter().enumerate().filter(|(at, _)| *at != lost).map(|(_, one)| one.1).collect();
            let mut stream = Stream { buffer: vec![0; 4 * LARGEST], filled: 0 };
            let come: Vec<Vec<u8>> =
                left.chunks(3).flat_map(|some| feed(&mut stream, &some.concat())).collect();
            let whole: Vec<&Vec<u8>> = packets.iter().filter(|packet| **packet != packets[torn]).collect();
            // Packets that came with a torn last packet may still wait for its end.
            let least = if torn + 3 > packets.len() { torn.min(whole.len()) } else { whole.len() };
            assert!(come.len() >= least && come.iter().eq(whole[..come.len()].iter().copied()), "{lost}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_dropped() {
        let mut stream = Stream { buffer: vec![0; 4 * LARGEST], filled: 0 };
        assert!(feed(&mut stream, &[0xff; 100]).is_empty());
        let mut buffer = [0; HEAD + 2 + WORD];
        buffer[HEAD..HEAD + 2].copy_from_slice(&[8, 9]);
        assert_eq!(feed(&mut stream, wrapped(&mut buffer, 2, 1)), [[8, 9]]);
    }
}
