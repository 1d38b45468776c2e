//! Traffic selectors (RFC 7296 section 3.13).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::reader::{DecodeError, Fault, Reader};
use super::set_payload_length;

const IPV4_RANGE: u8 = 7;
const IPV6_RANGE: u8 = 8;
/// The least and the greatest port that together stand for "opaque": packets whose ports cannot be known (RFC 7296
/// section 3.13.1).
const OPAQUE: (u16, u16) = (u16::MAX, 0);

/// Packets, by addresses, IP protocol and ports of one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficSelector {
    /// The IP protocol; 0: any.
    pub protocol: u8,
    /// The least port. For ICMP and ICMPv6, type and code as one number.
    pub first_port: u16,
    /// The greatest port. 65535 to 0 stands for packets whose ports cannot be known.
    pub last_port: u16,
    /// The addresses.
    pub addresses: AddressRange,
}

/// The addresses of a traffic selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressRange {
    /// IPv4 addresses from the first to the last.
    V4(Ipv4Addr, Ipv4Addr),
    /// IPv6 addresses from the first to the last.
    V6(Ipv6Addr, Ipv6Addr),
    /// A selector of another kind, such as a security label (RFC 9478), with its bytes behind the ports.
    Other(u8, Vec<u8>),
}

impl TrafficSelector {
    pub(super) fn decode_all(reader: &mut Reader<'_>) -> Result<Vec<Self>, DecodeError> {
        let count = reader.u8("the number of traffic selectors")?;
        reader.take("reserved bytes", 3)?;
        if count == 0 {
            let allowed = "at least 1";
            return reader.fail(Fault::Value { what: "the number of traffic selectors", is: 0, allowed });
        }
        (0..count).map(|_| TrafficSelector::decode(reader)).collect()
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.at();
        let kind = reader.u8("the kind of a traffic selector")?;
        let protocol = reader.u8("the protocol of a traffic selector")?;
        let length = reader.u16("the length of a traffic selector")?;
        let mut body = reader.structure("a traffic selector", length, 4)?;
        let first_port = body.u16("the least port")?;
        let last_port = body.u16("the greatest port")?;
        let addresses = AddressRange::decode(kind, &mut body)?;
        let selector = TrafficSelector { protocol, first_port, last_port, addresses };
        if selector.is_empty() {
            let allowed = "a range whose first value is not beyond its last";
            let fault = Fault::Value { what: "a traffic selector", is: u32::from(kind), allowed };
            return Err(DecodeError { at, fault });
        }
        Ok(selector)
    }

    /// Whether a range begins behind its end.
    fn is_empty(&self) -> bool {
        let addresses = match &self.addresses {
            AddressRange::V4(first, last) => first > last,
            AddressRange::V6(first, last) => first > last,
            AddressRange::Other(..) => return false,
        };
        addresses || self.first_port > self.last_port && (self.first_port, self.last_port) != OPAQUE
    }

    /// At most 255 of them.
    pub(super) fn encode_all(selectors: &[TrafficSelector], out: &mut Vec<u8>) {
        let count = u8::try_from(selectors.len()).unwrap_or(u8::MAX);
        out.extend_from_slice(&[count, 0, 0, 0]);
        for selector in selectors.iter().take(usize::from(count)) {
            let start = out.len();
            let kind = match &selector.addresses {
                AddressRange::V4(..) => IPV4_RANGE,
                AddressRange::V6(..) => IPV6_RANGE,
                AddressRange::Other(kind, _) => *kind,
            };
            out.extend_from_slice(&[kind, selector.protocol, 0, 0]);
            out.extend_from_slice(&selector.first_port.to_be_bytes());
            out.extend_from_slice(&selector.last_port.to_be_bytes());
            match &selector.addresses {
                AddressRange::V4(first, last) => out.extend([first.octets(), last.octets()].concat()),
                AddressRange::V6(first, last) => out.extend([first.octets(), last.octets()].concat()),
                AddressRange::Other(_, bytes) => out.extend_from_slice(bytes),
            }
            set_payload_length(out, start);
        }
    }
}

impl AddressRange {
    fn decode(kind: u8, body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let range = match kind {
            IPV4_RANGE => {
                let first = body.array::<4>("the first address")?;
                AddressRange::V4(first.into(), body.array::<4>("the last address")?.into())
            }
            IPV6_RANGE => {
                let first = body.array::<16>("the first address")?;
                AddressRange::V6(first.into(), body.array::<16>("the last address")?.into())
            }
            other => AddressRange::Other(other, body.rest().to_vec()),
        };
        body.end("a traffic selector")?;
        Ok(range)
    }
}
