//! The messages of the post-quantum key exchange: payloads of data messages, so that the session authenticates and
//! encrypts them (docs/build/POST-QUANTUM.md). The first four bits are neither 4 nor 6: none
//! can be taken for an IP packet.
//!
//! | message | from | bytes |
//! |---|---|---|
//! | offer | responder of the session | header 4, ML-KEM-768 encapsulation key 1184 |
//! | answer | its initiator | header 4, X25519 public key 32, ML-KEM-768 ciphertext 1088 |
//! | done | its responder | header 4, X25519 public key 32, tag 16 |
//!
//! The header is `0xad`, the version 1, the type 1 to 3, and 0. Zeros follow, as WireGuard pads payloads.

use crate::crypto::MAC_LEN;
use crate::keys::KEY_LEN;

/// Bytes of an ML-KEM-768 encapsulation key (FIPS 203, table 3).
pub const ENCAPSULATION_KEY_LEN: usize = 1184;
/// Bytes of an ML-KEM-768 ciphertext (FIPS 203, table 3).
pub const CIPHERTEXT_LEN: usize = 1088;

const HEADER_LEN: usize = 4;
/// Bytes of the longest message. Padded to 1,200, it is a datagram of 1,280 bytes over IPv6, which every link carries.
pub const LONGEST: usize = HEADER_LEN + ENCAPSULATION_KEY_LEN;
/// Most bytes of padding that follow a message.
const PADDING: usize = 16;

const MAGIC: u8 = 0xad;
const VERSION: u8 = 1;
const OFFER: u8 = 1;
const ANSWER: u8 = 2;
const DONE: u8 = 3;

/// A message, checked for its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner<'a> {
    /// The responder's encapsulation key.
    Offer {
        /// The key.
        encapsulation_key: &'a [u8; ENCAPSULATION_KEY_LEN],
    },
    /// The initiator's shares.
    Answer {
        /// Its X25519 public key.
        public: &'a [u8; KEY_LEN],
        /// The ciphertext for the offered key.
        ciphertext: &'a [u8; CIPHERTEXT_LEN],
    },
    /// The responder's other share, and the proof that it has the result.
    Done {
        /// Its X25519 public key.
        public: &'a [u8; KEY_LEN],
        /// A MAC by a key that follows from the result.
        tag: &'a [u8; MAC_LEN],
    },
}

impl<'a> Inner<'a> {
    /// Reads a payload. `None`: it is none of these messages, or of another version.
    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        let ([MAGIC, VERSION, kind, 0], body) = payload.split_first_chunk::<HEADER_LEN>()? else {
            return None;
        };
        let (message, padding) = match *kind {
            OFFER => {
                let (encapsulation_key, rest) = body.split_first_chunk()?;
                (Inner::Offer { encapsulation_key }, rest)
            }
            ANSWER => {
                let (public, rest) = body.split_first_chunk()?;
                let (ciphertext, rest) = rest.split_first_chunk()?;
                (Inner::Answer { public, ciphertext }, rest)
            }
            DONE => {
                let (public, rest) = body.split_first_chunk()?;
                let (tag, rest) = rest.split_first_chunk()?;
                (Inner::Done { public, tag }, rest)
            }
            _ => return None,
        };
        let is_padding = padding.len() < PADDING && padding.iter().all(|byte| *byte == 0);
        is_padding.then_some(message)
    }

    /// The message as a payload, without padding.
    pub fn write(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(LONGEST);
        payload.extend_from_slice(&[MAGIC, VERSION, self.kind(), 0]);
        match self {
            Inner::Offer { encapsulation_key } => payload.extend_from_slice(*encapsulation_key),
            Inner::Answer { public, ciphertext } => {
                payload.extend_from_slice(*public);
                payload.extend_from_slice(*ciphertext);
            }
            Inner::Done { public, tag } => {
                payload.extend_from_slice(*public);
                payload.extend_from_slice(*tag);
            }
        }
        payload
    }

    const fn kind(&self) -> u8 {
        match self {
            Inner::Offer { .. } => OFFER,
            Inner::Answer { .. } => ANSWER,
            Inner::Done { .. } => DONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_back_with_their_padding() {
        let offer = Inner::Offer { encapsulation_key: &[7; ENCAPSULATION_KEY_LEN] };
        let answer = Inner::Answer { public: &[1; KEY_LEN], ciphertext: &[2; CIPHERTEXT_LEN] };
        let done = Inner::Done { public: &[3; KEY_LEN], tag: &[4; MAC_LEN] };
        for (message, len) in [(offer, 1188), (answer, 1124), (done, 52)] {
            let mut payload = message.write();
            assert_eq!(payload.len(), len);
            assert_ne!(payload[0] >> 4, 4);
            assert_ne!(payload[0] >> 4, 6);
            for padding in 0..PADDING {
                assert_eq!(Inner::parse(&payload), Some(message), "{padding} bytes of padding");
                payload.push(0);
            }
            assert_eq!(Inner::parse(&payload), None, "too much padding");
        }
        assert_eq!(LONGEST.next_multiple_of(16) + 32 + 8 + 40, 1280, "the least MTU of IPv6");
    }

    #[test]
    fn other_payloads_are_none() {
        let good = Inner::Done { public: &[3; KEY_LEN], tag: &[4; MAC_LEN] }.write();
        for (at, value) in [(0, 0x45), (0, 0x60), (1, 2), (2, 0), (2, 1), (2, 4), (3, 1)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(Inner::parse(&bad), None, "byte {at} is {value}");
        }
        assert_eq!(Inner::parse(&[&good[..], &[1]].concat()), None, "padding that is not zero");
        for len in 0..good.len() {
            assert_eq!(Inner::parse(&good[..len]), None, "{len} bytes");
        }
    }
}
