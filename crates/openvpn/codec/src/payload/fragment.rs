//! The header of a part (OpenVPN fragment.h), 32 bits, big-endian. From the lowest bit on: the kind (2), the payload's
//! number (8), the part's number (5), and, of a last part, the size of all others in units of four bytes (14).

use adit_dataplane::DropReason;

/// Bytes of the header.
pub(super) const HEADER: usize = 4;
/// The most parts of a payload.
pub(super) const PARTS: usize = 32;
/// Sizes of parts are multiples of this.
const UNIT: usize = 4;

/// The kinds. There is a fourth, for tests of a path, which OpenVPN drops too.
const WHOLE: u32 = 0;
const PART: u32 = 1;
const LAST: u32 = 2;

const SEQUENCE_SHIFT: u32 = 2;
const INDEX_SHIFT: u32 = 10;
const INDEX_MASK: u32 = 0x1f;
const SIZE_SHIFT: u32 = 15;
const SIZE_MASK: u32 = 0x3fff;

/// The header of a payload that is not cut.
pub(super) const WHOLE_HEADER: [u8; HEADER] = [0; HEADER];

/// A part of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The payload's number.
    pub(super) sequence: u8,
    /// The part's number, below [`PARTS`].
    pub(super) index: usize,
    pub(super) is_last: bool,
    /// Bytes of each part but the last, which may have less.
    pub(super) size: usize,
}

impl Part {
    pub(super) fn header(&self) -> [u8; HEADER] {
        let kind = if self.is_last { LAST } else { PART };
        let size = if self.is_last { (self.size / UNIT) as u32 & SIZE_MASK } else { 0 };
        let sequence = u32::from(self.sequence) << SEQUENCE_SHIFT;
        let index = (self.index as u32 & INDEX_MASK) << INDEX_SHIFT;
        (kind | sequence | index | size << SIZE_SHIFT).to_be_bytes()
    }

    /// Reads the header in front of `len` bytes. `Ok(None)`: they are a whole payload.
    ///
    /// # Errors
    /// [`DropReason::Malformed`] if no part is like that.
    pub(super) fn read(header: [u8; HEADER], len: usize) -> Result<Option<Part>, DropReason> {
        let header = u32::from_be_bytes(header);
        let sequence = (header >> SEQUENCE_SHIFT) as u8;
        let index = (header >> INDEX_SHIFT & INDEX_MASK) as usize;
        let is_last = match header & 3 {
            WHOLE if sequence == 0 && index == 0 => return Ok(None),
            PART => false,
            LAST => true,
            _ => return Err(DropReason::Malformed),
        };
        let size = if is_last { (header >> SIZE_SHIFT & SIZE_MASK) as usize * UNIT } else { len };
        if len == 0 || len > size || size % UNIT != 0 {
            return Err(DropReason::Malformed);
        }
        Ok(Some(Part { sequence, index, is_last, size }))
    }
}

/// The size of the parts of a payload of `len` bytes: about equal, and no more than `most`. `None` if there would be too
/// many.
pub(super) fn part_size(len: usize, most: usize) -> Option<usize> {
    let most = (most / UNIT * UNIT).max(UNIT);
    let count = len.div_ceil(most).max(1);
    (count <= PARTS).then(|| len.div_ceil(count).next_multiple_of(UNIT))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As OpenVPN's `fragment_prepend_flags` writes them.
    #[test]
    fn headers_are_as_openvpn_writes_them() {
        let part = Part { sequence: 0xa5, index: 0, is_last: false, size: 740 };
        assert_eq!(part.header(), (1u32 | 0xa5 << 2).to_be_bytes());
        let last = Part { index: 1, is_last: true, ..part };
        assert_eq!(last.header(), (2u32 | 0xa5 << 2 | 1 << 10 | 185 << 15).to_be_bytes());
        assert_eq!(Part::read(part.header(), 740), Ok(Some(part)));
        assert_eq!(Part::read(last.header(), 733), Ok(Some(last)));
    }

    #[test]
    fn what_is_no_part_is_malformed() {
        assert_eq!(Part::read([0; 4], 0), Ok(None));
        // The bits of a size say nothing of a whole payload.
        assert_eq!(Part::read(0xffff_8000_u32.to_be_bytes(), 9), Ok(None));
        for (header, len) in
            [(3u32, 8), (1 << 2, 8), (1 << 10, 8), (1, 0), (1, 7), (2, 8), (2 | 1 << 15, 5), (2 | 2 << 15, 0)]
        {
            assert_eq!(
                Part::read(header.to_be_bytes(), len),
                Err(DropReason::Malformed),
                "{header:x}, {len}"
            );
        }
    }

    proptest! {
        #[test]
        fn parts_are_about_equal_and_not_too_many(len in 1usize..70_000, most in 0usize..2000) {
            let Some(size) = part_size(len, most) else {
                prop_assert!(len.div_ceil((most / 4 * 4).max(4)) > PARTS);
                return Ok(());
            };
            let count = len.div_ceil(size);
            prop_assert!(size % 4 == 0 && size <= most.max(4) && count <= PARTS);
            prop_assert!(len > (count - 1) * size, "the last one is not empty");
            for index in 0..count {
                let part = Part { sequence: len as u8, index, is_last: index + 1 == count, size };
                let bytes = size.min(len - index * size);
                prop_assert_eq!(Part::read(part.header(), bytes), Ok(Some(part)));
            }
        }

        #[test]
        fn any_header_is_read(header: [u8; 4], len in 0usize..2000) {
            if let Ok(Some(part)) = Part::read(header, len) {
                prop_assert!(part.index < PARTS && len <= part.size && len > 0);
            }
        }
    }
}
