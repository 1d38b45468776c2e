//! A tunnel that moves packets and does nothing else: no encryption, no checksums, no cutting, no merging.
//! What adit reaches is compared with what this reaches on the same machine.
//!
//! ```text
//! nulltun DEVICE LOCAL:PORT REMOTE:PORT
//! ```
//!
//! It creates the TUN device and needs root for that; addresses are given to it from outside
//! (`ip address add ... dev DEVICE`, `ip link set DEVICE up`). It runs until it is killed.
//!
//! Each read from the device, with its header and a length in front, goes out in datagrams of [`SEGMENT`]
//! bytes by as few sends as UDP_SEGMENT allows. The other side takes what UDP_GRO gathered as a stream and
//! writes each packet whole. Nothing repairs a lost datagram: it shifts the stream, which starts anew when a
//! length makes no sense. On a link that loses nothing that does not happen.
#![forbid(unsafe_code)]

use std::io::{self, IoSlice, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::thread;

use adit_io::{Buffers, Tun, TunConfig, UdpOptions, UdpSocket};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::RecvFlags;

/// Bytes of each datagram: with IPv4 and UDP headers they fit an MTU of 1500.
const SEGMENT: usize = 1440;
/// Segments that one send takes, kept below 65,507 bytes.
const SEGMENTS: usize = 44;
/// Bytes of the length in front of each packet.
const LENGTH: usize = 4;
/// A packet of 65,535 bytes with its virtio header.
const LARGEST: usize = 65_535 + 10;
const SOCKET_BUFFER: usize = 8 << 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &arguments[..] {
        [device, local, remote] => run(device, local, remote),
        _ => Err("usage: nulltun DEVICE LOCAL:PORT REMOTE:PORT".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(io::stderr(), "nulltun: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(device: &str, local: &str, remote: &str) -> Result<(), String> {
    let address = |text: &str| {
        text.parse::<SocketAddr>().map_err(|error| format!("`{text}` is no address and port: {error}"))
    };
    let (local, remote) = (address(local)?, address(remote)?);
    let config = TunConfig { name: Some(device.to_owned()), ..TunConfig::default() };
    let tun = Tun::create(&config).map_err(|error| error.to_string())?;
    let buffers = Buffers { sndbuf: Some(SOCKET_BUFFER), rcvbuf: Some(SOCKET_BUFFER) };
    let options = UdpOptions { buffers, gso: true, gro: true };
    let socket =
        UdpSocket::bind(local, &options).map_err(|error| format!("cannot bind to {local}: {error}"))?;
    rustix::net::connect(&socket, &remote)
        .and_then(|()| let_wait(&tun))
        .and_then(|()| let_wait(&socket))
        .map_err(|error| format!("cannot set up: {error}"))?;
    let wrong = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    thread::scope(|scope| {
        let out = scope.spawn(|| from_device(&tun, &socket, remote).map_err(wrong("device to network")));
        to_device(&socket, &tun).map_err(wrong("network to device"))?;
        out.join().map_err(|_| "the other thread failed".to_owned())?
    })
}

/// Makes reads wait: with one descriptor a thread, that saves a call to `poll` each time.
fn let_wait(fd: impl rustix::fd::AsFd) -> rustix::io::Result<()> {
    fcntl_setfl(&fd, fcntl_getfl(&fd)? - OFlags::NONBLOCK)
}

fn from_device(tun: &Tun, socket: &UdpSocket, remote: SocketAddr) -> io::Result<()> {
    let mut buffer = vec![0; LENGTH + LARGEST];
    loop {
        let (length, packet) = buffer.split_at_mut(LENGTH);
        let count = tun.read(packet)?;
        length.copy_from_slice(&(count as u32).to_be_bytes());
        for train in buffer[..LENGTH + count].chunks(SEGMENTS * SEGMENT) {
            // The receiver may not be there yet.
            let _ = socket.send(train, SEGMENT, remote);
        }
    }
}

fn to_device(socket: &UdpSocket, tun: &Tun) -> io::Result<()> {
    let mut buffer = vec![0; 4 * LARGEST];
    let mut filled = 0;
    loop {
        match rustix::net::recv(socket, &mut buffer[filled..], RecvFlags::empty()) {
            Ok((count, _)) => filled += count,
            // ICMP's word on an earlier send.
            Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let mut start = 0;
        while let Some((length, rest)) = buffer[start..filled].split_first_chunk::<LENGTH>() {
            let length = u32::from_be_bytes(*length) as usize;
            if length > LARGEST {
                start = filled;
                break;
            }
            let Some(packet) = rest.get(..length) else { break };
            // A device that is not up yet refuses.
            let _ = tun.write(&[IoSlice::new(packet)]);
            start += LENGTH + length;
        }
        buffer.copy_within(start..filled, 0);
        filled -= start;
        if filled > 2 * LARGEST {
            filled = 0;
        }
    }
}
