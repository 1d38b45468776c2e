//! Payloads on their way out: framed as not compressed, and cut.

use adit_dataplane::DropReason;
use adit_dataplane::codec::{Place, Sealer as SealerTrait};
use adit_openvpn::codec::{Compression, Payloads};

use super::fragment::{HEADER, Part, WHOLE_HEADER, part_size};
use crate::compression;

/// Bytes that the framing of compression adds at most.
pub(super) const FRAMING: usize = 2;

pub(super) struct Sealer {
    inner: Box<dyn SealerTrait>,
    compression: Compression,
    /// The most bytes of a part.
    most: Option<usize>,
    /// The number of the payload that was cut last.
    sequence: u8,
    /// A payload in its framing, behind room for a header.
    buffer: Box<[u8]>,
}

impl Sealer {
    pub(super) fn new(
        inner: Box<dyn SealerTrait>,
        compression: Compression,
        payloads: Payloads,
        sequence: u8,
    ) -> Self {
        let most = payloads.fragment.map(usize::from);
        let buffer = vec![0; HEADER + usize::from(payloads.longest) + FRAMING].into_boxed_slice();
        Sealer { inner, compression, most, sequence, buffer }
    }

    /// Puts a payload into the buffer, in its framing, and gives the length of both. `None` if it is too long.
    fn frame(&mut self, payload: &[u8]) -> Option<usize> {
        let (before, after) = compression::room(self.compression, payload.first().copied());
        let len = before + payload.len() + after;
        let framed = self.buffer.get_mut(HEADER..HEADER + len)?;
        framed.get_mut(before..before + payload.len())?.copy_from_slice(payload);
        compression::frame(self.compression, framed, payload.len())?;
        Some(len)
    }

    /// Seals the bytes in that part of the buffer, with a header in their first ones.
    fn seal_part(
        &mut self,
        (start, end): (usize, usize),
        header: [u8; HEADER],
        place: &mut Place<'_>,
    ) -> Result<(), DropReason> {
        let part = self.buffer.get_mut(start..end).ok_or(DropReason::TooBig)?;
        *part.first_chunk_mut().ok_or(DropReason::TooBig)? = header;
        self.inner.seal(part, place)
    }
}

impl SealerTrait for Sealer {
    /// All parts but the last are taken at once; the caller takes the last one, as it takes a datagram.
    fn seal(&mut self, payload: &[u8], place: &mut Place<'_>) -> Result<(), DropReason> {
        let len = self.frame(payload).ok_or(DropReason::TooBig)?;
        let Some(most) = self.most else {
            let framed = self.buffer.get(HEADER..HEADER + len).ok_or(DropReason::TooBig)?;
            return self.inner.seal(framed, place);
        };
        if len <= most {
            return self.seal_part((0, HEADER + len), WHOLE_HEADER, place);
        }
        let size = part_size(len, most).ok_or(DropReason::TooBig)?;
        self.sequence = self.sequence.wrapping_add(1);
        let last = len.div_ceil(size) - 1;
        for index in 0..=last {
            let part = Part { sequence: self.sequence, index, is_last: index == last, size };
            // The header takes the place of the end of the part before, which is sealed already.
            let start = index * size;
            let end = HEADER + len.min(start + size);
            self.seal_part((start, end), part.header(), place)?;
            if index < last {
                place.commit();
            }
        }
        Ok(())
    }

    fn set_mtu(&mut self, mtu: u16) {
        self.inner.set_mtu(mtu);
    }
}
