use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;

use adit_sys::Message;
use adit_system::SocketRouting;
use socket2::{Domain, Protocol, Socket, Type};

use super::{RECEIVE_SLOT, UdpOptions, UdpSocket, wait_readable};
use crate::config::Buffers;

/// The UDP offloads that this kernel gets right, and the faults of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UdpOffloads {
    /// UDP_SEGMENT.
    pub(crate) gso: Result<(), String>,
    /// UDP_GRO.
    pub(crate) gro: Result<(), String>,
}

/// Tries both on the loopback device: GSO batches with and without a short tail must arrive byte for byte.
/// Where the loopback device is down, the kernel is asked whether it knows the options, and believed.
pub(crate) fn self_test() -> UdpOffloads {
    match try_offloads() {
        Ok(offloads) => offloads,
        Err(_) => UdpOffloads { gso: knows(libc::UDP_SEGMENT), gro: knows(libc::UDP_GRO) },
    }
}

fn knows(option: libc::c_int) -> Result<(), String> {
    Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))
        .and_then(|socket| adit_sys::set_option(socket.as_fd(), libc::SOL_UDP, option, 1))
        .map_err(|error| format!("the kernel does not know it: {error}"))
}

fn try_offloads() -> io::Result<UdpOffloads> {
    let mut offloads = UdpOffloads { gso: Ok(()), gro: knows(libc::UDP_GRO) };
    let options = UdpOptions {
        buffers: Buffers::default(),
        gso: false,
        gro: offloads.gro.is_ok(),
        routing: SocketRouting::default(),
    };
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let receiver = UdpSocket::bind(loopback, &options)?;
    let sender = UdpSocket::bind(loopback, &options)?;
    let to = receiver.local_address()?;
    // Without this the loopback device may be down, which says nothing about offloads.
    sender.send_one(None, &Message { bytes: &[0], to, ..Message::NONE })?;
    let mut buffer = vec![0; RECEIVE_SLOT];
    wait_readable(&receiver)?;
    receiver.receive_one(&mut buffer)?;

    for length in [1500, 1401, 1502] {
        let sent: Vec<u8> = (0..length).map(|index: u32| index.wrapping_mul(31).to_le_bytes()[0]).collect();
        if let Err(error) =
            sender.send_one(None, &Message { bytes: &sent, to, segment: Some(300), ..Message::NONE })
        {
            offloads.gso = Err(format!("a GSO batch to the loopback device was refused: {error}"));
            break;
        }
        let mut arrived = Vec::new();
        while arrived.len() < sent.len() && wait_readable(&receiver)? {
            let received = receiver.receive_one(&mut buffer)?;
            // Either one datagram, or several of the size that was asked for.
            if received.segment != 300 && received.segment != received.len {
                let size = received.segment;
                offloads.gro = Err(format!("datagrams of 300 bytes were joined as if they had {size}"));
            }
            arrived.extend_from_slice(&buffer[..received.len]);
        }
        if arrived != sent {
            offloads.gso = Err("a GSO batch to the loopback device arrived damaged".to_owned());
        }
    }
    Ok(offloads)
}
