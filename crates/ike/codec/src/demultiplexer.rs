//! The sockets of IKEv2: port 500, port 4500, and ESP in IP.

use adit_core::SessionId;
use adit_dataplane::codec::{Class, Demultiplexer};

/// In front of IKE messages at port 4500 (RFC 3948 section 2.2).
const MARKER: [u8; 4] = [0; 4];
/// A datagram that keeps a NAT's mapping (RFC 3948 section 2.3).
const NAT_KEEPALIVE: &[u8] = &[0xff];
/// SPIs up to this one are reserved (RFC 4303 section 2.1).
const LAST_RESERVED_SPI: u32 = 255;
/// Bytes of an IKE header (RFC 7296 section 3.1).
const IKE_HEADER: usize = 28;

/// For port 500: IKE messages alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct IkeSocket;

impl Demultiplexer for IkeSocket {
    fn classify(&self, datagram: &[u8]) -> Class {
        if datagram.len() < IKE_HEADER { Class::Malformed } else { Class::Control }
    }
}

/// For port 4500: ESP, IKE messages behind a marker, and datagrams that keep a NAT's mapping, which are ignored.
#[derive(Clone, Copy, Debug, Default)]
pub struct NatTraversalSocket;

impl Demultiplexer for NatTraversalSocket {
    #[inline]
    fn classify(&self, datagram: &[u8]) -> Class {
        match datagram.split_first_chunk() {
            Some((&MARKER, message)) => IkeSocket.classify(message),
            None if datagram == NAT_KEEPALIVE => Class::Ignored,
            _ => EspSocket.classify(datagram),
        }
    }
}

/// For ESP in IP. The id of a session is the SPI that we chose for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct EspSocket;

impl Demultiplexer for EspSocket {
    #[inline]
    fn classify(&self, datagram: &[u8]) -> Class {
        match datagram.first_chunk().map(|spi| u32::from_be_bytes(*spi)) {
            Some(spi) if spi > LAST_RESERVED_SPI => Class::Session(SessionId(spi.into())),
            _ => Class::Malformed,
        }
    }
}
