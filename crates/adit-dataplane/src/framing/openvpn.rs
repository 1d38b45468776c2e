//! OpenVPN's AEAD data channel: `DATA_V1` and `DATA_V2` (OpenVPN crypto.c, ssl.c), and the compression
//! framings inside (comp.c, compstub.c).
//!
//! `DATA_V2`: opcode and key id (1), peer-id (3), packet id (4), tag (16), ciphertext; all in front of the
//! tag is authenticated. `DATA_V1` has no peer-id, and authenticates the packet id alone.

use std::ops::Range;

use adit_core::{CompressionFraming, OpenVpnFraming, OpenVpnHeader, PeerId, SessionId};

use super::{Class, Layout, Plain};
use crate::Role;
use crate::aead::{Aead, NONCE_LEN, TAG_LEN};
use crate::counters::Drop;

/// The last packet id; a session never goes round.
pub(super) const COUNTER_MAX: u64 = 0xffff_ffff;
/// Where OpenVPN renegotiates (packet_id.h, `PACKET_ID_WRAP_TRIGGER`).
pub(super) const COUNTER_WARN: u64 = 0xff00_0000;

const DATA_V1: u8 = 6;
const DATA_V2: u8 = 9;
/// Peer-id that says nothing: look at the address (ssl.h, `MAX_PEER_ID`).
const NO_PEER_ID: u32 = 0x00ff_ffff;
const V1_HEADER: usize = 1;
const V2_HEADER: usize = 4;
const PACKET_ID: usize = 4;

const LZO_COMPRESSED: u8 = 0x66;
const LZ4_COMPRESSED: u8 = 0x69;
const NOT_COMPRESSED: u8 = 0xfa;
const NOT_COMPRESSED_SWAP: u8 = 0xfb;
const V2_INDICATOR: u8 = 0x50;
const V2_UNCOMPRESSED: u8 = 0x00;
/// What OpenVPN 2 writes in place of [`V2_UNCOMPRESSED`].
const V2_UNCOMPRESSED_ALIAS: u8 = 0x0a;

/// A client has one peer and takes any peer-id for it: the peer-id is authenticated, and lies in the AAD.
#[inline]
pub(super) fn classify(role: Role, datagram: &[u8]) -> Class {
    let Some(&first) = datagram.first() else { return Class::Malformed };
    let key_id = first & 7;
    match first >> 3 {
        DATA_V2 => {
            let Some(&[a, b, c]) = datagram.get(1..).and_then(|rest| rest.first_chunk()) else {
                return Class::Malformed;
            };
            let peer = u32::from_be_bytes([0, a, b, c]);
            match role {
                Role::Client => Class::Session(SessionId::openvpn(PeerId::SERVER, key_id)),
                Role::Server if peer == NO_PEER_ID => Class::ByPath(key_id),
                Role::Server => Class::Session(SessionId::openvpn(PeerId(peer), key_id)),
            }
        }
        DATA_V1 => match role {
            Role::Client => Class::Session(SessionId::openvpn(PeerId::SERVER, key_id)),
            Role::Server => Class::ByPath(key_id),
        },
        _ => Class::Control,
    }
}

fn nonce(packet_id: [u8; PACKET_ID], iv: [u8; 8]) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[..PACKET_ID].copy_from_slice(&packet_id);
    nonce[PACKET_ID..].copy_from_slice(&iv);
    nonce
}

pub(super) struct Sealer {
    header: [u8; V2_HEADER],
    /// How many bytes of `header` are sent.
    header_len: usize,
    iv: [u8; 8],
    compression: CompressionFraming,
}

impl Sealer {
    pub(super) fn new(framing: OpenVpnFraming, iv: [u8; 8]) -> Self {
        let key_id = framing.key_id & 7;
        let (header, header_len) = match framing.header {
            OpenVpnHeader::V1 => ([DATA_V1 << 3 | key_id, 0, 0, 0], V1_HEADER),
            OpenVpnHeader::V2 { peer_id } => {
                let [_, a, b, c] = peer_id.to_be_bytes();
                ([DATA_V2 << 3 | key_id, a, b, c], V2_HEADER)
            }
        };
        Sealer { header, header_len, iv, compression: framing.compression }
    }

    /// Where the ciphertext starts.
    fn body(&self) -> usize {
        self.header_len + PACKET_ID + TAG_LEN
    }

    #[inline]
    pub(super) fn layout(&self, first: Option<u8>, payload_len: usize) -> Layout {
        let (before, after) = match self.compression {
            CompressionFraming::None => (0, 0),
            CompressionFraming::LzoNo => (1, 0),
            CompressionFraming::Stub => (0, 1),
            CompressionFraming::StubV2 if first == Some(V2_INDICATOR) => (2, 0),
            CompressionFraming::StubV2 => (0, 0),
        };
        let payload = self.body() + before;
        Layout { payload, datagram: payload + payload_len + after }
    }

    /// `None` if the datagram has not the length that `layout` gave, or the AEAD refuses.
    #[inline]
    pub(super) fn seal(
        &self,
        aead: &dyn Aead,
        counter: u64,
        datagram: &mut [u8],
        payload_len: usize,
    ) -> Option<()> {
        let packet_id = u32::try_from(counter).ok()?.to_be_bytes();
        let (front, body) = datagram.split_at_mut_checked(self.body())?;
        match self.compression {
            CompressionFraming::None => {}
            CompressionFraming::LzoNo => *body.first_mut()? = NOT_COMPRESSED,
            CompressionFraming::Stub => {
                *body.last_mut()? = *body.first()?;
                *body.first_mut()? = NOT_COMPRESSED_SWAP;
            }
            CompressionFraming::StubV2 if body.len() > payload_len => {
                *body.first_chunk_mut()? = [V2_INDICATOR, V2_UNCOMPRESSED];
            }
            CompressionFraming::StubV2 => {}
        }
        let (authenticated, tag) = front.split_at_mut_checked(self.header_len + PACKET_ID)?;
        let (header, id) = authenticated.split_at_mut_checked(self.header_len)?;
        header.copy_from_slice(self.header.get(..self.header_len)?);
        id.copy_from_slice(&packet_id);
        let aad: &[u8] = if self.header_len == V1_HEADER { id } else { authenticated };
        tag.copy_from_slice(&aead.seal(nonce(packet_id, self.iv), aad, body).ok()?);
        Some(())
    }
}

pub(super) struct Opener {
    iv: [u8; 8],
    compression: CompressionFraming,
}

impl Opener {
    pub(super) fn new(framing: OpenVpnFraming, iv: [u8; 8]) -> Self {
        Opener { iv, compression: framing.compression }
    }

    /// Opens either version, as the datagram's opcode says.
    #[inline]
    pub(super) fn open(&self, aead: &dyn Aead, datagram: &mut [u8]) -> Result<Plain, Drop> {
        let header_len = match datagram.first() {
            Some(first) if first >> 3 == DATA_V1 => V1_HEADER,
            _ => V2_HEADER,
        };
        self.open_with(aead, datagram, header_len).unwrap_or(Err(Drop::Malformed))
    }

    /// `None` if the datagram is too short.
    #[inline]
    fn open_with(
        &self,
        aead: &dyn Aead,
        datagram: &mut [u8],
        header_len: usize,
    ) -> Option<Result<Plain, Drop>> {
        let end = datagram.len();
        let (authenticated, rest) = datagram.split_at_mut_checked(header_len + PACKET_ID)?;
        let (tag, body) = rest.split_first_chunk_mut::<TAG_LEN>()?;
        let id: [u8; PACKET_ID] = *authenticated.last_chunk()?;
        let packet_id = u32::from_be_bytes(id);
        if packet_id == 0 {
            return None;
        }
        let aad: &[u8] = if header_len == V1_HEADER { &id } else { authenticated };
        if aead.open(nonce(id, self.iv), aad, tag, body).is_err() {
            return Some(Err(Drop::BadTag));
        }
        let payload = header_len + PACKET_ID + TAG_LEN..end;
        Some(Ok(Plain { counter: u64::from(packet_id), payload }))
    }

    #[inline]
    pub(super) fn unframe(&self, datagram: &mut [u8], payload: Range<usize>) -> Result<Range<usize>, Drop> {
        let Range { start, end } = payload;
        let body = datagram.get_mut(start..end).ok_or(Drop::Malformed)?;
        match (self.compression, &mut *body) {
            (CompressionFraming::None, _) => Ok(start..end),
            (CompressionFraming::LzoNo, [NOT_COMPRESSED, ..]) => Ok(start + 1..end),
            (CompressionFraming::Stub, [first @ NOT_COMPRESSED_SWAP, .., last]) => {
                *first = *last;
                Ok(start..end - 1)
            }
            (CompressionFraming::Stub, [NOT_COMPRESSED_SWAP]) => Ok(end..end),
            (CompressionFraming::LzoNo | CompressionFraming::Stub, [LZO_COMPRESSED | LZ4_COMPRESSED, ..]) => {
                Err(Drop::Compressed)
            }
            (CompressionFraming::LzoNo | CompressionFraming::Stub, _) => Err(Drop::Malformed),
            (CompressionFraming::StubV2, [V2_INDICATOR, V2_UNCOMPRESSED | V2_UNCOMPRESSED_ALIAS, ..]) => {
                Ok(start + 2..end)
            }
            (CompressionFraming::StubV2, [V2_INDICATOR, ..]) => Err(Drop::Compressed),
            (CompressionFraming::StubV2, _) => Ok(start..end),
        }
    }
}

#[cfg(test)]
mod tests {
    use adit_core::Cipher;

    use super::*;
    use crate::aead;

    /// The known vector of OpenVPN's tests/unit_tests/openvpn/test_ssl.c,
    /// `test_data_channel_known_vectors_shortpktid`: its header bytes are no `DATA_V2` opcode, which the
    /// AEAD does not mind.
    #[test]
    fn openvpn_known_vector() {
        let text = b"abcdefgh01234567ABCDEFGHjkuchenl";
        let material: Vec<u8> = (0..=255u8).map(|i| text[usize::from(i) % 32] ^ i).collect();
        let aead = aead::aws_lc(Cipher::Aes256Gcm, &material[..32]).expect("the key fits");
        let iv = *material[64..].first_chunk().expect("long enough");
        let sealer = Sealer {
            header: [7, 0, 0, 23],
            header_len: V2_HEADER,
            iv,
            compression: CompressionFraming::None,
        };
        let plain = b"The quick little fox jumps over the bureaucratic hurdles";
        let layout = sealer.layout(plain.first().copied(), plain.len());
        assert_eq!(layout, Layout { payload: 24, datagram: 24 + plain.len() });
        let mut datagram = vec![0; layout.datagram];
        datagram[24..].copy_from_slice(plain);
        sealer.seal(&*aead, 1, &mut datagram, plain.len()).expect("seals");
        assert_eq!(datagram[..8], [7, 0, 0, 23, 0, 0, 0, 1]);
        let tag =
            [0x1f, 0xdd, 0x90, 0x8f, 0x0e, 0x9d, 0xc2, 0x5e, 0x79, 0xd8, 0x32, 0x02, 0x0d, 0x58, 0xe7, 0x3f];
        assert_eq!(datagram[8..24], tag);
        assert_eq!(datagram[34..40], [0xa8, 0x2e, 0x6b, 0x17, 0x06, 0xd9]);

        let opener = Opener { iv, compression: CompressionFraming::None };
        let opened = opener.open(&*aead, &mut datagram).expect("opens");
        assert_eq!((opened.counter, opened.payload.clone()), (1, 24..datagram.len()));
        assert_eq!(datagram[opened.payload], *plain);
    }

    fn unframe(compression: CompressionFraming, plain: &[u8]) -> Result<Vec<u8>, Drop> {
        let mut bytes = plain.to_vec();
        let range = Opener { iv: [0; 8], compression }.unframe(&mut bytes, 0..plain.len())?;
        Ok(bytes[range].to_vec())
    }

    #[test]
    fn compression_bytes() {
        use CompressionFraming::{LzoNo, None, Stub, StubV2};
        assert_eq!(unframe(None, b"\x45abc"), Ok(b"\x45abc".to_vec()));
        assert_eq!(unframe(LzoNo, b"\xfaabc"), Ok(b"abc".to_vec()));
        assert_eq!(unframe(LzoNo, b"\x66abc"), Err(Drop::Compressed));
        assert_eq!(unframe(LzoNo, b"\xfbabc"), Err(Drop::Malformed));
        assert_eq!(unframe(LzoNo, b""), Err(Drop::Malformed));
        assert_eq!(unframe(Stub, b"\xfbbca"), Ok(b"abc".to_vec()));
        assert_eq!(unframe(Stub, b"\xfb"), Ok(b"".to_vec()));
        assert_eq!(unframe(Stub, b"\x69abc"), Err(Drop::Compressed));
        assert_eq!(unframe(StubV2, b"abc"), Ok(b"abc".to_vec()));
        assert_eq!(unframe(StubV2, b"\x50\x00\x50bc"), Ok(b"\x50bc".to_vec()));
        assert_eq!(unframe(StubV2, b"\x50\x0aabc"), Ok(b"abc".to_vec()), "as OpenVPN 2 writes it");
        assert_eq!(unframe(StubV2, b"\x50\x01abc"), Err(Drop::Compressed));
        assert_eq!(unframe(StubV2, b"\x50"), Err(Drop::Compressed));
    }
}
