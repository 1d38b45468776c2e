//! The bytes of a connection, cut into packets.

use thiserror::Error;
use zeroize::{Zeroize as _, Zeroizing};

use crate::packet::{Packet, PacketError};

/// The longest packet in bytes, without its length: strongSwan's own limit (`vici_socket.c`).
pub const MAX_PACKET: usize = 512 << 10;

/// Bytes of the length in front of a packet.
const PREFIX: usize = 4;

/// Why a connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    /// A packet longer than any may be.
    #[error("a packet of {0} bytes was announced, more than {MAX_PACKET}")]
    Length(u32),
    /// A packet is wrong.
    #[error(transparent)]
    Packet(#[from] PacketError),
}

/// The bytes of a connection that were received and not yet read. It holds a packet and what one receive call brought at most,
/// if [`Reader::next_packet`] is called until it gives `None` after each [`Reader::push`].
#[derive(Default)]
pub struct Reader {
    bytes: Zeroizing<Vec<u8>>,
}

impl Reader {
    /// Takes received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let len = self.bytes.len() + bytes.len();
        if len > self.bytes.capacity() {
            // The old buffer is wiped, which a vector that grows would not do.
            let mut larger = Zeroizing::new(Vec::with_capacity(len.next_power_of_two()));
            larger.extend_from_slice(&self.bytes);
            self.bytes = larger;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next packet, if it is there as a whole.
    ///
    /// # Errors
    /// The connection must be closed. A length that is too large is refused before its bytes come.
    pub fn next_packet(&mut self) -> Result<Option<Packet>, StreamError> {
        let Some(prefix) = self.bytes.first_chunk::<PREFIX>() else { return Ok(None) };
        let announced = u32::from_be_bytes(*prefix);
        let len = usize::try_from(announced).ok().filter(|len| *len <= MAX_PACKET);
        let end = PREFIX + len.ok_or(StreamError::Length(announced))?;
        let Some(bytes) = self.bytes.get(PREFIX..end) else { return Ok(None) };
        let packet = Packet::decode(bytes)?;
        let len = self.bytes.len();
        self.bytes.copy_within(end.., 0);
        self.bytes.get_mut(len - end..).unwrap_or_default().zeroize();
        self.bytes.truncate(len - end);
        Ok(Some(packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    #[test]
    fn packets_in_pieces_of_any_length() {
        let packets = [
            Packet::Register("list-sa".to_owned()),
            Packet::Request { name: "list-sas".to_owned(), message: Message::new().with("noblock", "yes") },
            Packet::Confirm,
        ];
        let bytes: Vec<u8> = packets.iter().flat_map(|packet| packet.encode().unwrap().to_vec()).collect();
        for piece in 1..=bytes.len() {
            let (mut reader, mut found) = (Reader::default(), Vec::new());
            for piece in bytes.chunks(piece) {
                reader.push(piece);
                while let Some(packet) = reader.next_packet().unwrap() {
                    found.push(packet);
                }
            }
            assert_eq!(found, packets, "pieces of {piece}");
            assert!(reader.bytes.is_empty());
        }
    }

    #[test]
    fn a_length_that_is_too_large_is_refused_before_its_bytes_come() {
        let next = |len: usize| {
            let mut reader = Reader::default();
            reader.push(&(len as u32).to_be_bytes());
            reader.next_packet()
        };
        assert_eq!(next(MAX_PACKET), Ok(None));
        let error = next(MAX_PACKET + 1).unwrap_err();
        assert_eq!(error.to_string(), "a packet of 524289 bytes was announced, more than 524288");
        assert_eq!(next(0), Err(StreamError::Packet(PacketError::Empty)));
    }
}
