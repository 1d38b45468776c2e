//! The payloads (RFC 7296 sections 3.3 to 3.16).

use super::MAX_ATTRIBUTES;
use super::proposal::Proposal;
use super::reader::{DecodeError, Fault, Reader};
use super::registry::{
    AuthMethod, CertificateEncoding, ConfigurationAttributeType, ConfigurationType, EapCode, IdType,
    NotifyType, PayloadType, ProtocolId,
};
use super::selector::TrafficSelector;

/// Fewest and most bytes of a nonce (RFC 7296 section 3.9).
const NONCE_LEN: std::ops::RangeInclusive<usize> = 16..=256;

/// A payload that is not encrypted, or no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// SA: proposals.
    SecurityAssociation(Vec<Proposal>),
    /// KE: the public value of a key exchange.
    KeyExchange(KeyExchange),
    /// IDi.
    IdInitiator(Identification),
    /// IDr.
    IdResponder(Identification),
    /// CERT.
    Certificate(Certificate),
    /// CERTREQ: the certificates that are wanted; with X.509, SHA-1 digests of the public keys of the authorities.
    CertificateRequest(Certificate),
    /// AUTH.
    Authentication(Authentication),
    /// Nonce, of 16 to 256 bytes.
    Nonce(Vec<u8>),
    /// N.
    Notify(Notify),
    /// D.
    Delete(Delete),
    /// V: any bytes.
    VendorId(Vec<u8>),
    /// TSi.
    SelectorsInitiator(Vec<TrafficSelector>),
    /// TSr.
    SelectorsResponder(Vec<TrafficSelector>),
    /// CP.
    Configuration(Configuration),
    /// EAP.
    Eap(Eap),
    /// A payload of an unknown kind that is not critical, which is to be ignored (RFC 7296 section 2.5).
    Unknown(PayloadType, Vec<u8>),
}

/// The public value of a key exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyExchange {
    /// The number of the method.
    pub method: u16,
    /// The value.
    pub data: Vec<u8>,
}

/// An identity, as the AUTH payload covers it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identification {
    /// Its kind.
    pub kind: IdType,
    /// Its value.
    pub data: Vec<u8>,
}

/// A certificate, or a request for certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Its encoding.
    pub encoding: CertificateEncoding,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// The proof of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// The method.
    pub method: AuthMethod,
    /// The proof.
    pub data: Vec<u8>,
}

/// An error or a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// The protocol of the SA that `spi` names. [`ProtocolId::NONE`] without an SPI.
    pub protocol: ProtocolId,
    /// The SA that it is about; empty where that is clear. At most 255 bytes.
    pub spi: Vec<u8>,
    /// Its kind.
    pub kind: NotifyType,
    /// The data of a notify of that kind.
    pub data: Vec<u8>,
}

/// SAs that the sender deletes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// Their protocol.
    pub protocol: ProtocolId,
    /// The SPIs of the sender's inbound SAs. All are as long as the first, at most 255 bytes. Empty for the IKE SA.
    pub spis: Vec<Vec<u8>>,
}

/// A configuration payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Its kind.
    pub kind: ConfigurationType,
    /// Its attributes.
    pub attributes: Vec<ConfigurationAttribute>,
}

/// An attribute of a configuration payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationAttribute {
    /// Its kind, below 2^15.
    pub kind: ConfigurationAttributeType,
    /// Its value; empty in requests for any value.
    pub value: Vec<u8>,
}

/// An EAP message (RFC 3748 section 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eap {
    /// Its kind.
    pub code: EapCode,
    /// Its number.
    pub identifier: u8,
    /// The kind of the method and its data; empty in successes and failures.
    pub data: Vec<u8>,
}

impl Notify {
    /// A notify that is about no SA, or about the IKE SA that it is sent in.
    pub const fn new(kind: NotifyType, data: Vec<u8>) -> Self {
        Notify { protocol: ProtocolId::NONE, spi: Vec::new(), kind, data }
    }

    fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let protocol = ProtocolId(body.u8("the protocol of a notify payload")?);
        let spi_size = usize::from(body.u8("the length of an SPI")?);
        let kind = NotifyType(body.u16("the kind of a notify payload")?);
        let spi = body.take("an SPI", spi_size)?.to_vec();
        Ok(Notify { protocol, spi, kind, data: body.rest().to_vec() })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let spi = self.spi.get(..usize::from(u8::MAX)).unwrap_or(&self.spi);
        out.extend_from_slice(&[self.protocol.0, spi.len() as u8]);
        out.extend_from_slice(&self.kind.0.to_be_bytes());
        out.extend_from_slice(spi);
        out.extend_from_slice(&self.data);
    }
}

impl Delete {
    fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let protocol = ProtocolId(body.u8("the protocol of a delete payload")?);
        let spi_size = usize::from(body.u8("the length of an SPI")?);
        let count = body.u16("the number of SPIs")?;
        if spi_size == 0 && count != 0 {
            let allowed = "0 where SPIs have no bytes";
            return body.fail(Fault::Value { what: "the number of SPIs", is: u32::from(count), allowed });
        }
        let spis = (0..count)
            .map(|_| body.take("an SPI", spi_size).map(<[u8]>::to_vec))
            .collect::<Result<_, _>>()?;
        Ok(Delete { protocol, spis })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let spi_size = self.spis.first().map_or(0, Vec::len);
        let of_that_size = self.spis.iter().filter(|spi| spi.len() == spi_size && spi_size > 0);
        let spis: Vec<&Vec<u8>> = of_that_size.take(usize::from(u16::MAX)).collect();
        out.extend_from_slice(&[self.protocol.0, u8::try_from(spi_size).unwrap_or(u8::MAX)]);
        out.extend_from_slice(&(spis.len() as u16).to_be_bytes());
        spis.into_iter().for_each(|spi| out.extend_from_slice(spi));
    }
}

impl Configuration {
    fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = ConfigurationType(body.u8("the kind of a configuration payload")?);
        body.take("reserved bytes", 3)?;
        let mut attributes = Vec::new();
        while !body.is_empty() {
            if attributes.len() == MAX_ATTRIBUTES {
                return body.fail(Fault::TooMany { what: "configuration attributes", limit: MAX_ATTRIBUTES });
            }
            // The highest bit is reserved.
            let kind = ConfigurationAttributeType(body.u16("the kind of an attribute")? & 0x7fff);
            let length = usize::from(body.u16("the length of an attribute")?);
            let value = body.take("the value of an attribute", length)?.to_vec();
            attributes.push(ConfigurationAttribute { kind, value });
        }
        Ok(Configuration { kind, attributes })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.kind.0, 0, 0, 0]);
        for ConfigurationAttribute { kind, value } in &self.attributes {
            let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
            out.extend_from_slice(&(kind.0 & 0x7fff).to_be_bytes());
            out.extend_from_slice(&length.to_be_bytes());
            out.extend(value.iter().take(usize::from(length)));
        }
    }
}

impl Eap {
    fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let code = EapCode(body.u8("the code of an EAP message")?);
        let identifier = body.u8("the number of an EAP message")?;
        let length = body.u16("the length of an EAP message")?;
        let mut data = body.structure("an EAP message", length, 4)?;
        Ok(Eap { code, identifier, data: data.rest().to_vec() })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let length = u16::try_from(self.data.len() + 4).unwrap_or(u16::MAX);
        out.extend_from_slice(&[self.code.0, self.identifier]);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend(self.data.iter().take(usize::from(length) - 4));
    }
}

impl Payload {
    /// Its kind.
    pub const fn kind(&self) -> PayloadType {
        match self {
            Payload::SecurityAssociation(_) => PayloadType::SECURITY_ASSOCIATION,
            Payload::KeyExchange(_) => PayloadType::KEY_EXCHANGE,
            Payload::IdInitiator(_) => PayloadType::ID_INITIATOR,
            Payload::IdResponder(_) => PayloadType::ID_RESPONDER,
            Payload::Certificate(_) => PayloadType::CERTIFICATE,
            Payload::CertificateRequest(_) => PayloadType::CERTIFICATE_REQUEST,
            Payload::Authentication(_) => PayloadType::AUTHENTICATION,
            Payload::Nonce(_) => PayloadType::NONCE,
            Payload::Notify(_) => PayloadType::NOTIFY,
            Payload::Delete(_) => PayloadType::DELETE,
            Payload::VendorId(_) => PayloadType::VENDOR_ID,
            Payload::SelectorsInitiator(_) => PayloadType::SELECTORS_INITIATOR,
            Payload::SelectorsResponder(_) => PayloadType::SELECTORS_RESPONDER,
            Payload::Configuration(_) => PayloadType::CONFIGURATION,
            Payload::Eap(_) => PayloadType::EAP,
            Payload::Unknown(kind, _) => *kind,
        }
    }

    /// Decodes the body of a payload. Byte numbers of errors count from the start of the body.
    pub(super) fn decode(kind: PayloadType, is_critical: bool, body: &[u8]) -> Result<Self, DecodeError> {
        let mut body = Reader::new(body, 0);
        let payload = match kind {
            PayloadType::SECURITY_ASSOCIATION => {
                Payload::SecurityAssociation(Proposal::decode_all(&mut body)?)
            }
            PayloadType::KEY_EXCHANGE => {
                let method = body.u16("the method of a key exchange")?;
                body.take("reserved bytes", 2)?;
                Payload::KeyExchange(KeyExchange { method, data: body.rest().to_vec() })
            }
            PayloadType::ID_INITIATOR => Payload::IdInitiator(Identification::decode(&mut body)?),
            PayloadType::ID_RESPONDER => Payload::IdResponder(Identification::decode(&mut body)?),
            PayloadType::CERTIFICATE => Payload::Certificate(Certificate::decode(&mut body)?),
            PayloadType::CERTIFICATE_REQUEST => Payload::CertificateRequest(Certificate::decode(&mut body)?),
            PayloadType::AUTHENTICATION => {
                let method = AuthMethod(body.u8("the method of an AUTH payload")?);
                body.take("reserved bytes", 3)?;
                Payload::Authentication(Authentication { method, data: body.rest().to_vec() })
            }
            PayloadType::NONCE => Payload::Nonce(decode_nonce(&mut body)?),
            PayloadType::NOTIFY => Payload::Notify(Notify::decode(&mut body)?),
            PayloadType::DELETE => Payload::Delete(Delete::decode(&mut body)?),
            PayloadType::VENDOR_ID => Payload::VendorId(body.rest().to_vec()),
            PayloadType::SELECTORS_INITIATOR => {
                Payload::SelectorsInitiator(TrafficSelector::decode_all(&mut body)?)
            }
            PayloadType::SELECTORS_RESPONDER => {
                Payload::SelectorsResponder(TrafficSelector::decode_all(&mut body)?)
            }
            PayloadType::CONFIGURATION => Payload::Configuration(Configuration::decode(&mut body)?),
            PayloadType::EAP => Payload::Eap(Eap::decode(&mut body)?),
            _ if is_critical => return body.fail(Fault::Critical(kind)),
            _ => Payload::Unknown(kind, body.rest().to_vec()),
        };
        body.end("a payload's content")?;
        Ok(payload)
    }

    /// Appends the body of the payload. Counts and lengths that the format has no room for are cut off; those that decode
    /// have room.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Payload::SecurityAssociation(proposals) => Proposal::encode_all(proposals, out),
            Payload::KeyExchange(KeyExchange { method, data }) => {
                out.extend_from_slice(&method.to_be_bytes());
                out.extend_from_slice(&[0, 0]);
                out.extend_from_slice(data);
            }
            Payload::IdInitiator(identity) | Payload::IdResponder(identity) => identity.encode(out),
            Payload::Certificate(certificate) | Payload::CertificateRequest(certificate) => {
                out.push(certificate.encoding.0);
                out.extend_from_slice(&certificate.data);
            }
            Payload::Authentication(Authentication { method, data }) => {
                out.extend_from_slice(&[method.0, 0, 0, 0]);
                out.extend_from_slice(data);
            }
            Payload::Notify(notify) => notify.encode(out),
            Payload::Delete(delete) => delete.encode(out),
            Payload::SelectorsInitiator(selectors) | Payload::SelectorsResponder(selectors) => {
                TrafficSelector::encode_all(selectors, out)
            }
            Payload::Configuration(configuration) => configuration.encode(out),
            Payload::Eap(eap) => eap.encode(out),
            Payload::Nonce(bytes) | Payload::VendorId(bytes) | Payload::Unknown(_, bytes) => {
                out.extend_from_slice(bytes)
            }
        }
    }
}

impl Identification {
    fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = IdType(body.u8("the kind of an identity")?);
        body.take("reserved bytes", 3)?;
        Ok(Identification { kind, data: body.rest().to_vec() })
    }

    /// Appends the body of the payload, which is also what AUTH covers (RFC 7296 section 2.15).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.kind.0, 0, 0, 0]);
        out.extend_from_slice(&self.data);
    }
}

impl Certificate {
    fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let encoding = CertificateEncoding(body.u8("the encoding of a certificate")?);
        Ok(Certificate { encoding, data: body.rest().to_vec() })
    }
}

fn decode_nonce(body: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
    let length = body.left();
    if !NONCE_LEN.contains(&length) {
        let is = u32::try_from(length).unwrap_or(u32::MAX);
        return body.fail(Fault::Value { what: "the length of a nonce", is, allowed: "16 to 256" });
    }
    Ok(body.rest().to_vec())
}
