//! Proposals and their transforms (RFC 7296 section 3.3).

use super::reader::{DecodeError, Fault, Reader};
use super::registry::{ProtocolId, TransformType};
use super::{MAX_ATTRIBUTES, MAX_PROPOSALS, MAX_TRANSFORMS, set_payload_length};

/// The attribute of a transform that holds the length of its key in bits.
pub const KEY_LENGTH: u16 = 14;
/// The longest SPI of a proposal: that of an IKE SA.
const MAX_SPI: usize = 8;
const MORE_PROPOSALS: u8 = 2;
const MORE_TRANSFORMS: u8 = 3;
/// The bit of an attribute's type that says that the value has two bytes.
const SHORT_FORM: u16 = 0x8000;

/// A proposal: algorithms of one protocol, of which one of each kind is to be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Its number: 1 for the first; that of the chosen one in a response.
    pub number: u8,
    /// The protocol.
    pub protocol: ProtocolId,
    /// The SPI of the sender's end; empty in the first exchange of an IKE SA. At most 8 bytes.
    pub spi: Vec<u8>,
    /// The algorithms.
    pub transforms: Vec<Transform>,
}

/// An algorithm in a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transform {
    /// Its kind.
    pub kind: TransformType,
    /// Its number within the kind.
    pub id: u16,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
}

/// An attribute of a transform (RFC 7296 section 3.3.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its kind, below 2^15.
    pub kind: u16,
    /// Its value.
    pub value: AttributeValue,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// Two bytes.
    Short(u16),
    /// Any bytes.
    Long(Vec<u8>),
}

impl Transform {
    /// A transform without attributes, or with the length of its key in bits.
    pub fn new(kind: TransformType, id: u16, key_bits: Option<u16>) -> Self {
        let attribute = |bits| Attribute { kind: KEY_LENGTH, value: AttributeValue::Short(bits) };
        Transform { kind, id, attributes: key_bits.map(attribute).into_iter().collect() }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = TransformType(reader.u8("the kind of a transform")?);
        reader.u8("a reserved byte")?;
        let id = reader.u16("the number of a transform")?;
        let mut attributes = Vec::new();
        while !reader.is_empty() {
            if attributes.len() == MAX_ATTRIBUTES {
                return reader
                    .fail(Fault::TooMany { what: "attributes of a transform", limit: MAX_ATTRIBUTES });
            }
            attributes.push(Attribute::decode(reader)?);
        }
        Ok(Transform { kind, id, attributes })
    }

    fn encode(&self, is_last: bool, out: &mut Vec<u8>) {
        let start = out.len();
        let more = if is_last { 0 } else { MORE_TRANSFORMS };
        out.extend_from_slice(&[more, 0, 0, 0, self.kind.0, 0]);
        out.extend_from_slice(&self.id.to_be_bytes());
        self.attributes.iter().for_each(|attribute| attribute.encode(out));
        set_payload_length(out, start);
    }
}

impl Attribute {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = reader.u16("the kind of an attribute")?;
        let value = reader.u16("the length or the value of an attribute")?;
        if kind & SHORT_FORM != 0 {
            return Ok(Attribute { kind: kind & !SHORT_FORM, value: AttributeValue::Short(value) });
        }
        let bytes = reader.take("the value of an attribute", usize::from(value))?;
        Ok(Attribute { kind, value: AttributeValue::Long(bytes.to_vec()) })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match &self.value {
            AttributeValue::Short(value) => {
                out.extend_from_slice(&(self.kind | SHORT_FORM).to_be_bytes());
                out.extend_from_slice(&value.to_be_bytes());
            }
            AttributeValue::Long(bytes) => {
                out.extend_from_slice(&(self.kind & !SHORT_FORM).to_be_bytes());
                let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
                out.extend_from_slice(&length.to_be_bytes());
                out.extend(bytes.iter().take(usize::from(length)));
            }
        }
    }
}

impl Proposal {
    /// The proposals of an SA payload: at least one.
    pub(super) fn decode_all(reader: &mut Reader<'_>) -> Result<Vec<Self>, DecodeError> {
        let mut proposals = Vec::new();
        loop {
            if proposals.len() == MAX_PROPOSALS {
                return reader.fail(Fault::TooMany { what: "proposals", limit: MAX_PROPOSALS });
            }
            let more = more(reader, "the mark of a further proposal", MORE_PROPOSALS, "0 or 2")?;
            reader.u8("a reserved byte")?;
            let length = reader.u16("the length of a proposal")?;
            let mut body = reader.structure("a proposal", length, 4)?;
            proposals.push(Proposal::decode(&mut body)?);
            if !more {
                return Ok(proposals);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = reader.u8("the number of a proposal")?;
        let protocol = ProtocolId(reader.u8("the protocol of a proposal")?);
        let spi_size = reader.u8("the length of an SPI")?;
        let count = usize::from(reader.u8("the number of transforms")?);
        if usize::from(spi_size) > MAX_SPI {
            let allowed = "0 to 8";
            return reader.fail(Fault::Value {
                what: "the length of an SPI",
                is: u32::from(spi_size),
                allowed,
            });
        }
        if count > MAX_TRANSFORMS {
            return reader.fail(Fault::TooMany { what: "transforms of a proposal", limit: MAX_TRANSFORMS });
        }
        let spi = reader.take("an SPI", usize::from(spi_size))?.to_vec();
        let mut transforms = Vec::new();
        for index in 0..count {
            let at = reader.at();
            let more = more(reader, "the mark of a further transform", MORE_TRANSFORMS, "0 or 3")?;
            if more != (index + 1 < count) {
                let allowed = "0 in the last transform alone";
                let is = if more { u32::from(MORE_TRANSFORMS) } else { 0 };
                let fault = Fault::Value { what: "the mark of a further transform", is, allowed };
                return Err(DecodeError { at, fault });
            }
            reader.u8("a reserved byte")?;
            let length = reader.u16("the length of a transform")?;
            let mut body = reader.structure("a transform", length, 4)?;
            transforms.push(Transform::decode(&mut body)?);
        }
        reader.end("a proposal")?;
        Ok(Proposal { number, protocol, spi, transforms })
    }

    pub(super) fn encode_all(proposals: &[Proposal], out: &mut Vec<u8>) {
        for (index, proposal) in proposals.iter().enumerate() {
            let start = out.len();
            let more = if index + 1 < proposals.len() { MORE_PROPOSALS } else { 0 };
            let spi = proposal.spi.get(..MAX_SPI).unwrap_or(&proposal.spi);
            let transforms = proposal.transforms.get(..MAX_TRANSFORMS).unwrap_or(&proposal.transforms);
            out.extend_from_slice(&[more, 0, 0, 0, proposal.number, proposal.protocol.0]);
            out.extend_from_slice(&[spi.len() as u8, transforms.len() as u8]);
            out.extend_from_slice(spi);
            for (index, transform) in transforms.iter().enumerate() {
                transform.encode(index + 1 == transforms.len(), out);
            }
            set_payload_length(out, start);
        }
    }
}

/// The first byte of a substructure: 0 for the last one, `mark` for the others.
fn more(
    reader: &mut Reader<'_>,
    what: &'static str,
    mark: u8,
    allowed: &'static str,
) -> Result<bool, DecodeError> {
    let at = reader.at();
    let is = reader.u8(what)?;
    if is == 0 || is == mark {
        return Ok(is == mark);
    }
    Err(DecodeError { at, fault: Fault::Value { what, is: u32::from(is), allowed } })
}
