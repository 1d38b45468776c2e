//! The compressions of an initramfs.

use std::io::Write as _;

use lzma_rust2::{CheckType, FilterType, XzOptions, XzWriter};

/// The compression of an initramfs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// xz: the image is smaller by a quarter, and takes longer to make and to unpack.
    #[default]
    Xz,
    /// gzip.
    Gzip,
}

/// xz's usual preset (xz(1)).
const PRESET: u32 = 6;

impl Compression {
    /// The compressed archive. Writing to memory does not fail.
    pub(super) fn apply(self, archive: &[u8]) -> Vec<u8> {
        match self {
            Compression::Xz => xz(archive).unwrap_or_default(),
            Compression::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
                let _ = encoder.write_all(archive);
                encoder.finish().unwrap_or_default()
            }
        }
    }
}

/// As a kernel unpacks it (Linux, Documentation/staging/xz.rst): with CRC32, and addresses of calls made alike for programs of a PC.
fn xz(archive: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut options = XzOptions::with_preset(PRESET);
    options.set_check_sum_type(CheckType::Crc32);
    if cfg!(target_arch = "x86_64") {
        options.prepend_pre_filter(FilterType::BcjX86, 0);
    }
    let mut encoder = XzWriter::new(Vec::new(), options)?;
    encoder.write_all(archive)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_kernel_knows_the_check_of_an_archive_that_xz_has_packed() {
        let archive = b"an archive ".repeat(100);
        let packed = Compression::Xz.apply(&archive);
        // The .xz file format, section 2.1.1: the magic number, and the flags with the kind of check; 1 is CRC32.
        assert!(packed.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0, 0, 1]), "{packed:?}");
        let mut unpacked = Vec::new();
        lzma_rust2::XzReader::new(packed.as_slice(), false).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, archive);
    }
}
