//! The header of a message (RFC 7296 section 3.1).

use std::fmt;

use super::reader::{DecodeError, Fault, Reader};
use super::registry::{ExchangeType, PayloadType};

/// Bytes of the header.
pub const HEADER_LEN: usize = 28;
/// Bytes of an IKE SA's SPI.
pub const SPI_LEN: usize = 8;

/// One end's number of an IKE SA. [`Spi::ZERO`] stands for the responder's in the first request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spi(pub [u8; SPI_LEN]);

impl Spi {
    /// The SPI that is not chosen yet.
    pub const ZERO: Spi = Spi([0; SPI_LEN]);
}

impl fmt::Display for Spi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// The flags of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The sender initiated the IKE SA (or its last rekey).
    pub is_initiator: bool,
    /// The sender knows a higher major version.
    pub has_higher_version: bool,
    /// The message is a response.
    pub is_response: bool,
}

impl Flags {
    const INITIATOR: u8 = 0x08;
    const VERSION: u8 = 0x10;
    const RESPONSE: u8 = 0x20;

    const fn decode(byte: u8) -> Self {
        Flags {
            is_initiator: byte & Flags::INITIATOR != 0,
            has_higher_version: byte & Flags::VERSION != 0,
            is_response: byte & Flags::RESPONSE != 0,
        }
    }

    fn encode(self) -> u8 {
        let bit = |set: bool, mask: u8| u8::from(set) * mask;
        bit(self.is_initiator, Flags::INITIATOR)
            | bit(self.has_higher_version, Flags::VERSION)
            | bit(self.is_response, Flags::RESPONSE)
    }
}

/// The header of a message, but for the kind of its first payload and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The SPI of the end that initiated the IKE SA.
    pub initiator_spi: Spi,
    /// The SPI of the other end.
    pub responder_spi: Spi,
    /// The minor version, 0 from this end. Others are ignored.
    pub minor_version: u8,
    /// The exchange that the message is part of.
    pub exchange: ExchangeType,
    /// The flags.
    pub flags: Flags,
    /// The number of the request, or of the request that is answered.
    pub message_id: u32,
}

impl Header {
    /// The header of a datagram alone.
    ///
    /// # Errors
    /// The fault in the header, with the number of the byte where it is.
    pub fn peek(datagram: &[u8]) -> Result<Self, DecodeError> {
        Header::decode(&mut Reader::new(datagram, 0)).map(|(header, _)| header)
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<(Self, PayloadType), DecodeError> {
        let whole = reader.left();
        let initiator_spi = Spi(reader.array("the initiator's SPI")?);
        let responder_spi = Spi(reader.array("the responder's SPI")?);
        let first = PayloadType(reader.u8("the kind of the first payload")?);
        let version = reader.u8("the version")?;
        match version >> 4 {
            2 => {}
            major @ 3.. => return reader.fail(Fault::MajorVersion(major)),
            major => {
                let allowed = "2";
                return reader.fail(Fault::Value {
                    what: "the major version",
                    is: u32::from(major),
                    allowed,
                });
            }
        }
        let exchange = ExchangeType(reader.u8("the kind of the exchange")?);
        let flags = Flags::decode(reader.u8("the flags")?);
        let message_id = reader.u32("the message id")?;
        let length = reader.u32("the length of the message")?;
        if usize::try_from(length) != Ok(whole) {
            let allowed = "the length of the datagram";
            return reader.fail(Fault::Value { what: "the length of the message", is: length, allowed });
        }
        let minor_version = version & 0x0f;
        Ok((Header { initiator_spi, responder_spi, minor_version, exchange, flags, message_id }, first))
    }

    /// Appends the header, with a length of 0.
    pub(crate) fn encode(&self, first: PayloadType, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.initiator_spi.0);
        out.extend_from_slice(&self.responder_spi.0);
        let version = 0x20 | (self.minor_version & 0x0f);
        out.extend_from_slice(&[first.0, version, self.exchange.0, self.flags.encode()]);
        out.extend_from_slice(&self.message_id.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
    }
}
