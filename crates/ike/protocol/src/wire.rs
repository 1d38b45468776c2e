//! IKE messages: decoded into values, encoded from values (RFC 7296 section 3). Integers are big-endian.
//!
//! [`Message::decode`] reads a datagram, without the marker that precedes IKE messages on port 4500 (RFC 3948 section 2.2).
//! Payloads that stand in the clear are decoded; the encrypted payload ([`Sealed`]) stays as it is until
//! its protection was checked. [`decode_chain`] decodes what was in it.
//!
//! All counts are limited ([`MAX_PAYLOADS`], [`MAX_PROPOSALS`], [`MAX_TRANSFORMS`], [`MAX_ATTRIBUTES`]). Reserved bits and
//! bytes are ignored, as RFC 7296 section 2.5 demands, and encoded as zero. Payloads of unknown kinds are kept as bytes
//! if they are not critical.

mod header;
mod payload;
mod proposal;
mod reader;
mod registry;
mod selector;
#[cfg(test)]
mod tests;

pub use header::{Flags, HEADER_LEN, Header, SPI_LEN, Spi};
pub use payload::{
    Authentication, Certificate, Configuration, ConfigurationAttribute, Delete, Eap, Identification,
    KeyExchange, Notify, Payload,
};
pub use proposal::{Attribute, AttributeValue, KEY_LENGTH, Proposal, Transform};
pub use reader::{DecodeError, Fault};
pub use registry::{
    AuthMethod, CertificateEncoding, ConfigurationAttributeType, ConfigurationType, EapCode, ExchangeType,
    IdType, NotifyType, PayloadType, ProtocolId, TransformType,
};
pub use selector::{AddressRange, TrafficSelector};

use reader::Reader;

/// Most payloads of a message.
pub const MAX_PAYLOADS: usize = 64;
/// Most proposals of an SA payload.
pub const MAX_PROPOSALS: usize = 64;
/// Most transforms of a proposal.
pub const MAX_TRANSFORMS: usize = 128;
/// Most attributes of a transform, and of a configuration payload.
pub const MAX_ATTRIBUTES: usize = 64;
/// Bytes of a payload's generic header.
pub const PAYLOAD_HEADER_LEN: usize = 4;

/// A message as it is on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The header.
    pub header: Header,
    /// The payloads that stand in the clear.
    pub payloads: Vec<Payload>,
    /// The encrypted payload, which is the last one.
    pub sealed: Option<Sealed<'a>>,
}

/// An encrypted payload, SK or SKF (RFC 7296 section 3.14, RFC 7383 section 2.5), whose protection was not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed<'a> {
    /// The kind of the first payload in it. Fragments but the first have [`PayloadType::NONE`].
    pub first: PayloadType,
    /// The place of the fragment (SKF). `None`: the message is whole (SK).
    pub fragment: Option<FragmentNumber>,
    /// The initialization vector, the ciphertext and the checksum.
    pub body: &'a [u8],
}

/// The place of a fragment in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentNumber {
    /// From 1 to `total`.
    pub number: u16,
    /// The number of fragments of the message.
    pub total: u16,
}

impl<'a> Message<'a> {
    /// Decodes a datagram.
    ///
    /// # Errors
    /// The fault in the datagram, with the number of the byte where it is.
    pub fn decode(datagram: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(datagram, 0);
        let (header, first) = Header::decode(&mut reader)?;
        let mut chain = Chain::new(first);
        let mut payloads = Vec::new();
        while let Some(raw) = chain.next(&mut reader)? {
            match raw.kind {
                PayloadType::ENCRYPTED | PayloadType::ENCRYPTED_FRAGMENT => {
                    let sealed = Sealed::decode(&raw, chain.next_kind)?;
                    reader.end("the encrypted payload")?;
                    return Ok(Message { header, payloads, sealed: Some(sealed) });
                }
                _ => payloads.push(raw.decode()?),
            }
        }
        reader.end("the last payload")?;
        Ok(Message { header, payloads, sealed: None })
    }

    /// Encodes the message. Counts and lengths that the format has no room for are cut off; those of messages that were
    /// decoded have room.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let sealed_kind = self.sealed.map_or(PayloadType::NONE, |sealed| sealed.kind());
        let first = self.payloads.first().map_or(sealed_kind, Payload::kind);
        self.header.encode(first, &mut out);
        encode_payloads(&self.payloads, sealed_kind, &mut out);
        if let Some(sealed) = &self.sealed {
            sealed.encode(&mut out);
        }
        set_message_length(&mut out);
        out
    }
}

impl<'a> Sealed<'a> {
    /// SK or SKF.
    pub const fn kind(&self) -> PayloadType {
        match self.fragment {
            None => PayloadType::ENCRYPTED,
            Some(_) => PayloadType::ENCRYPTED_FRAGMENT,
        }
    }

    fn decode(raw: &RawPayload<'a>, first: PayloadType) -> Result<Self, DecodeError> {
        let mut body = Reader::new(raw.body, raw.at);
        let fragment = match raw.kind {
            PayloadType::ENCRYPTED => None,
            _ => Some(FragmentNumber::decode(&mut body)?),
        };
        Ok(Sealed { first, fragment, body: body.rest() })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let start = begin_sealed(self.first, self.fragment, out);
        out.extend_from_slice(self.body);
        set_payload_length(out, start);
    }
}

impl FragmentNumber {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.at();
        let (number, total) = (reader.u16("a fragment's number")?, reader.u16("the number of fragments")?);
        if number == 0 || number > total {
            let allowed = "1 to the number of fragments";
            let fault = Fault::Value { what: "a fragment's number", is: u32::from(number), allowed };
            return Err(DecodeError { at, fault });
        }
        Ok(FragmentNumber { number, total })
    }
}

/// Appends the header of an encrypted payload, with the numbers of a fragment. Gives where it begins, for
/// [`set_payload_length`].
pub(crate) fn begin_sealed(first: PayloadType, fragment: Option<FragmentNumber>, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[first.0, 0, 0, 0]);
    if let Some(FragmentNumber { number, total }) = fragment {
        out.extend_from_slice(&number.to_be_bytes());
        out.extend_from_slice(&total.to_be_bytes());
    }
    start
}

/// Decodes the payloads that were in an encrypted payload. The first one is of kind `first`.
///
/// # Errors
/// The fault in `bytes`, with the number of the byte where it is. An encrypted payload in `bytes` is a fault.
pub fn decode_chain(first: PayloadType, bytes: &[u8]) -> Result<Vec<Payload>, DecodeError> {
    let mut reader = Reader::new(bytes, 0);
    let mut chain = Chain::new(first);
    let mut payloads = Vec::new();
    while let Some(raw) = chain.next(&mut reader)? {
        if matches!(raw.kind, PayloadType::ENCRYPTED | PayloadType::ENCRYPTED_FRAGMENT) {
            return Err(DecodeError { at: raw.at, fault: Fault::Misplaced(raw.kind) });
        }
        payloads.push(raw.decode()?);
    }
    reader.end("the last payload")?;
    Ok(payloads)
}

/// Encodes payloads as they stand in an encrypted payload. Gives the kind of the first one.
pub fn encode_chain(payloads: &[Payload], out: &mut Vec<u8>) -> PayloadType {
    encode_payloads(payloads, PayloadType::NONE, out);
    payloads.first().map_or(PayloadType::NONE, Payload::kind)
}

fn encode_payloads(payloads: &[Payload], after: PayloadType, out: &mut Vec<u8>) {
    for (index, payload) in payloads.iter().enumerate() {
        let next = payloads.get(index + 1).map_or(after, Payload::kind);
        let start = out.len();
        out.extend_from_slice(&[next.0, 0, 0, 0]);
        payload.encode(out);
        set_payload_length(out, start);
    }
}

/// Writes the length of the payload (or the substructure) that begins at `start` into its third and fourth byte. One that is
/// longer than 65535 bytes cannot be encoded: it is cut off there.
pub(crate) fn set_payload_length(out: &mut Vec<u8>, start: usize) {
    out.truncate(start + usize::from(u16::MAX));
    let length = (out.len() - start) as u16;
    if let Some(place) = out.get_mut(start + 2..start + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

/// Writes the length of the message into its header.
pub(crate) fn set_message_length(out: &mut [u8]) {
    let length = u32::try_from(out.len()).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(HEADER_LEN - 4..HEADER_LEN) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

/// A payload whose body was not decoded.
struct RawPayload<'a> {
    kind: PayloadType,
    is_critical: bool,
    /// Number of the first byte of the body.
    at: usize,
    body: &'a [u8],
}

impl RawPayload<'_> {
    fn decode(&self) -> Result<Payload, DecodeError> {
        let payload = Payload::decode(self.kind, self.is_critical, self.body);
        payload.map_err(|DecodeError { at, fault }| DecodeError { at: self.at + at, fault })
    }
}

/// The chain of generic payload headers (RFC 7296 section 3.2).
struct Chain {
    next_kind: PayloadType,
    count: usize,
}

impl Chain {
    const fn new(first: PayloadType) -> Self {
        Chain { next_kind: first, count: 0 }
    }

    fn next<'a>(&mut self, reader: &mut Reader<'a>) -> Result<Option<RawPayload<'a>>, DecodeError> {
        let kind = self.next_kind;
        if kind == PayloadType::NONE {
            return Ok(None);
        }
        if self.count == MAX_PAYLOADS {
            return reader.fail(Fault::TooMany { what: "payloads", limit: MAX_PAYLOADS });
        }
        self.count += 1;
        self.next_kind = PayloadType(reader.u8("the kind of the next payload")?);
        let is_critical = reader.u8("the critical bit")? & 0x80 != 0;
        let length = reader.u16("the length of a payload")?;
        let mut body = reader.structure("a payload", length, PAYLOAD_HEADER_LEN)?;
        Ok(Some(RawPayload { kind, is_critical, at: body.at(), body: body.rest() }))
    }
}
