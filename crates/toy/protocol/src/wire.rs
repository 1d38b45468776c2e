//! The wire. All numbers are big-endian.
//!
//! | message | bytes |
//! |---|---|
//! | initiation | type 1, series, 2 × 0, identity (4), initiator's index (4), timestamp (8), nonce (32), tag (32) |
//! | response | type 2, 3 × 0, initiator's index (4), responder's index (4), nonce (32), tag (32) |
//! | data | receiver's index (4), lowest 32 bits of the counter (4), ciphertext, tag (16) |
//!
//! The tag of a response covers the initiation too. On a socket that takes data, four zero bytes stand in front of a
//! control message, as in front of IKE on port 4500 (RFC 3948 §2.2): no index is 0.
//!
//! A data payload that is no IP packet is a message: [`EXIT_NOTICE`], or nothing, which is a keepalive.

use crate::keys::{PairKeys, TAG_LEN};

/// The marker in front of a control message on a socket that takes data.
pub const MARKER: [u8; 4] = [0; 4];
/// Index and counter, in front of the ciphertext of a data message.
pub const DATA_HEADER: usize = 8;
/// Length of an initiation in bytes.
pub const INITIATION_LEN: usize = 52 + TAG_LEN;
/// Length of a response in bytes.
pub const RESPONSE_LEN: usize = 44 + TAG_LEN;
/// The payload of a data message that ends all sessions of its sender with its receiver.
pub const EXIT_NOTICE: &[u8] = &[1];

const INITIATION: u8 = 1;
const RESPONSE: u8 = 2;

/// Whether a datagram has the type and length of a control message, without a marker.
pub fn is_control(datagram: &[u8]) -> bool {
    match datagram {
        [INITIATION, _, 0, 0, ..] => datagram.len() == INITIATION_LEN,
        [RESPONSE, 0, 0, 0, ..] => datagram.len() == RESPONSE_LEN,
        _ => false,
    }
}

/// The index that we choose for a session holds the number of the peer in its lowest 8 bits, by which datagrams find the worker
/// that serves the peer, and the number of the series in the next 8. It is not 0, as a marker is.
pub(crate) fn index(random: u32, series: u8, peer: u8) -> u32 {
    (random | 1 << 31) & !0xffff | u32::from(series) << 8 | u32::from(peer)
}

/// The number of the series in an index that we chose.
pub(crate) fn series_of(index: u32) -> usize {
    index as usize >> 8 & 0xff
}

/// The number of the peer in an index that we chose.
pub(crate) fn peer_of(index: u32) -> usize {
    index as usize & 0xff
}

/// A control message that has the right form, and is yet to be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    Initiation(Initiation, Sealed<'a>),
    Response(Response, Sealed<'a>),
}

/// The bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sealed<'a> {
    body: &'a [u8],
    tag: &'a [u8; TAG_LEN],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Initiation {
    pub(crate) series: u8,
    pub(crate) identity: u32,
    pub(crate) sender: u32,
    pub(crate) timestamp: u64,
    pub(crate) nonce: [u8; 32],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) receiver: u32,
    pub(crate) sender: u32,
    pub(crate) nonce: [u8; 32],
}

impl Sealed<'_> {
    /// Whether the tag is right. `before` is the initiation that a response answers; else empty.
    pub(crate) fn verifies(&self, keys: &PairKeys, before: &[u8]) -> bool {
        keys.verifies(&[before, self.body], self.tag)
    }

    /// The message with its tag.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [self.body, self.tag].concat()
    }
}

impl Initiation {
    pub(crate) fn encode(&self, keys: &PairKeys) -> Vec<u8> {
        let mut bytes = vec![INITIATION, self.series, 0, 0];
        bytes.extend(self.identity.to_be_bytes());
        bytes.extend(self.sender.to_be_bytes());
        bytes.extend(self.timestamp.to_be_bytes());
        bytes.extend(self.nonce);
        bytes.extend(keys.tag(&[&bytes]));
        bytes
    }
}

impl Response {
    /// The answer to those bytes of an initiation.
    pub(crate) fn encode(&self, keys: &PairKeys, initiation: &[u8]) -> Vec<u8> {
        let mut bytes = vec![RESPONSE, 0, 0, 0];
        bytes.extend(self.receiver.to_be_bytes());
        bytes.extend(self.sender.to_be_bytes());
        bytes.extend(self.nonce);
        bytes.extend(keys.tag(&[initiation, &bytes]));
        bytes
    }
}

/// Reads a control message, without its marker.
pub(crate) fn decode(datagram: &[u8]) -> Option<Message<'_>> {
    if !is_control(datagram) {
        return None;
    }
    let (body, tag) = datagram.split_last_chunk()?;
    let sealed = Sealed { body, tag };
    let (series, mut rest) = (*body.get(1)?, body.get(4..)?);
    let mut word = || {
        let (word, tail) = rest.split_first_chunk()?;
        rest = tail;
        Some(u32::from_be_bytes(*word))
    };
    let (first, sender) = (word()?, word()?);
    if body.first() == Some(&RESPONSE) {
        let nonce = *rest.first_chunk()?;
        return Some(Message::Response(Response { receiver: first, sender, nonce }, sealed));
    }
    let timestamp = u64::from(word()?) << 32 | u64::from(word()?);
    let nonce = *rest.first_chunk()?;
    Some(Message::Initiation(Initiation { series, identity: first, sender, timestamp, nonce }, sealed))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // By Python's `hmac` and `hashlib`, from the description above.
    const INITIATION_TAG: &str = "83b46ae5edef7427070ff8ca735e9ad961b5eac92859ef5a7d858b8747dbdd65";
    const RESPONSE_TAG: &str = "5d7a18cfb1ba73ff8809632c6f518aec3c00b320e3953f750891d649186e7e4b";
    const THERE: &str = "fdd7b0b8a336d66e67231d8449cbdacff9e79c16c902a7b8073f01d279df4d03";
    const BACK: &str = "42833adecc4cb7d823ddd894e5ad79b44052eed7238e3c8ce77e83e49aed9e75";

    fn keys() -> PairKeys {
        PairKeys::new(&[7; 32])
    }

    #[test]
    fn vectors() {
        let initiation = Initiation {
            series: 0,
            identity: 0x0102_0304,
            sender: 0xa1b2_c300,
            timestamp: 5,
            nonce: [9; 32],
        };
        let bytes = initiation.encode(&keys());
        assert_eq!(bytes.len(), INITIATION_LEN);
        assert_eq!(bytes[..20], [1, 0, 0, 0, 1, 2, 3, 4, 0xa1, 0xb2, 0xc3, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!((&bytes[20..52], hex(&bytes[52..])), (&[9; 32][..], INITIATION_TAG.to_owned()));
        let response = Response { receiver: 0xa1b2_c300, sender: 0xd4e5_f601, nonce: [8; 32] };
        let answer = response.encode(&keys(), &bytes);
        assert_eq!(answer.len(), RESPONSE_LEN);
        assert_eq!(answer[..12], [2, 0, 0, 0, 0xa1, 0xb2, 0xc3, 0, 0xd4, 0xe5, 0xf6, 1]);
        assert_eq!((&answer[12..44], hex(&answer[44..])), (&[8; 32][..], RESPONSE_TAG.to_owned()));

        let Some(Message::Initiation(read, sealed)) = decode(&bytes) else { panic!("no initiation") };
        assert!(read == initiation && sealed.verifies(&keys(), &[]));
        assert!(!sealed.verifies(&PairKeys::new(&[6; 32]), &[]), "another key");
        let other = Initiation { series: 1, ..initiation }.encode(&keys());
        let Some(Message::Initiation(read, sealed)) = decode(&other) else { panic!("no initiation") };
        assert!(read.series == 1 && sealed.verifies(&keys(), &[]));
        let Some(Message::Response(read, sealed)) = decode(&answer) else { panic!("no response") };
        assert!(read == response && sealed.verifies(&keys(), &bytes));
        assert!(!sealed.verifies(&keys(), &[]), "the answer to another initiation");
    }

    #[test]
    fn session_keys() {
        let (there, back) = keys().session(&[9; 32], &[8; 32]);
        assert_eq!((hex(there.as_slice()), hex(back.as_slice())), (THERE.to_owned(), BACK.to_owned()));
    }

    #[test]
    fn an_index_names_the_peer_and_is_no_marker() {
        assert_eq!(
            [index(0, 0, 0), index(u32::MAX, 0, 3), index(0x1234_5678, 2, 0xff)],
            [1 << 31, 0xffff_0003, 0x9234_02ff]
        );
        assert_eq!((series_of(0x9234_02ff), peer_of(0x9234_02ff)), (2, 0xff));
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    proptest! {
        /// No decoded message verifies but those that were encoded with the key, and nothing panics.
        #[test]
        fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), form in 0usize..3) {
            let form = [None, Some((INITIATION, INITIATION_LEN)), Some((RESPONSE, RESPONSE_LEN))][form];
            if let Some((kind, length)) = form {
                bytes.resize(length, 0);
                bytes[..4].copy_from_slice(&[kind, 0, 0, 0]);
            }
            let decoded = decode(&bytes);
            prop_assert!(form.is_none() || decoded.is_some());
            if let Some(Message::Initiation(_, sealed) | Message::Response(_, sealed)) = decoded {
                prop_assert!(!sealed.verifies(&keys(), &[]));
            }
        }
    }
}
