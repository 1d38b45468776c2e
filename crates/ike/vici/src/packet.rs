//! Packets: a type, a name where the type has one, and a message where it has one.

use thiserror::Error;
use zeroize::Zeroizing;

use crate::message::{Message, MessageError, TooLong};

const REQUEST: u8 = 0;
const RESPONSE: u8 = 1;
const UNKNOWN_COMMAND: u8 = 2;
const REGISTER: u8 = 3;
const UNREGISTER: u8 = 4;
const CONFIRM: u8 = 5;
const UNKNOWN_EVENT: u8 = 6;
const EVENT: u8 = 7;

/// A packet. Names have 1 to 255 printable ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A client's command.
    Request {
        /// The command, such as `list-sas`.
        name: String,
        /// Its arguments.
        message: Message,
    },
    /// The answer to a command, after its events.
    Response(Message),
    /// The answer to a command that the server does not have.
    UnknownCommand,
    /// A client wants the events of that name.
    Register(String),
    /// A client wants the events of that name no longer.
    Unregister(String),
    /// A registration, or its end, was accepted.
    Confirm,
    /// The server has no events of a registration's name, or the client had not registered for them.
    UnknownEvent,
    /// An event, for clients that registered for it.
    Event {
        /// The event, such as `list-sa`.
        name: String,
        /// Its values.
        message: Message,
    },
}

/// A fault of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PacketError {
    /// A packet of no bytes.
    #[error("a packet has no bytes; its first one is its type")]
    Empty,
    /// A type that there is not.
    #[error("{0} is no type of a packet")]
    Type(u8),
    /// No name, or not a printable one, where one must be.
    #[error(
        "the name of a packet of type {0} is missing, cut short or not 1 to 255 printable ASCII characters"
    )]
    Name(u8),
    /// More bytes than packets of that type have.
    #[error("a packet of type {0} has no message")]
    Rest(u8),
    /// Its message is wrong.
    #[error("a packet of type {kind}: {fault}")]
    Message {
        /// The packet's type.
        kind: u8,
        /// The fault.
        fault: MessageError,
    },
}

impl Packet {
    /// Reads a packet, without its length.
    ///
    /// # Errors
    /// The first fault. The connection is of no more use, as strongSwan has it.
    pub fn decode(bytes: &[u8]) -> Result<Packet, PacketError> {
        let (kind, rest) = bytes.split_first().ok_or(PacketError::Empty)?;
        let message =
            |bytes| Message::decode(bytes).map_err(|fault| PacketError::Message { kind: *kind, fault });
        let (packet, rest) = match *kind {
            REQUEST | EVENT => {
                let (name, rest) = name(rest).ok_or(PacketError::Name(*kind))?;
                let message = message(rest)?;
                let is_event = *kind == EVENT;
                (
                    if is_event {
                        Packet::Event { name, message }
                    } else {
                        Packet::Request { name, message }
                    },
                    &[][..],
                )
            }
            RESPONSE => (Packet::Response(message(rest)?), &[][..]),
            REGISTER | UNREGISTER => {
                let (name, rest) = name(rest).ok_or(PacketError::Name(*kind))?;
                let is_end = *kind == UNREGISTER;
                (if is_end { Packet::Unregister(name) } else { Packet::Register(name) }, rest)
            }
            UNKNOWN_COMMAND => (Packet::UnknownCommand, rest),
            CONFIRM => (Packet::Confirm, rest),
            UNKNOWN_EVENT => (Packet::UnknownEvent, rest),
            other => return Err(PacketError::Type(other)),
        };
        if rest.is_empty() { Ok(packet) } else { Err(PacketError::Rest(*kind)) }
    }

    /// The packet as bytes, with its length in front.
    ///
    /// # Errors
    /// A name or value has a length that no packet has.
    pub fn encode(&self) -> Result<Zeroizing<Vec<u8>>, TooLong> {
        let (kind, name, message) = match self {
            Packet::Request { name, message } => (REQUEST, Some(name), Some(message)),
            Packet::Response(message) => (RESPONSE, None, Some(message)),
            Packet::UnknownCommand => (UNKNOWN_COMMAND, None, None),
            Packet::Register(name) => (REGISTER, Some(name), None),
            Packet::Unregister(name) => (UNREGISTER, Some(name), None),
            Packet::Confirm => (CONFIRM, None, None),
            Packet::UnknownEvent => (UNKNOWN_EVENT, None, None),
            Packet::Event { name, message } => (EVENT, Some(name), Some(message)),
        };
        let message = message.map(Message::encode).transpose()?.unwrap_or_default();
        let name = name.map(|name| encoded_name(name)).transpose()?.unwrap_or_default();
        let len = 1 + name.len() + message.len();
        let mut out = Zeroizing::new(Vec::with_capacity(4 + len));
        out.extend_from_slice(&u32::try_from(len).map_err(|_| TooLong)?.to_be_bytes());
        out.push(kind);
        out.extend_from_slice(&name);
        out.extend_from_slice(&message);
        Ok(out)
    }
}

fn encoded_name(name: &str) -> Result<Vec<u8>, TooLong> {
    let len = u8::try_from(name.len()).ok().filter(|len| *len > 0).ok_or(TooLong)?;
    Ok([&[len], name.as_bytes()].concat())
}

/// A name and the bytes behind it.
fn name(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (len, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*len))?;
    let is_name = !name.is_empty() && name.iter().all(|byte| (b' '..=b'~').contains(byte));
    let name = std::str::from_utf8(name).ok().filter(|_| is_name)?;
    Some((name.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(Packet, &'static [u8])> {
        let message = Message::new().with("k", "v");
        let name = "n".to_owned();
        vec![
            (Packet::Request { name: name.clone(), message: message.clone() }, b"\0\x01n\x03\x01k\0\x01v"),
            (Packet::Response(message.clone()), b"\x01\x03\x01k\0\x01v"),
            (Packet::UnknownCommand, b"\x02"),
            (Packet::Register(name.clone()), b"\x03\x01n"),
            (Packet::Unregister(name.clone()), b"\x04\x01n"),
            (Packet::Confirm, b"\x05"),
            (Packet::UnknownEvent, b"\x06"),
            (Packet::Event { name, message }, b"\x07\x01n\x03\x01k\0\x01v"),
        ]
    }

    #[test]
    fn each_packet_as_bytes() {
        for (packet, bytes) in all() {
            let with_len = [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
            assert_eq!(*packet.encode().unwrap(), with_len, "{packet:?}");
            assert_eq!(Packet::decode(bytes).unwrap(), packet);
        }
    }

    #[test]
    fn wrong_packets() {
        for (bytes, expected) in [
            (&b""[..], "a packet has no bytes; its first one is its type"),
            (b"\x08", "8 is no type of a packet"),
            (
                b"\x00",
                "the name of a packet of type 0 is missing, cut short or not 1 to 255 printable ASCII characters",
            ),
            (
                b"\x03\x00",
                "the name of a packet of type 3 is missing, cut short or not 1 to 255 printable ASCII characters",
            ),
            (
                b"\x03\x02n",
                "the name of a packet of type 3 is missing, cut short or not 1 to 255 printable ASCII characters",
            ),
            (
                b"\x07\x01\n",
                "the name of a packet of type 7 is missing, cut short or not 1 to 255 printable ASCII characters",
            ),
            (b"\x04\x01nx", "a packet of type 4 has no message"),
            (b"\x05\x00", "a packet of type 5 has no message"),
            (b"\x01\x02", "a packet of type 1: byte 0: no section ends here"),
        ] {
            assert_eq!(Packet::decode(bytes).unwrap_err().to_string(), expected, "{bytes:?}");
        }
    }
}
