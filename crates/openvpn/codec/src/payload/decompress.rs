//! Decompression into a buffer that bounds its result.

use std::ops::Range;

use adit_dataplane::DropReason;
use adit_openvpn::codec::Compression;

use crate::compression::{self, Algorithm};

/// Where a payload is that was taken out of its framing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unframed {
    /// The range of an uncompressed payload.
    InPlace(Range<usize>),
    /// The length of a decompressed payload at the start of the buffer.
    Decompressed(usize),
}

/// Takes payloads out of their framing.
pub(super) struct Unframing {
    compression: Compression,
    /// The buffer for decompressed payloads. Empty: nothing is.
    pub(super) buffer: Box<[u8]>,
}

impl Unframing {
    /// Decompresses to at most that many bytes; nothing, if none are given.
    pub(super) fn new(compression: Compression, longest: Option<usize>) -> Self {
        Unframing { compression, buffer: vec![0; longest.unwrap_or(0)].into_boxed_slice() }
    }

    /// Takes out the payload that lies there.
    ///
    /// # Errors
    /// [`DropReason::Decompression`] if it does not decompress, or to more than the buffer holds; otherwise that of the
    /// framing.
    pub(super) fn take(&mut self, bytes: &mut [u8], framed: Range<usize>) -> Result<Unframed, DropReason> {
        if !self.buffer.is_empty()
            && let Some((algorithm, range)) = compression::compressed(self.compression, bytes, &framed)
        {
            let compressed = bytes.get(range).ok_or(DropReason::Malformed)?;
            return decompress(algorithm, compressed, &mut self.buffer)
                .filter(|len| *len > 0)
                .map(Unframed::Decompressed)
                .ok_or(DropReason::Decompression);
        }
        compression::unframe(self.compression, bytes, framed).map(Unframed::InPlace)
    }
}

/// Decompresses, and gives the length. `None` if the input is malformed, or the buffer is too small.
fn decompress(algorithm: Algorithm, compressed: &[u8], buffer: &mut [u8]) -> Option<usize> {
    match algorithm {
        Algorithm::Lzo => lzokay::decompress::decompress(compressed, buffer).ok(),
        Algorithm::Lz4 => lz4_flex::block::decompress_into(compressed, buffer).ok(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::vectors::{self, Vector};
    use super::*;

    /// The result of unframing these bytes, with room for so many.
    fn unframed(compression: Compression, framed: &[u8], longest: usize) -> Result<Vec<u8>, DropReason> {
        let mut unframing = Unframing::new(compression, Some(longest));
        let mut bytes = framed.to_vec();
        Ok(match unframing.take(&mut bytes, 0..framed.len())? {
            Unframed::InPlace(range) => bytes[range].to_vec(),
            Unframed::Decompressed(len) => unframing.buffer[..len].to_vec(),
        })
    }

    #[test]
    fn what_the_libraries_compress_is_decompressed() {
        for Vector { plain, lzo, lz4 } in vectors::all() {
            for (compression, framed) in [
                (Compression::LzoNo, vectors::framed_lzo(&lzo)),
                (Compression::Stub, vectors::framed_lz4(&lz4)),
                (Compression::StubV2, vectors::framed_lz4_v2(&lz4)),
            ] {
                assert_eq!(unframed(compression, &framed, plain.len()).as_ref(), Ok(&plain));
                assert_eq!(unframed(compression, &framed, 3000).as_ref(), Ok(&plain));
                for longest in [1, plain.len() / 2, plain.len() - 1] {
                    let found = unframed(compression, &framed, longest);
                    assert_eq!(found, Err(DropReason::Decompression), "{longest}");
                }
                for len in 3..framed.len() {
                    let found = unframed(compression, &framed[..len], 3000);
                    assert_ne!(found.as_ref(), Ok(&plain), "cut to {len}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_compressed_stays_in_place() {
        use Compression::{LzoNo, Stub, StubV2};
        for (compression, framed) in [(LzoNo, &b"\xfaabc"[..]), (Stub, b"\xfbbca"), (StubV2, b"abc")] {
            assert_eq!(unframed(compression, framed, 10), Ok(b"abc".to_vec()));
        }
        for (compression, framed) in
            [(LzoNo, &b"\x66"[..]), (Stub, b"\x69"), (StubV2, b"\x50\x01"), (LzoNo, b"\x66\x11\0\0")]
        {
            assert_eq!(
                unframed(compression, framed, 10),
                Err(DropReason::Decompression),
                "nothing comes out"
            );
        }
        // Of another algorithm than the framing's.
        for (compression, framed) in [(LzoNo, &b"\x69abc"[..]), (Stub, b"\x66abc"), (StubV2, b"\x50\x02abc")]
        {
            assert_eq!(unframed(compression, framed, 10), Err(DropReason::Compressed));
        }
        let mut unframing = Unframing::new(LzoNo, None);
        let found = unframing.take(&mut b"\x66\x12a\x11\0\0".to_vec(), 0..6);
        assert_eq!(found, Err(DropReason::Compressed), "it was not asked for");
    }

    proptest! {
        #[test]
        fn whatever_comes_is_bounded(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            longest in 1usize..400,
            kind in 0usize..3,
        ) {
            let (compression, front): (_, &[u8]) = [
                (Compression::LzoNo, &b"\x66"[..]),
                (Compression::Stub, b"\x69"),
                (Compression::StubV2, b"\x50\x01"),
            ][kind];
            let framed = [front, &bytes].concat();
            if let Ok(found) = unframed(compression, &framed, longest) {
                prop_assert!(!found.is_empty() && found.len() <= longest);
            }
        }
    }
}
