//! OpenVPN's AEAD data channel: `DATA_V1` and `DATA_V2` (OpenVPN crypto.c, ssl.c).
//!
//! `DATA_V2`: opcode and key id (1), peer-id (3), packet id (4), tag (16), ciphertext; all in front of the
//! tag is authenticated. `DATA_V1` has no peer-id, and authenticates the packet id alone.

use std::ops::Range;

use adit_dataplane::DropReason;
use adit_dataplane::aead::{Aead, Message, NONCE_LEN, TAG_LEN};
use adit_dataplane::codec::{Decode, Encode, Layout, Plain, Window};
use adit_openvpn::codec::{Compression, DataFraming, DataHeader};
use adit_openvpn::wire::Opcode;

use crate::compression;

/// The last packet id; a session never goes round.
pub(super) const COUNTER_MAX: u64 = 0xffff_ffff;
/// Where OpenVPN renegotiates (packet_id.h, `PACKET_ID_WRAP_TRIGGER`).
pub(super) const COUNTER_WARN: u64 = 0xff00_0000;

pub(super) const DATA_V1: u8 = Opcode::DataV1 as u8;
pub(super) const DATA_V2: u8 = Opcode::DataV2 as u8;
pub(super) const V1_HEADER: usize = 1;
pub(super) const V2_HEADER: usize = 4;
pub(super) const PACKET_ID: usize = 4;
/// The authenticated bytes of `DATA_V2`, and all bytes in front of its ciphertext.
const V2_AUTHENTICATED: usize = V2_HEADER + PACKET_ID;
const V2_FRONT: usize = V2_AUTHENTICATED + TAG_LEN;

fn nonce(packet_id: [u8; PACKET_ID], iv: [u8; 8]) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[..PACKET_ID].copy_from_slice(&packet_id);
    nonce[PACKET_ID..].copy_from_slice(&iv);
    nonce
}

/// The header in front of all datagrams that we send in a session.
pub(super) struct Header {
    bytes: [u8; V2_HEADER],
    /// How many of `bytes` are sent.
    pub(super) len: usize,
}

impl Header {
    /// Nothing.
    pub(super) const NONE: Header = Header { bytes: [0; V2_HEADER], len: 0 };

    pub(super) fn new(framing: DataFraming) -> Self {
        let key_id = framing.key_id & 7;
        match framing.header {
            DataHeader::V1 => Header { bytes: [DATA_V1 << 3 | key_id, 0, 0, 0], len: V1_HEADER },
            DataHeader::V2 { peer_id } => {
                let [_, a, b, c] = peer_id.to_be_bytes();
                Header { bytes: [DATA_V2 << 3 | key_id, a, b, c], len: V2_HEADER }
            }
        }
    }

    /// The header of `DATA_V2`.
    pub(super) fn v2(&self) -> Option<[u8; V2_HEADER]> {
        (self.len == V2_HEADER).then_some(self.bytes)
    }

    #[inline]
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        self.bytes.get(..self.len)
    }
}

/// Length of the header of a received data datagram.
#[inline]
pub(super) fn header_len(datagram: &[u8]) -> usize {
    match datagram.first() {
        Some(first) if first >> 3 == DATA_V1 => V1_HEADER,
        _ => V2_HEADER,
    }
}

pub(super) struct Sealer {
    aead: Box<dyn Aead>,
    header: Header,
    iv: [u8; 8],
    compression: Compression,
}

impl Sealer {
    pub(super) fn new(framing: DataFraming, aead: Box<dyn Aead>, iv: [u8; 8]) -> Self {
        Sealer { aead, header: Header::new(framing), iv, compression: framing.compression }
    }

    /// Where the ciphertext starts.
    fn body(&self) -> usize {
        self.header.len + PACKET_ID + TAG_LEN
    }

    /// Seals a payload that lies in its place. `None` if the datagram has not the length that `layout` gave,
    /// or the AEAD refuses.
    #[inline]
    fn seal(&self, counter: u64, datagram: &mut [u8], payload_len: usize) -> Option<()> {
        let (nonce, aad, tag, body) = self.prepare(counter, datagram)?;
        compression::frame(self.compression, body, payload_len)?;
        *tag = self.aead.seal(nonce, aad, body).ok()?;
        Some(())
    }

    /// Seals a payload that lies elsewhere. `None` if the datagram has not the length that `layout` gave, or
    /// the AEAD refuses.
    #[inline]
    fn seal_from(&self, counter: u64, payload: &[u8], datagram: &mut [u8]) -> Option<()> {
        let (nonce, aad, tag, body) = self.prepare(counter, datagram)?;
        self.aead.seal_from(nonce, aad, payload, body, tag).ok()
    }

    /// Writes the header, and gives the nonce, the authenticated bytes, and the places of tag and ciphertext.
    #[inline]
    fn prepare<'d>(&self, counter: u64, datagram: &'d mut [u8]) -> Option<Parts<'d>> {
        let packet_id = u32::try_from(counter).ok()?.to_be_bytes();
        if self.header.len != V2_HEADER {
            return self.prepare_v1(packet_id, datagram);
        }
        // Lengths that are known beforehand: a copy of any length would be a call.
        let (front, body) = datagram.split_first_chunk_mut::<V2_FRONT>()?;
        let (authenticated, tag) = front.split_first_chunk_mut::<V2_AUTHENTICATED>()?;
        let ([a, b, c, d], [e, f, g, h]) = (self.header.bytes, packet_id);
        *authenticated = [a, b, c, d, e, f, g, h];
        Some((nonce(packet_id, self.iv), authenticated, tag.first_chunk_mut()?, body))
    }

    /// [`Sealer::prepare`] for `DATA_V1`, whose opcode is not authenticated.
    fn prepare_v1<'d>(&self, packet_id: [u8; PACKET_ID], datagram: &'d mut [u8]) -> Option<Parts<'d>> {
        let ([opcode, id @ ..], rest) = datagram.split_first_chunk_mut::<{ V1_HEADER + PACKET_ID }>()?;
        let (tag, body) = rest.split_first_chunk_mut()?;
        *opcode = self.header.bytes[0];
        *id = packet_id;
        Some((nonce(packet_id, self.iv), id, tag, body))
    }
}

impl Encode for Sealer {
    #[inline]
    fn layout(&self, first: Option<u8>, payload_len: usize) -> Layout {
        let (before, after) = compression::room(self.compression, first);
        let payload = self.body() + before;
        Layout { payload, datagram: payload + payload_len + after }
    }

    #[inline]
    fn encode(&self, counter: u64, payload: &[u8], datagram: &mut [u8], layout: Layout) -> Option<()> {
        if self.compression == Compression::None {
            return self.seal_from(counter, payload, datagram);
        }
        // The compression byte must be sealed with the payload: that is done in place.
        let place = layout.payload..layout.payload.checked_add(payload.len())?;
        datagram.get_mut(place)?.copy_from_slice(payload);
        self.seal(counter, datagram, payload.len())
    }

    #[inline]
    fn batching(&self) -> Option<&dyn Aead> {
        (self.compression == Compression::None && self.aead.gains_from_batches()).then_some(&*self.aead)
    }

    fn lay_out<'d>(
        &self,
        counter: u64,
        payload: &[u8],
        datagram: &'d mut [u8],
    ) -> Option<(Message<'d>, &'d mut [u8; TAG_LEN])> {
        let (nonce, aad, tag, text) = self.prepare(counter, datagram)?;
        text.get_mut(..payload.len())?.copy_from_slice(payload);
        Some((Message { nonce, aad, text, tag: [0; TAG_LEN] }, tag))
    }
}

/// Nonce, the authenticated bytes, and the places of tag and ciphertext.
type Parts<'d> = ([u8; NONCE_LEN], &'d [u8], &'d mut [u8; TAG_LEN], &'d mut [u8]);

pub(super) struct Opener {
    aead: Box<dyn Aead>,
    iv: [u8; 8],
    compression: Compression,
}

impl Opener {
    pub(super) fn new(framing: DataFraming, aead: Box<dyn Aead>, iv: [u8; 8]) -> Self {
        Opener { aead, iv, compression: framing.compression }
    }

    /// Opens either version, as the datagram's opcode says.
    #[inline]
    fn open(&self, datagram: &mut [u8]) -> Result<Plain, DropReason> {
        let (message, plain) = self.parts(datagram).ok_or(DropReason::Malformed)?;
        let opened = self.aead.open(message.nonce, message.aad, &message.tag, message.text);
        opened.map(|()| plain).map_err(|_| DropReason::BadTag)
    }

    /// `None` if the datagram is too short, or its packet id is 0.
    #[inline]
    fn parts<'d>(&self, datagram: &'d mut [u8]) -> Option<(Message<'d>, Plain)> {
        let end = datagram.len();
        if header_len(datagram) == V1_HEADER {
            let ([_, id @ ..], rest) = datagram.split_first_chunk_mut::<{ V1_HEADER + PACKET_ID }>()?;
            let (tag, text) = rest.split_first_chunk_mut()?;
            return self.message(*id, id, *tag, text, end);
        }
        let (front, text) = datagram.split_first_chunk_mut::<V2_FRONT>()?;
        let (authenticated, tag) = front.split_first_chunk::<V2_AUTHENTICATED>()?;
        self.message(*authenticated.last_chunk()?, authenticated, *tag.first_chunk()?, text, end)
    }

    /// A message whose text is at the end of the datagram. `None` if its packet id is 0.
    #[inline]
    fn message<'d>(
        &self,
        id: [u8; PACKET_ID],
        aad: &'d [u8],
        tag: [u8; TAG_LEN],
        text: &'d mut [u8],
        end: usize,
    ) -> Option<(Message<'d>, Plain)> {
        let counter = u64::from(u32::from_be_bytes(id));
        let payload = end - text.len()..end;
        let message = Message { nonce: nonce(id, self.iv), aad, text, tag };
        (counter != 0).then_some((message, Plain { counter, payload }))
    }
}

impl Decode for Opener {
    #[inline]
    fn decode(&self, datagram: &mut [u8], _seen: &Window) -> Result<Plain, DropReason> {
        self.open(datagram)
    }

    #[inline]
    fn batching(&self) -> Option<&dyn Aead> {
        self.aead.gains_from_batches().then_some(&*self.aead)
    }

    #[inline]
    fn take_apart<'d>(
        &self,
        datagram: &'d mut [u8],
        _seen: &Window,
    ) -> Result<(Message<'d>, Plain), DropReason> {
        self.parts(datagram).ok_or(DropReason::Malformed)
    }

    #[inline]
    fn unframe(&self, datagram: &mut [u8], payload: Range<usize>) -> Result<Range<usize>, DropReason> {
        compression::unframe(self.compression, datagram, payload)
    }
}

#[cfg(test)]
mod tests {
    use adit_core::Cipher;
    use adit_dataplane::aead;

    use super::*;

    /// The known vector of OpenVPN's tests/unit_tests/openvpn/test_ssl.c,
    /// `test_data_channel_known_vectors_shortpktid`: its header bytes are no `DATA_V2` opcode, which the
    /// AEAD does not mind.
    #[test]
    fn openvpn_known_vector() {
        let text = b"abcdefgh01234567ABCDEFGHjkuchenl";
        let material: Vec<u8> = (0..=255u8).map(|i| text[usize::from(i) % 32] ^ i).collect();
        let aead = || aead::aws_lc(Cipher::Aes256Gcm, &material[..32]).expect("the key fits");
        let iv = *material[64..].first_chunk().expect("long enough");
        let sealer = Sealer {
            aead: aead(),
            header: Header { bytes: [7, 0, 0, 23], len: V2_HEADER },
            iv,
            compression: Compression::None,
        };
        let plain = b"The quick little fox jumps over the bureaucratic hurdles";
        let layout = sealer.layout(plain.first().copied(), plain.len());
        assert_eq!(layout, Layout { payload: 24, datagram: 24 + plain.len() });
        let mut datagram = vec![0; layout.datagram];
        datagram[24..].copy_from_slice(plain);
        sealer.seal(1, &mut datagram, plain.len()).expect("seals");
        let mut from_elsewhere = vec![0xaa; layout.datagram];
        sealer.seal_from(1, plain, &mut from_elsewhere).expect("seals");
        assert_eq!(from_elsewhere, datagram);
        assert_eq!(datagram[..8], [7, 0, 0, 23, 0, 0, 0, 1]);
        let tag =
            [0x1f, 0xdd, 0x90, 0x8f, 0x0e, 0x9d, 0xc2, 0x5e, 0x79, 0xd8, 0x32, 0x02, 0x0d, 0x58, 0xe7, 0x3f];
        assert_eq!(datagram[8..24], tag);
        assert_eq!(datagram[34..40], [0xa8, 0x2e, 0x6b, 0x17, 0x06, 0xd9]);

        let opener = Opener { aead: aead(), iv, compression: Compression::None };
        let opened = opener.open(&mut datagram).expect("opens");
        assert_eq!((opened.counter, opened.payload.clone()), (1, 24..datagram.len()));
        assert_eq!(datagram[opened.payload], *plain);
    }
}
