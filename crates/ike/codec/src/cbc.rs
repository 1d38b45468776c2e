//! ESP with AES-CBC (RFC 3602) and an HMAC, which covers all in front of it, and the upper half of a sequence number of 64 bits
//! (RFC 4303 section 2.8).

use std::ops::Range;
use std::sync::Arc;

use adit_core::Digest;
use adit_dataplane::DropReason;
use adit_dataplane::aead::AeadError;
use adit_dataplane::cbc::{BLOCK, Decryptor, Encryptor, Ivs};
use adit_dataplane::codec::{Decode, Encode, Layout, Plain, Window};
use adit_dataplane::mac::Mac;
use adit_ike::crypto::DirectionKeys;
use adit_ike::machine::{ChildCounters, Codec};
use adit_ike::suite::checksum_len;

use crate::sequence::{Sequence, high, low};
use crate::{HEADER, SPI, trailer};

/// Bytes in front of the ciphertext.
const FRONT: usize = HEADER + BLOCK;
/// The message whose HMAC under the key of the cipher is the key of the initialization vectors.
const IV_LABEL: &[u8] = b"ESP initialization vectors";

/// An HMAC, and whether it covers the upper half of a sequence number.
struct Check {
    mac: Mac,
    sequence: Sequence,
}

impl Check {
    fn new(codec: &Codec, keys: &DirectionKeys) -> Result<Self, AeadError> {
        let cipher = codec.cipher;
        let digest = codec.integrity.filter(|digest| keys.integrity.len() == digest.output_len());
        let digest = digest.ok_or(AeadError::MacKey { cipher })?;
        Ok(Check {
            mac: Mac::truncated(digest, &keys.integrity, checksum_len(digest)),
            sequence: Sequence::new(codec.has_extended_sequence_numbers),
        })
    }

    /// The bytes that the HMAC covers behind the ciphertext.
    #[inline]
    fn behind<'h>(&self, high: &'h [u8; 4]) -> &'h [u8] {
        match self.sequence {
            Sequence::Short => &[],
            Sequence::Extended => high,
        }
    }
}

pub(crate) struct Sealer {
    cipher: Encryptor,
    ivs: Ivs,
    check: Check,
    spi: [u8; SPI],
    counters: Arc<ChildCounters>,
}

impl Sealer {
    pub(crate) fn new(codec: &Codec) -> Result<Self, AeadError> {
        let mut iv_key = [0; BLOCK];
        let derivation = Mac::truncated(Digest::Sha256, &codec.seal.encryption, BLOCK);
        derivation.sign([IV_LABEL, &[]], &mut iv_key).ok_or(AeadError::Refused)?;
        Ok(Sealer {
            cipher: Encryptor::new(codec.cipher, &codec.seal.encryption)?,
            ivs: Ivs::new(&iv_key)?,
            check: Check::new(codec, &codec.seal)?,
            spi: codec.outbound_spi.to_be_bytes(),
            counters: Arc::clone(&codec.counters),
        })
    }
}

impl Encode for Sealer {
    fn layout(&self, _first: Option<u8>, payload_len: usize) -> Layout {
        let text = trailer::padded(payload_len, BLOCK);
        Layout { payload: FRONT, datagram: FRONT + text + self.check.mac.sent_len() }
    }

    fn encode(&self, counter: u64, payload: &[u8], datagram: &mut [u8], _layout: Layout) -> Option<()> {
        let end = datagram.len().checked_sub(self.check.mac.sent_len())?;
        let (covered, mac) = datagram.split_at_mut_checked(end)?;
        let (header, rest) = covered.split_first_chunk_mut::<HEADER>()?;
        let (iv, text) = rest.split_first_chunk_mut::<BLOCK>()?;
        header[..SPI].copy_from_slice(&self.spi);
        header[SPI..].copy_from_slice(&low(counter));
        *iv = self.ivs.iv(counter)?;
        trailer::write(payload, text)?;
        self.cipher.encrypt(*iv, text).ok()?;
        self.counters.sent.count(payload.len());
        self.check.mac.sign([covered, self.check.behind(&high(counter))], mac)
    }
}

pub(crate) struct Opener {
    cipher: Decryptor,
    check: Check,
    counters: Arc<ChildCounters>,
}

impl Opener {
    pub(crate) fn new(codec: &Codec) -> Result<Self, AeadError> {
        let cipher = Decryptor::new(codec.cipher, &codec.open.encryption)?;
        let (check, counters) = (Check::new(codec, &codec.open)?, Arc::clone(&codec.counters));
        Ok(Opener { cipher, check, counters })
    }
}

impl Decode for Opener {
    /// Nothing is decrypted before the HMAC was verified.
    fn decode(&self, datagram: &mut [u8], seen: &Window) -> Result<Plain, DropReason> {
        let end = datagram.len().checked_sub(self.check.mac.sent_len()).ok_or(DropReason::Malformed)?;
        let (covered, mac) = datagram.split_at_mut_checked(end).ok_or(DropReason::Malformed)?;
        let text_len = covered.len().checked_sub(FRONT).ok_or(DropReason::Malformed)?;
        if text_len == 0 || text_len % BLOCK != 0 {
            return Err(DropReason::Malformed);
        }
        let [_, _, _, _, a, b, c, d, ..] = *covered else { return Err(DropReason::Malformed) };
        let counter = self.check.sequence.infer(u32::from_be_bytes([a, b, c, d]), seen)?;
        let authentic = self.check.mac.verify([covered, self.check.behind(&high(counter))], mac);
        authentic.map_err(|_| DropReason::BadTag)?;
        let text = covered.get_mut(HEADER..).ok_or(DropReason::Malformed)?;
        let (iv, text) = text.split_first_chunk_mut::<BLOCK>().ok_or(DropReason::Malformed)?;
        self.cipher.decrypt(*iv, text).map_err(|_| DropReason::Malformed)?;
        Ok(Plain { counter, payload: FRONT..FRONT + text_len })
    }

    fn unframe(&self, datagram: &mut [u8], payload: Range<usize>) -> Result<Range<usize>, DropReason> {
        let packet = trailer::take_off(datagram, payload)?;
        self.counters.received.count(packet.len());
        Ok(packet)
    }
}
