//! The control channel's wire format: opcodes, session ids, and the body of a control packet.
//!
//! A control datagram is `opcode and key id (1) | own session id (8) | [wrapping] | body`. The wrapping is
//! [`crate::wrap`]'s business; this module knows the first byte and the body. Source: OpenVPN ssl_pkt.h,
//! reliable.c. (The RFC draft gives acknowledged packet ids 8 bytes; on the wire they have 4.)

use std::fmt;

use adit_core::Rejected;

/// Most packet ids that one packet may acknowledge (OpenVPN reliable.h, `RELIABLE_ACK_SIZE`).
pub const MAX_ACKS: usize = 8;

/// Length of a session id in bytes.
pub const SID_LEN: usize = 8;

/// Length of the bytes before the wrapping: the opcode byte and the sender's session id.
pub const HEADER_LEN: usize = 1 + SID_LEN;

/// The kind of a datagram. The V1 resets of key method 1 (opcodes 1 and 2) are refused by every supported
/// peer and have no value here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// New keys within a running connection (rekey).
    SoftReset = 3,
    /// A piece of the TLS stream.
    Control = 4,
    /// Acknowledgements only.
    Ack = 5,
    /// A sealed packet without a peer-id.
    DataV1 = 6,
    /// A client's first packet.
    HardResetClientV2 = 7,
    /// A server's first packet.
    HardResetServerV2 = 8,
    /// A sealed packet with a 24-bit peer-id.
    DataV2 = 9,
    /// A client's first packet with its wrapped tls-crypt-v2 key at the end.
    HardResetClientV3 = 10,
    /// A [`Opcode::Control`] with the wrapped tls-crypt-v2 client key at the end.
    ControlWkc = 11,
}

impl Opcode {
    /// The opcode with this number (5 bits on the wire), or `None` if there is none.
    pub const fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            3 => Opcode::SoftReset,
            4 => Opcode::Control,
            5 => Opcode::Ack,
            6 => Opcode::DataV1,
            7 => Opcode::HardResetClientV2,
            8 => Opcode::HardResetServerV2,
            9 => Opcode::DataV2,
            10 => Opcode::HardResetClientV3,
            11 => Opcode::ControlWkc,
            _ => return None,
        })
    }

    /// True for the two data opcodes, which never carry control messages.
    pub const fn is_data(self) -> bool {
        matches!(self, Opcode::DataV1 | Opcode::DataV2)
    }

    /// True if a wrapped tls-crypt-v2 client key follows the wrapped body.
    pub const fn carries_client_key(self) -> bool {
        matches!(self, Opcode::HardResetClientV3 | Opcode::ControlWkc)
    }
}

/// The first byte of every datagram: opcode in the upper five bits, key id in the lower three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Header {
    /// The kind of the datagram.
    pub opcode: Opcode,
    /// Which of the connection's key states it belongs to, 0..=7. 0 is the first only; after 7 comes 1.
    pub key_id: u8,
}

impl Header {
    /// The byte on the wire. Only the lower three bits of `key_id` are used.
    pub const fn to_byte(self) -> u8 {
        ((self.opcode as u8) << 3) | (self.key_id & 7)
    }

    /// Reads the byte. `None` if the opcode is unknown.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match Opcode::from_wire(byte >> 3) {
            Some(opcode) => Some(Header { opcode, key_id: byte & 7 }),
            None => None,
        }
    }
}

/// Which end of TLS we are. The configuration's `Role` (client, server, point-to-point) is another thing: an end of a
/// point-to-point tunnel is either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsRole {
    /// The end that starts the connection (TLS client).
    Client,
    /// The end that waits for it (TLS server).
    Server,
}

impl TlsRole {
    /// The other end.
    pub const fn other(self) -> Self {
        match self {
            TlsRole::Client => TlsRole::Server,
            TlsRole::Server => TlsRole::Client,
        }
    }
}

/// OpenVPN's session id: the number that each side draws at random for a control channel. Not the data plane's
/// [`adit_core::SessionId`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sid(pub [u8; SID_LEN]);

impl Sid {
    /// True unless all bytes are zero, which no peer may use.
    pub fn is_defined(self) -> bool {
        self.0 != [0; SID_LEN]
    }
}

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sid({self})")
    }
}

/// The content of a control packet once its wrapping is off: everything after the sender's session id.
///
/// `ack count (1) | acknowledged ids (4 each) | peer session id (8, if any acks) | packet id (4, not in an
/// ACK) | payload`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlBody {
    /// Packet ids that the sender acknowledges, at most [`MAX_ACKS`].
    pub acks: Vec<u32>,
    /// The receiver's session id as the sender knows it. Present exactly when there are acks.
    pub peer_sid: Option<Sid>,
    /// Number of this packet in the sender's reliable sequence. Absent in [`Opcode::Ack`] only.
    pub packet_id: Option<u32>,
    /// A piece of the TLS stream; empty in resets and ACKs. (A server's reset may carry a TLV here.)
    pub payload: Vec<u8>,
}

impl ControlBody {
    /// Reads the body of a packet with that opcode.
    ///
    /// Bytes after the end of an ACK are ignored, as OpenVPN ignores them.
    ///
    /// # Errors
    /// [`Rejected::Malformed`] if it is cut short or acknowledges more than [`MAX_ACKS`];
    /// [`Rejected::Unexpected`] for the data opcodes.
    pub fn decode(opcode: Opcode, body: &[u8]) -> Result<Self, Rejected> {
        if opcode.is_data() {
            return Err(Rejected::Unexpected("a data packet on the control channel"));
        }
        let (&count, mut rest) = body.split_first().ok_or(Rejected::Malformed("no ack count"))?;
        if usize::from(count) > MAX_ACKS {
            return Err(Rejected::Malformed("more than 8 acks"));
        }
        let mut acks = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            acks.push(read_u32(&mut rest).ok_or(Rejected::Malformed("the acks are cut short"))?);
        }
        let mut peer_sid = None;
        if count > 0 {
            let (sid, tail) = rest
                .split_first_chunk()
                .ok_or(Rejected::Malformed("the peer session id after the acks is cut short"))?;
            peer_sid = Some(Sid(*sid));
            rest = tail;
        }
        if opcode == Opcode::Ack {
            return Ok(ControlBody { acks, peer_sid, packet_id: None, payload: Vec::new() });
        }
        let packet_id = read_u32(&mut rest).ok_or(Rejected::Malformed("the packet id is cut short"))?;
        Ok(ControlBody { acks, peer_sid, packet_id: Some(packet_id), payload: rest.to_vec() })
    }

    /// Appends the wire form to `out`.
    ///
    /// A packet can say no more than [`MAX_ACKS`] acks, and none without the peer's session id: acks beyond
    /// that are left out.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let acks = match self.peer_sid {
            Some(_) => self.acks.get(..MAX_ACKS).unwrap_or(&self.acks),
            None => &[],
        };
        out.push(acks.len() as u8);
        for id in acks {
            out.extend_from_slice(&id.to_be_bytes());
        }
        if let (Some(sid), false) = (self.peer_sid, acks.is_empty()) {
            out.extend_from_slice(&sid.0);
        }
        if let Some(id) = self.packet_id {
            out.extend_from_slice(&id.to_be_bytes());
        }
        out.extend_from_slice(&self.payload);
    }
}

fn read_u32(rest: &mut &[u8]) -> Option<u32> {
    let (bytes, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn header_bytes() {
        for byte in 0..=255u8 {
            match Header::from_byte(byte) {
                Some(header) => assert_eq!(header.to_byte(), byte),
                None => assert!(!(3..=11).contains(&(byte >> 3))),
            }
        }
        assert_eq!(Header { opcode: Opcode::HardResetClientV2, key_id: 0 }.to_byte(), 0x38);
        assert_eq!(Header { opcode: Opcode::Ack, key_id: 7 }.to_byte(), 0x2f);
    }

    // Bytes from OpenVPN's tests/unit_tests/openvpn/test_pkt.c, without the first 9.
    #[test]
    fn control_with_ack() {
        let body = [0x01, 0, 0, 0, 0, 0xea, 0xfe, 0xbf, 0xa4, 0x41, 0x8a, 0xe3, 0x1b, 0, 0, 0, 1, 0x16, 3, 1];
        let decoded = ControlBody::decode(Opcode::Control, &body).unwrap();
        assert_eq!(
            decoded,
            ControlBody {
                acks: vec![0],
                peer_sid: Some(Sid([0xea, 0xfe, 0xbf, 0xa4, 0x41, 0x8a, 0xe3, 0x1b])),
                packet_id: Some(1),
                payload: vec![0x16, 3, 1],
            }
        );
        let mut again = Vec::new();
        decoded.encode(&mut again);
        assert_eq!(again, body);
    }

    // Likewise: an ACK of 0, 1 and 2.
    #[test]
    fn ack_of_three() {
        let body = [3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0xdd, 0x85, 0xdb, 0x53, 0x56, 0x23, 0xb0, 0x2e];
        let decoded = ControlBody::decode(Opcode::Ack, &body).unwrap();
        assert_eq!(decoded.acks, [0, 1, 2]);
        assert_eq!(decoded.peer_sid, Some(Sid([0xdd, 0x85, 0xdb, 0x53, 0x56, 0x23, 0xb0, 0x2e])));
        assert_eq!((decoded.packet_id, decoded.payload.len()), (None, 0));
    }

    #[test]
    fn cut_short_anywhere_is_malformed() {
        let body = ControlBody {
            acks: vec![7, 8],
            peer_sid: Some(Sid([1; 8])),
            packet_id: Some(9),
            payload: Vec::new(),
        };
        let mut bytes = Vec::new();
        body.encode(&mut bytes);
        for end in 0..bytes.len() {
            assert!(matches!(
                ControlBody::decode(Opcode::Control, &bytes[..end]),
                Err(Rejected::Malformed(_))
            ));
        }
    }

    #[test]
    fn nine_acks_are_malformed() {
        let mut bytes = vec![9];
        bytes.extend_from_slice(&[0; 9 * 4 + 8 + 4]);
        assert_eq!(
            ControlBody::decode(Opcode::Control, &bytes),
            Err(Rejected::Malformed("more than 8 acks"))
        );
    }

    prop_compose! {
        fn any_body()(
            acks in prop::collection::vec(any::<u32>(), 0..=MAX_ACKS),
            sid in any::<[u8; 8]>(),
            packet_id in prop::option::of(any::<u32>()),
            payload in prop::collection::vec(any::<u8>(), 0..64),
        ) -> (Opcode, ControlBody) {
            let peer_sid = (!acks.is_empty()).then_some(Sid(sid));
            let payload = if packet_id.is_some() { payload } else { Vec::new() };
            let opcode = if packet_id.is_some() { Opcode::Control } else { Opcode::Ack };
            (opcode, ControlBody { acks, peer_sid, packet_id, payload })
        }
    }

    proptest! {
        #[test]
        fn decode_undoes_encode((opcode, body) in any_body()) {
            let mut bytes = Vec::new();
            body.encode(&mut bytes);
            prop_assert_eq!(ControlBody::decode(opcode, &bytes), Ok(body));
        }

        #[test]
        fn what_decodes_encodes_the_same(
            number in 3u8..=11,
            bytes in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let opcode = Opcode::from_wire(number).unwrap();
            if let Ok(body) = ControlBody::decode(opcode, &bytes) {
                let mut again = Vec::new();
                body.encode(&mut again);
                prop_assert!(bytes.starts_with(&again));
            }
        }
    }
}
