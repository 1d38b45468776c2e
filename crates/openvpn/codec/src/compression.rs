//! OpenVPN's compression framings (OpenVPN comp.c, compstub.c): a byte or two inside the encryption that say
//! whether the payload is compressed, and how. Ours never is.

use std::ops::Range;

use adit_dataplane::DropReason;
use adit_openvpn::codec::Compression;

const LZO_COMPRESSED: u8 = 0x66;
const LZ4_COMPRESSED: u8 = 0x69;
const NOT_COMPRESSED: u8 = 0xfa;
const NOT_COMPRESSED_SWAP: u8 = 0xfb;
const V2_INDICATOR: u8 = 0x50;
const V2_UNCOMPRESSED: u8 = 0x00;
const V2_LZ4: u8 = 0x01;
/// The byte that OpenVPN 2 writes in place of [`V2_UNCOMPRESSED`].
const V2_UNCOMPRESSED_ALIAS: u8 = 0x0a;

/// Bytes before and after a payload that starts with `first`.
#[inline]
pub(super) fn room(compression: Compression, first: Option<u8>) -> (usize, usize) {
    match compression {
        Compression::None => (0, 0),
        Compression::LzoNo => (1, 0),
        Compression::Stub => (0, 1),
        Compression::StubV2 if first == Some(V2_INDICATOR) => (2, 0),
        Compression::StubV2 => (0, 0),
    }
}

/// Frames a payload of `payload_len` bytes that lies in `body` with the room that [`room`] gave. `None` if
/// there is none.
#[inline]
pub(super) fn frame(compression: Compression, body: &mut [u8], payload_len: usize) -> Option<()> {
    match compression {
        Compression::None => {}
        Compression::LzoNo => *body.first_mut()? = NOT_COMPRESSED,
        Compression::Stub => {
            *body.last_mut()? = *body.first()?;
            *body.first_mut()? = NOT_COMPRESSED_SWAP;
        }
        Compression::StubV2 if body.len() > payload_len => {
            *body.first_chunk_mut()? = [V2_INDICATOR, V2_UNCOMPRESSED];
        }
        Compression::StubV2 => {}
    }
    Some(())
}

/// Takes the payload out of its framing.
#[inline]
pub(super) fn unframe(
    compression: Compression,
    datagram: &mut [u8],
    framed: Range<usize>,
) -> Result<Range<usize>, DropReason> {
    let Range { start, end } = framed;
    let body = datagram.get_mut(start..end).ok_or(DropReason::Malformed)?;
    match (compression, &mut *body) {
        (Compression::None, _) => Ok(start..end),
        (Compression::LzoNo, [NOT_COMPRESSED, ..]) => Ok(start + 1..end),
        (Compression::Stub, [first @ NOT_COMPRESSED_SWAP, .., last]) => {
            *first = *last;
            Ok(start..end - 1)
        }
        (Compression::Stub, [NOT_COMPRESSED_SWAP]) => Ok(end..end),
        (Compression::LzoNo | Compression::Stub, [LZO_COMPRESSED | LZ4_COMPRESSED, ..]) => {
            Err(DropReason::Compressed)
        }
        (Compression::LzoNo | Compression::Stub, _) => Err(DropReason::Malformed),
        (Compression::StubV2, [V2_INDICATOR, V2_UNCOMPRESSED | V2_UNCOMPRESSED_ALIAS, ..]) => {
            Ok(start + 2..end)
        }
        (Compression::StubV2, [V2_INDICATOR, ..]) => Err(DropReason::Compressed),
        (Compression::StubV2, _) => Ok(start..end),
    }
}

/// How a payload is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// LZO1X.
    Lzo,
    /// An LZ4 block.
    Lz4,
}

/// The compressed part of a framed payload, of the kind that goes with the framing. `None`: it is not compressed, or in
/// a way that [`unframe`] has a reason to drop for.
pub(super) fn compressed(
    compression: Compression,
    datagram: &mut [u8],
    framed: &Range<usize>,
) -> Option<(Algorithm, Range<usize>)> {
    let Range { start, end } = *framed;
    match (compression, datagram.get_mut(start..end)?) {
        (Compression::LzoNo, [LZO_COMPRESSED, ..]) => Some((Algorithm::Lzo, start + 1..end)),
        (Compression::Stub, [first @ LZ4_COMPRESSED, .., last]) => {
            *first = *last;
            Some((Algorithm::Lz4, start..end - 1))
        }
        (Compression::Stub, [LZ4_COMPRESSED]) => Some((Algorithm::Lz4, end..end)),
        (Compression::StubV2, [V2_INDICATOR, V2_LZ4, ..]) => Some((Algorithm::Lz4, start + 2..end)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unframed(compression: Compression, plain: &[u8]) -> Result<Vec<u8>, DropReason> {
        let mut bytes = plain.to_vec();
        let range = unframe(compression, &mut bytes, 0..plain.len())?;
        Ok(bytes[range].to_vec())
    }

    #[test]
    fn compression_bytes() {
        use Compression::{LzoNo, None, Stub, StubV2};
        assert_eq!(unframed(None, b"\x45abc"), Ok(b"\x45abc".to_vec()));
        assert_eq!(unframed(LzoNo, b"\xfaabc"), Ok(b"abc".to_vec()));
        assert_eq!(unframed(LzoNo, b"\x66abc"), Err(DropReason::Compressed));
        assert_eq!(unframed(LzoNo, b"\xfbabc"), Err(DropReason::Malformed));
        assert_eq!(unframed(LzoNo, b""), Err(DropReason::Malformed));
        assert_eq!(unframed(Stub, b"\xfbbca"), Ok(b"abc".to_vec()));
        assert_eq!(unframed(Stub, b"\xfb"), Ok(b"".to_vec()));
        assert_eq!(unframed(Stub, b"\x69abc"), Err(DropReason::Compressed));
        assert_eq!(unframed(StubV2, b"abc"), Ok(b"abc".to_vec()));
        assert_eq!(unframed(StubV2, b"\x50\x00\x50bc"), Ok(b"\x50bc".to_vec()));
        assert_eq!(unframed(StubV2, b"\x50\x0aabc"), Ok(b"abc".to_vec()), "as OpenVPN 2 writes it");
        assert_eq!(unframed(StubV2, b"\x50\x01abc"), Err(DropReason::Compressed));
        assert_eq!(unframed(StubV2, b"\x50"), Err(DropReason::Compressed));
    }
}
