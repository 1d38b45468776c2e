//! ESP with an AEAD (RFC 4106, RFC 7634): the nonce is the salt (4) and the initialization vector (8), which is the sequence
//! number in full. SPI and sequence number are authenticated.

use std::ops::Range;
use std::sync::Arc;

use adit_dataplane::DropReason;
use adit_dataplane::aead::{Aead, AeadError, Message, NONCE_LEN, Provider, TAG_LEN};
use adit_dataplane::codec::{Decode, Encode, Layout, Plain, Window};
use adit_ike::crypto::DirectionKeys;
use adit_ike::machine::{ChildCounters, Codec};

use crate::sequence::{Sequence, low};
use crate::{HEADER, SPI, trailer};

/// Bytes of the initialization vector.
const IV: usize = 8;
/// Bytes in front of the ciphertext.
const FRONT: usize = HEADER + IV;
/// Bytes of the salt.
const SALT: usize = NONCE_LEN - IV;
/// The ciphertext ends on a boundary of 4 bytes (RFC 4303 section 2.4).
const ALIGN: usize = 4;
/// Bytes that are authenticated with a sequence number of 64 bits.
const LONG_AAD: usize = HEADER + 4;

/// An AEAD with its salt.
struct Key {
    aead: Box<dyn Aead>,
    salt: [u8; SALT],
    sequence: Sequence,
}

impl Key {
    fn new(provider: Provider, codec: &Codec, keys: &DirectionKeys) -> Result<Self, AeadError> {
        Ok(Key {
            aead: provider(codec.cipher, &keys.encryption)?,
            salt: keys.salt.as_slice().try_into().map_err(|_| AeadError::Refused)?,
            sequence: Sequence::new(codec.has_extended_sequence_numbers),
        })
    }

    #[inline]
    fn nonce(&self, iv: [u8; IV]) -> [u8; NONCE_LEN] {
        let ([a, b, c, d], [e, f, g, h, i, j, k, l]) = (self.salt, iv);
        [a, b, c, d, e, f, g, h, i, j, k, l]
    }

    /// The AEAD, if a batch of messages can be given to it: what is authenticated then lies in the datagram.
    #[inline]
    fn batching(&self) -> Option<&dyn Aead> {
        (self.sequence == Sequence::Short && self.aead.gains_from_batches()).then_some(&*self.aead)
    }
}

/// SPI and sequence number of 64 bits, as they are authenticated (RFC 4106 section 5).
#[inline]
fn long_aad(spi: [u8; SPI], number: u64) -> [u8; LONG_AAD] {
    let ([a, b, c, d], [e, f, g, h, i, j, k, l]) = (spi, number.to_be_bytes());
    [a, b, c, d, e, f, g, h, i, j, k, l]
}

pub(crate) struct Sealer {
    key: Key,
    spi: [u8; SPI],
    counters: Arc<ChildCounters>,
}

impl Sealer {
    pub(crate) fn new(provider: Provider, codec: &Codec) -> Result<Self, AeadError> {
        let key = Key::new(provider, codec, &codec.seal)?;
        Ok(Sealer { key, spi: codec.outbound_spi.to_be_bytes(), counters: Arc::clone(&codec.counters) })
    }
}

impl Encode for Sealer {
    #[inline]
    fn layout(&self, _first: Option<u8>, payload_len: usize) -> Layout {
        Layout { payload: FRONT, datagram: FRONT + trailer::padded(payload_len, ALIGN) + TAG_LEN }
    }

    #[inline]
    fn encode(&self, counter: u64, payload: &[u8], datagram: &mut [u8], _layout: Layout) -> Option<()> {
        let (message, tag) = self.lay_out(counter, payload, datagram)?;
        let long_aad = long_aad(self.spi, counter);
        let aad = match self.key.sequence {
            Sequence::Short => message.aad,
            Sequence::Extended => &long_aad,
        };
        *tag = self.key.aead.seal(message.nonce, aad, message.text).ok()?;
        Some(())
    }

    #[inline]
    fn batching(&self) -> Option<&dyn Aead> {
        self.key.batching()
    }

    #[inline]
    fn lay_out<'d>(
        &self,
        counter: u64,
        payload: &[u8],
        datagram: &'d mut [u8],
    ) -> Option<(Message<'d>, &'d mut [u8; TAG_LEN])> {
        let iv = counter.to_be_bytes();
        let (header, rest) = datagram.split_first_chunk_mut::<HEADER>()?;
        let (iv_place, rest) = rest.split_first_chunk_mut::<IV>()?;
        let (text, tag) = rest.split_last_chunk_mut::<TAG_LEN>()?;
        header[..SPI].copy_from_slice(&self.spi);
        header[SPI..].copy_from_slice(&low(counter));
        *iv_place = iv;
        trailer::write(payload, text)?;
        self.counters.sent.count(payload.len());
        Some((Message { nonce: self.key.nonce(iv), aad: header, text, tag: [0; TAG_LEN] }, tag))
    }
}

pub(crate) struct Opener {
    key: Key,
    counters: Arc<ChildCounters>,
}

impl Opener {
    pub(crate) fn new(provider: Provider, codec: &Codec) -> Result<Self, AeadError> {
        let key = Key::new(provider, codec, &codec.open)?;
        Ok(Opener { key, counters: Arc::clone(&codec.counters) })
    }

    /// The message, and the number that was sent. `None` if the datagram is too short.
    #[inline]
    fn parts<'d>(&self, datagram: &'d mut [u8]) -> Option<(Message<'d>, u32, Range<usize>)> {
        let (header, rest) = datagram.split_first_chunk_mut::<HEADER>()?;
        let (iv, rest) = rest.split_first_chunk_mut::<IV>()?;
        let (text, tag) = rest.split_last_chunk_mut::<TAG_LEN>()?;
        let low = u32::from_be_bytes(*header.last_chunk()?);
        let range = FRONT..FRONT + text.len();
        Some((Message { nonce: self.key.nonce(*iv), aad: header, text, tag: *tag }, low, range))
    }
}

impl Decode for Opener {
    #[inline]
    fn decode(&self, datagram: &mut [u8], seen: &Window) -> Result<Plain, DropReason> {
        let (message, low, payload) = self.parts(datagram).ok_or(DropReason::Malformed)?;
        let counter = self.key.sequence.infer(low, seen)?;
        let spi = *message.aad.first_chunk().ok_or(DropReason::Malformed)?;
        let long_aad = long_aad(spi, counter);
        let aad = match self.key.sequence {
            Sequence::Short => message.aad,
            Sequence::Extended => &long_aad,
        };
        let opened = self.key.aead.open(message.nonce, aad, &message.tag, message.text);
        opened.map(|()| Plain { counter, payload }).map_err(|_| DropReason::BadTag)
    }

    #[inline]
    fn batching(&self) -> Option<&dyn Aead> {
        self.key.batching()
    }

    #[inline]
    fn take_apart<'d>(
        &self,
        datagram: &'d mut [u8],
        _seen: &Window,
    ) -> Result<(Message<'d>, Plain), DropReason> {
        let (message, low, payload) = self.parts(datagram).ok_or(DropReason::Malformed)?;
        match low {
            0 => Err(DropReason::Malformed),
            low => Ok((message, Plain { counter: low.into(), payload })),
        }
    }

    #[inline]
    fn unframe(&self, datagram: &mut [u8], payload: Range<usize>) -> Result<Range<usize>, DropReason> {
        let packet = trailer::take_off(datagram, payload)?;
        self.counters.received.count(packet.len());
        Ok(packet)
    }
}
