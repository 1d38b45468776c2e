//! VICI (Versatile IKE Control Interface), the interface of strongSwan's daemon that `swanctl` and the `vici` libraries of Python and
//! Go speak over a stream socket: packets, each a length of 4 bytes, a type and, by the type, a name and a [`Message`].
//! Source: strongSwan, `src/libcharon/plugins/vici/README.md`.
//!
//! Messages bring keys and secrets (`load-key`, `load-shared`): values are zeroized, and are not in the output of `Debug`.
//!
//! This crate does no I/O, reads no clock and draws no random numbers.
#![forbid(unsafe_code)]

mod message;
mod packet;
mod stream;

pub use self::message::{MAX_DEPTH, Message, MessageError, TooLong, Value};
pub use self::packet::{Packet, PacketError};
pub use self::stream::{MAX_PACKET, Reader, StreamError};
