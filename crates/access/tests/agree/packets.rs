//! Packets by what they are, and their bytes, plainly and slowly.

use std::net::IpAddr;

/// The part of a packet behind the IP header.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Tcp {
        ports: [u16; 2],
        syn: bool,
        ack: bool,
    },
    Udp {
        ports: [u16; 2],
    },
    EchoRequest(u16),
    EchoReply(u16),
    /// A protocol without ports.
    Other(u8),
    /// An ICMP error that quotes a packet.
    Error(Box<Sent>),
}

/// A packet's own place among the fragments of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) id: u16,
    /// Where it begins, in units of 8 bytes.
    pub(crate) start: u16,
    pub(crate) more: bool,
}

/// Something in the headers that is not plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    Plain,
    /// IPv4 options, or a destination options header, that say nothing.
    Padding,
    /// A source route, or a routing header with a segment left.
    SourceRoute,
    /// A routing header without segments left (IPv6).
    UsedRoute,
    /// The transport header is cut off.
    Tiny,
}

/// A packet. Both addresses are of one family.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) body: Body,
    pub(crate) part: Option<Part>,
    pub(crate) header: Header,
}

impl Sent {
    pub(crate) fn is_v6(&self) -> bool {
        self.source.is_ipv6()
    }

    pub(crate) fn protocol(&self) -> u8 {
        match (&self.body, self.is_v6()) {
            (Body::Tcp { .. }, _) => 6,
            (Body::Udp { .. }, _) => 17,
            (Body::Other(protocol), _) => *protocol,
            (_, false) => 1,
            (_, true) => 58,
        }
    }

    /// The transport header and payload.
    pub(crate) fn body_bytes(&self) -> Vec<u8> {
        let v6 = self.is_v6();
        let mut bytes = vec![0; 24];
        match &self.body {
            Body::Tcp { ports, syn, ack } => {
                bytes[..2].copy_from_slice(&ports[0].to_be_bytes());
                bytes[2..4].copy_from_slice(&ports[1].to_be_bytes());
                bytes[12] = 0x50;
                bytes[13] = u8::from(*syn) << 1 | u8::from(*ack) << 4;
            }
            Body::Udp { ports } => {
                bytes[..2].copy_from_slice(&ports[0].to_be_bytes());
                bytes[2..4].copy_from_slice(&ports[1].to_be_bytes());
            }
            Body::EchoRequest(id) | Body::EchoReply(id) => {
                let request = matches!(self.body, Body::EchoRequest(_));
                bytes[0] = [[0, 8], [129, 128]][usize::from(v6)][usize::from(request)];
                bytes[4..6].copy_from_slice(&id.to_be_bytes());
            }
            Body::Other(_) => {}
            Body::Error(quoted) => {
                bytes.truncate(8);
                bytes[0] = if v6 { 1 } else { 3 };
                bytes.extend(quoted.bytes());
            }
        }
        if self.header == Header::Tiny {
            bytes.truncate(7);
        }
        bytes
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let body = self.body_bytes();
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let options: &[u8] = match self.header {
                    Header::Padding => &[1, 1, 1, 0],
                    Header::SourceRoute => &[131, 7, 4, 10, 0, 0, 9, 0],
                    _ => &[],
                };
                let mut bytes = vec![0x45 + (options.len() / 4) as u8, 0];
                bytes.extend(((20 + options.len() + body.len()) as u16).to_be_bytes());
                let part = self.part.unwrap_or(Part { id: 9, start: 0, more: false });
                bytes.extend(part.id.to_be_bytes());
                bytes.extend((u16::from(part.more) << 13 | part.start).to_be_bytes());
                bytes.extend([64, self.protocol(), 0, 0]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
                bytes.extend(options);
                bytes.extend(body);
                bytes
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut rest = Vec::new();
                let mut next = self.protocol();
                let after = usize::from(next);
                if let Some(part) = self.part {
                    let word = part.start << 3 | u16::from(part.more);
                    rest.extend([after as u8, 0]);
                    rest.extend(word.to_be_bytes());
                    rest.extend(u32::from(part.id).to_be_bytes());
                    next = 44;
                }
                let extension = match self.header {
                    Header::Padding => Some((60, [next, 0, 1, 4, 0, 0, 0, 0])),
                    Header::SourceRoute => Some((43, [next, 0, 4, 1, 0, 0, 0, 0])),
                    Header::UsedRoute => Some((43, [next, 0, 4, 0, 0, 0, 0, 0])),
                    _ => None,
                };
                if let Some((kind, header)) = extension {
                    rest.splice(0..0, header);
                    next = kind;
                }
                rest.extend(body);
                let mut bytes = vec![0x60, 0, 0, 0];
                bytes.extend((rest.len() as u16).to_be_bytes());
                bytes.extend([next, 64]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
                bytes.extend(rest);
                bytes
            }
            _ => panic!("two families"),
        }
    }
}
