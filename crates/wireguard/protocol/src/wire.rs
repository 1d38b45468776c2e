//! The messages on the wire (whitepaper §5.4.2 to §5.4.7). Integers are little-endian.
//!
//! | type | bytes | fields |
//! |---|---|---|
//! | 1 initiation | 148 | sender 4, ephemeral 32, static 48, timestamp 28, mac1 16, mac2 16 |
//! | 2 response | 92 | sender 4, receiver 4, ephemeral 32, empty 16, mac1 16, mac2 16 |
//! | 3 cookie reply | 64 | receiver 4, nonce 24, cookie 32 |
//! | 4 data | 32 + n | receiver 4, counter 8, ciphertext n, tag 16 |
//!
//! A type is one byte and three zeros. A view ([`Initiation`], [`Response`], [`CookieReply`], [`Data`]) stands for a
//! datagram of the right type and length; nothing else of it was checked.

use adit_core::Rejected;

use crate::crypto::{MAC_LEN, TAG_LEN, XNONCE_LEN};
use crate::keys::KEY_LEN;

/// Length of an initiation.
pub const INITIATION_LEN: usize = 148;
/// Length of a response.
pub const RESPONSE_LEN: usize = 92;
/// Length of a cookie reply.
pub const COOKIE_REPLY_LEN: usize = 64;
/// Length of the fields before the ciphertext of a data message.
pub const DATA_HEADER_LEN: usize = 16;
/// Length of the shortest data message: a keepalive.
pub const KEEPALIVE_LEN: usize = DATA_HEADER_LEN + TAG_LEN;

/// Length of a sealed public key.
pub(crate) const STATIC_LEN: usize = KEY_LEN + TAG_LEN;
/// Length of a sealed timestamp.
pub(crate) const TIMESTAMP_LEN: usize = 12 + TAG_LEN;

const INITIATION: u8 = 1;
const RESPONSE: u8 = 2;
const COOKIE_REPLY: u8 = 3;
const DATA: u8 = 4;

/// A datagram that may be WireGuard's.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// Type 1.
    Initiation(Initiation<'a>),
    /// Type 2.
    Response(Response<'a>),
    /// Type 3.
    CookieReply(CookieReply<'a>),
    /// Type 4.
    Data(Data<'a>),
}

impl<'a> Message<'a> {
    /// Reads the type and checks the length.
    ///
    /// # Errors
    /// [`Rejected::Malformed`]: no such type, or not the length that the type has.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, Rejected> {
        let Some(([kind, 0, 0, 0], _)) = datagram.split_first_chunk::<4>() else {
            return Err(Rejected::Malformed("no type of message"));
        };
        let wrong_length = Rejected::Malformed("not the length of its type");
        let message = match *kind {
            INITIATION => datagram.try_into().map(|bytes| Message::Initiation(Initiation(bytes))).ok(),
            RESPONSE => datagram.try_into().map(|bytes| Message::Response(Response(bytes))).ok(),
            COOKIE_REPLY => datagram.try_into().map(|bytes| Message::CookieReply(CookieReply(bytes))).ok(),
            DATA => (datagram.len() >= KEEPALIVE_LEN).then_some(Message::Data(Data(datagram))),
            _ => return Err(Rejected::Malformed("no such type of message")),
        };
        message.ok_or(wrong_length)
    }
}

/// `N` bytes from `at` on. The callers' offsets are constants within the message.
fn field<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
    match bytes.get(at..).and_then(<[u8]>::first_chunk) {
        Some(field) => field,
        None => unreachable!("a field beyond the message"),
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*field(bytes, at))
}

/// A message with mac1 and mac2 at its end.
pub(crate) trait WithMacs {
    /// All its bytes.
    fn bytes(&self) -> &[u8];

    /// The index that a reply names.
    fn sender(&self) -> u32 {
        number(self.bytes(), 4)
    }

    /// The bytes that mac1 authenticates.
    fn before_mac1(&self) -> &[u8] {
        let bytes = self.bytes();
        &bytes[..bytes.len() - 2 * MAC_LEN]
    }

    fn mac1(&self) -> &[u8; MAC_LEN] {
        field(self.bytes(), self.bytes().len() - 2 * MAC_LEN)
    }

    /// The bytes that mac2 authenticates.
    fn before_mac2(&self) -> &[u8] {
        let bytes = self.bytes();
        &bytes[..bytes.len() - MAC_LEN]
    }

    fn mac2(&self) -> &[u8; MAC_LEN] {
        field(self.bytes(), self.bytes().len() - MAC_LEN)
    }

    /// Whether there is a mac2: a sender without a cookie leaves it 0 (whitepaper §5.4.4).
    fn has_mac2(&self) -> bool {
        *self.mac2() != [0; MAC_LEN]
    }
}

/// A handshake's first message.
#[derive(Clone, Copy, Debug)]
pub struct Initiation<'a>(&'a [u8; INITIATION_LEN]);

impl<'a> Initiation<'a> {
    /// The index by which the sender knows this handshake.
    pub fn sender(&self) -> u32 {
        number(self.0, 4)
    }

    /// The sender's ephemeral public key.
    pub fn ephemeral(&self) -> &'a [u8; KEY_LEN] {
        field(self.0, 8)
    }

    pub(crate) fn sealed_static(&self) -> &'a [u8; STATIC_LEN] {
        field(self.0, 40)
    }

    pub(crate) fn sealed_timestamp(&self) -> &'a [u8; TIMESTAMP_LEN] {
        field(self.0, 88)
    }

    /// The message without its macs, which are zero.
    pub(crate) fn write(
        sender: u32,
        ephemeral: &[u8; KEY_LEN],
        sealed_static: &[u8; STATIC_LEN],
        sealed_timestamp: &[u8; TIMESTAMP_LEN],
    ) -> [u8; INITIATION_LEN] {
        let mut out = [0; INITIATION_LEN];
        out[0] = INITIATION;
        out[4..8].copy_from_slice(&sender.to_le_bytes());
        out[8..40].copy_from_slice(ephemeral);
        out[40..88].copy_from_slice(sealed_static);
        out[88..116].copy_from_slice(sealed_timestamp);
        out
    }
}

impl WithMacs for Initiation<'_> {
    fn bytes(&self) -> &[u8] {
        self.0
    }
}

/// A handshake's second message.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a>(&'a [u8; RESPONSE_LEN]);

impl<'a> Response<'a> {
    /// The index by which the sender knows the session.
    pub fn sender(&self) -> u32 {
        number(self.0, 4)
    }

    /// The index of the initiation that it answers.
    pub fn receiver(&self) -> u32 {
        number(self.0, 8)
    }

    /// The sender's ephemeral public key.
    pub fn ephemeral(&self) -> &'a [u8; KEY_LEN] {
        field(self.0, 12)
    }

    pub(crate) fn sealed_empty(&self) -> &'a [u8; TAG_LEN] {
        field(self.0, 44)
    }

    /// The message without its macs, which are zero.
    pub(crate) fn write(
        sender: u32,
        receiver: u32,
        ephemeral: &[u8; KEY_LEN],
        sealed_empty: &[u8; TAG_LEN],
    ) -> [u8; RESPONSE_LEN] {
        let mut out = [0; RESPONSE_LEN];
        out[0] = RESPONSE;
        out[4..8].copy_from_slice(&sender.to_le_bytes());
        out[8..12].copy_from_slice(&receiver.to_le_bytes());
        out[12..44].copy_from_slice(ephemeral);
        out[44..60].copy_from_slice(sealed_empty);
        out
    }
}

impl WithMacs for Response<'_> {
    fn bytes(&self) -> &[u8] {
        self.0
    }
}

/// The answer of a responder under load: prove your address first.
#[derive(Clone, Copy, Debug)]
pub struct CookieReply<'a>(&'a [u8; COOKIE_REPLY_LEN]);

impl<'a> CookieReply<'a> {
    /// The sender's index in the message that it answers.
    pub fn receiver(&self) -> u32 {
        number(self.0, 4)
    }

    pub(crate) fn nonce(&self) -> &'a [u8; XNONCE_LEN] {
        field(self.0, 8)
    }

    pub(crate) fn sealed_cookie(&self) -> &'a [u8; MAC_LEN + TAG_LEN] {
        field(self.0, 32)
    }

    pub(crate) fn write(
        receiver: u32,
        nonce: &[u8; XNONCE_LEN],
        sealed_cookie: &[u8; MAC_LEN + TAG_LEN],
    ) -> [u8; COOKIE_REPLY_LEN] {
        let mut out = [0; COOKIE_REPLY_LEN];
        out[0] = COOKIE_REPLY;
        out[4..8].copy_from_slice(&receiver.to_le_bytes());
        out[8..32].copy_from_slice(nonce);
        out[32..].copy_from_slice(sealed_cookie);
        out
    }
}

/// A data message. The data plane opens it; a machine never sees one.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a>(&'a [u8]);

impl<'a> Data<'a> {
    /// The index of the session, as the receiver chose it.
    pub fn receiver(&self) -> u32 {
        number(self.0, 4)
    }

    /// The counter, which is the nonce.
    pub fn counter(&self) -> u64 {
        u64::from_le_bytes(*field(self.0, 8))
    }

    /// Ciphertext and tag.
    pub fn sealed(&self) -> &'a [u8] {
        &self.0[DATA_HEADER_LEN..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_its_length() {
        for (kind, length) in [(1, INITIATION_LEN), (2, RESPONSE_LEN), (3, COOKIE_REPLY_LEN)] {
            let mut datagram = vec![0; length + 1];
            datagram[0] = kind;
            assert!(Message::parse(&datagram).is_err(), "{kind}: a byte too long");
            assert!(Message::parse(&datagram[..length]).is_ok(), "{kind}");
            assert!(Message::parse(&datagram[..length - 1]).is_err(), "{kind}: a byte short");
            datagram[2] = 1;
            assert!(Message::parse(&datagram[..length]).is_err(), "{kind}: a reserved byte");
        }
        let data = [&[4, 0, 0, 0][..], &[9; 29]].concat();
        assert!(Message::parse(&data).is_ok() && Message::parse(&data[..KEEPALIVE_LEN]).is_ok());
        assert!(Message::parse(&data[..KEEPALIVE_LEN - 1]).is_err());
        for wrong in [&[][..], &[1, 0, 0], &[0; 148], &[5; 148]] {
            assert!(Message::parse(wrong).is_err());
        }
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let bytes = Initiation::write(0x0102_0304, &[5; 32], &[6; 48], &[7; 28]);
        let Ok(Message::Initiation(message)) = Message::parse(&bytes) else { panic!("an initiation") };
        assert_eq!(bytes[..8], [1, 0, 0, 0, 4, 3, 2, 1]);
        assert_eq!((Initiation::sender(&message), message.ephemeral()), (0x0102_0304, &[5; 32]));
        assert_eq!((message.sealed_static(), message.sealed_timestamp()), (&[6; 48], &[7; 28]));
        assert_eq!((message.before_mac1().len(), message.before_mac2().len()), (116, 132));

        let bytes = Response::write(1, 2, &[3; 32], &[4; 16]);
        let Ok(Message::Response(message)) = Message::parse(&bytes) else { panic!("a response") };
        assert_eq!((Response::sender(&message), message.receiver()), (1, 2));
        assert_eq!((message.ephemeral(), message.sealed_empty()), (&[3; 32], &[4; 16]));
        assert_eq!((message.before_mac1().len(), message.mac1(), message.mac2()), (60, &[0; 16], &[0; 16]));

        let bytes = CookieReply::write(1, &[2; 24], &[3; 32]);
        let Ok(Message::CookieReply(message)) = Message::parse(&bytes) else { panic!("a cookie reply") };
        assert_eq!((message.receiver(), message.nonce(), message.sealed_cookie()), (1, &[2; 24], &[3; 32]));

        let bytes = [&[4, 0, 0, 0, 9, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0][..], &[1; 16]].concat();
        let Ok(Message::Data(message)) = Message::parse(&bytes) else { panic!("data") };
        assert_eq!((message.receiver(), message.counter(), message.sealed()), (9, 7, &[1; 16][..]));
    }
}
