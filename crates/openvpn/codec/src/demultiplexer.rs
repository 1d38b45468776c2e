//! Which peer or session a datagram of OpenVPN's belongs to.

use adit_core::{PeerId, SessionId};
use adit_dataplane::codec::{Class, Demultiplexer, Steering, StreamAdvice};
use adit_openvpn::codec::session_id;
use adit_openvpn::wire::Opcode;

use crate::aead::{DATA_V1, DATA_V2};

/// Peer-id that says nothing: look at the address (ssl.h, `MAX_PEER_ID`).
const NO_PEER_ID: u32 = 0x00ff_ffff;
/// The longest control packet: none carries more than 2048 bytes (OpenVPN common.h `TLS_CHANNEL_BUF_SIZE`), beside a
/// wrapped client key of at most 1024, an HMAC and headers.
const MAX_CONTROL: usize = 4096;

/// The first bytes of resets of a client, with key id 0.
const HARD_RESET_CLIENT_V2: u8 = (Opcode::HardResetClientV2 as u8) << 3;
const HARD_RESET_CLIENT_V3: u8 = (Opcode::HardResetClientV3 as u8) << 3;
/// The shortest reset: opcode, session id, number of acknowledgements and packet id.
const SHORTEST_RESET: usize = 1 + 8 + 1 + 4;

const ADVICE: StreamAdvice = StreamAdvice {
    lost_step: "it is no OpenVPN peer, or the stream lost its step",
    too_long: "it is no OpenVPN peer, or leaves out the lengths, as MirageVPN does with `remote ... tcp` and no \
               `proto tcp` in its file",
};

/// The demultiplexer of a client's socket. It has one peer, [`PeerId::SERVER`], and takes any peer-id for it: the
/// peer-id is authenticated with the datagram.
#[derive(Clone, Copy, Debug, Default)]
pub struct Client;

impl Demultiplexer for Client {
    #[inline]
    fn classify(&self, datagram: &[u8]) -> Class {
        match data(datagram) {
            Ok((key_id, _)) => Class::Session(session_id(PeerId::SERVER, key_id)),
            Err(class) => class,
        }
    }

    fn stream_advice(&self) -> StreamAdvice {
        ADVICE
    }
}

/// The demultiplexer of a server's sockets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Server;

impl Demultiplexer for Server {
    #[inline]
    fn classify(&self, datagram: &[u8]) -> Class {
        match data(datagram) {
            Ok((key_id, Some(peer))) => Class::Session(session_id(peer, key_id)),
            Ok((_, None)) => Class::Path,
            Err(class) => class,
        }
    }

    fn session_of(&self, peer: PeerId, datagram: &[u8]) -> Option<SessionId> {
        Some(session_id(peer, datagram.first()? & 7))
    }

    /// A server's client sends data only after the server was ordered to open it; until then its records are control
    /// packets. A client has no such order: its server's first data may come before its keys are installed.
    fn longest_first_record(&self) -> Option<usize> {
        Some(MAX_CONTROL)
    }

    /// A client's first record is a reset of a first session (OpenVPN ps.c `is_openvpn_protocol`).
    fn begins_stream(&self, first: &[u8]) -> bool {
        let Some(&[high, low, first]) = first.first_chunk() else { return false };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let is_reset = matches!(first, HARD_RESET_CLIENT_V2 | HARD_RESET_CLIENT_V3);
        is_reset && (SHORTEST_RESET..=MAX_CONTROL).contains(&length)
    }

    fn stream_advice(&self) -> StreamAdvice {
        ADVICE
    }

    /// `DATA_V2` names its peer.
    fn steering(&self) -> Option<Steering> {
        Some(Steering { kind_mask: 0xf8, kind: DATA_V2 << 3, offset: 0, mask: 0x00ff_ffff })
    }
}

/// The demultiplexer of a tunnel with a static key: all is data, and of the one peer ([`PeerId::SERVER`], key id 0).
/// Datagrams that the peer seals are taken from any path, as only its key identifies it.
#[derive(Clone, Copy, Debug, Default)]
pub struct StaticKey;

impl Demultiplexer for StaticKey {
    #[inline]
    fn classify(&self, _datagram: &[u8]) -> Class {
        Class::Session(session_id(PeerId::SERVER, 0))
    }

    fn follows_streams(&self) -> bool {
        true
    }

    fn stream_advice(&self) -> StreamAdvice {
        ADVICE
    }
}

/// Key id and, if it is named, peer of a data datagram. `Err`: it is none.
#[inline]
fn data(datagram: &[u8]) -> Result<(u8, Option<PeerId>), Class> {
    let Some(&first) = datagram.first() else { return Err(Class::Malformed) };
    let key_id = first & 7;
    match first >> 3 {
        DATA_V2 => {
            let Some(&[a, b, c]) = datagram.get(1..).and_then(|rest| rest.first_chunk()) else {
                return Err(Class::Malformed);
            };
            let peer = u32::from_be_bytes([0, a, b, c]);
            Ok((key_id, (peer != NO_PEER_ID).then_some(PeerId(peer))))
        }
        DATA_V1 => Ok((key_id, None)),
        // Unauthenticated peers send these, and they wait in memory.
        _ if datagram.len() > MAX_CONTROL => Err(Class::Malformed),
        _ => Err(Class::Control),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_begins_with_a_reset_of_a_client() {
        let begins = |first: &[u8]| Server.begins_stream(first);
        // Without wrapping, with tls-crypt, with tls-crypt-v2 and its key.
        assert!(begins(&[0, 14, 0x38]) && begins(&[0, 54, 0x38]) && begins(&[1, 100, 0x50]));
        for other in [
            &b"GET"[..],
            b"\x16\x03\x01",
            b"SSH",
            b"\x00\x0d\x38",
            b"\x00\x0e\x40",
            b"\x20\x00\x38",
            b"\0\x0e",
            b"",
        ] {
            assert!(!begins(other), "{other:?}");
        }
    }
}
