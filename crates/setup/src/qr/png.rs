//! PNG images of one bit a pixel, uncompressed (<https://www.w3.org/TR/png-3/>).

use zeroize::Zeroizing;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// The longest block that DEFLATE stores (RFC 1951 §3.2.4).
const MAX_STORED: usize = 65_535;

/// A square image of `side` pixels, a multiple of 8, which are black where `is_black` says so of column and row.
pub(super) fn encode(side: usize, is_black: impl Fn(usize, usize) -> bool) -> Zeroizing<Vec<u8>> {
    let mut pixels = Zeroizing::new(Vec::with_capacity(side * (side / 8 + 1)));
    for y in 0..side {
        // The filter of the row: none.
        pixels.push(0);
        for x in (0..side).step_by(8) {
            pixels.push((x..x + 8).fold(0, |byte, x| (byte << 1) | u8::from(!is_black(x, y))));
        }
    }
    let data = stored(&pixels);
    let length = u32::try_from(side).unwrap_or(u32::MAX).to_be_bytes();
    // One bit a pixel, greyscale, the only compression and filters that there are, not interlaced.
    let header = [&length[..], &length, &[1, 0, 0, 0, 0]].concat();
    let mut image = Zeroizing::new(Vec::with_capacity(data.len() + 128));
    image.extend_from_slice(SIGNATURE);
    chunk(&mut image, b"IHDR", &header);
    chunk(&mut image, b"IDAT", &data);
    chunk(&mut image, b"IEND", &[]);
    image
}

fn chunk(image: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    image.extend_from_slice(&length.to_be_bytes());
    image.extend_from_slice(kind);
    image.extend_from_slice(data);
    image.extend_from_slice(&crc32(kind.iter().chain(data)).to_be_bytes());
}

/// A zlib stream (RFC 1950) of stored blocks.
fn stored(data: &[u8]) -> Zeroizing<Vec<u8>> {
    let blocks = data.chunks(MAX_STORED);
    let count = blocks.len();
    let mut stream = Zeroizing::new(Vec::with_capacity(data.len() + 5 * count + 6));
    stream.extend_from_slice(&[0x78, 0x01]);
    for (number, block) in (1..).zip(blocks) {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        stream.push(u8::from(number == count));
        stream.extend_from_slice(&length.to_le_bytes());
        stream.extend_from_slice(&(!length).to_le_bytes());
        stream.extend_from_slice(block);
    }
    stream.extend_from_slice(&adler32(data).to_be_bytes());
    stream
}

/// CRC-32 as PNG has it (Annex D).
fn crc32<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes.fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// Adler-32 (RFC 1950 §8.2).
fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % MODULUS;
        (low, (high + low) % MODULUS)
    });
    (high << 16) | low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_others() {
        // The catalogue's check value, and the chunk with which every PNG file ends.
        assert_eq!(crc32(b"123456789".iter()), 0xcbf4_3926);
        assert_eq!(crc32(b"IEND".iter()), 0xae42_6082);
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
    }

    #[test]
    fn long_images_are_stored_in_several_blocks() {
        let data = vec![7; MAX_STORED + 1];
        let stream = stored(&data);
        assert_eq!(stream[..7], [0x78, 0x01, 0, 0xff, 0xff, 0, 0]);
        assert_eq!(stream[7 + MAX_STORED..][..6], [1, 1, 0, 0xfe, 0xff, 7]);
        assert_eq!(stream.len(), 2 + 5 + MAX_STORED + 5 + 1 + 4);
    }
}
