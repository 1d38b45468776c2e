//! The list of the peers of a file that `adit block` keeps out, over restarts.

use std::fs;
use std::path::Path;

use adit_host::blocking::BlockedList;

/// The folder of lists in the state directory.
const FOLDER: &str = "ipsec";

/// The list of the peers of that file.
pub(crate) fn list(file: &Path) -> BlockedList {
    BlockedList::of(FOLDER, &label(file))
}

/// A label of a file in the names of other files: its name, and a digest of its path.
pub(crate) fn label(file: &Path) -> String {
    /// Most characters of the name: the path of a socket has 107 bytes at most (unix(7)).
    const LONGEST: usize = 16;
    let path = fs::canonicalize(file).or_else(|_| std::path::absolute(file));
    let path = path.unwrap_or_else(|_| file.to_owned());
    // FNV-1a, of 64 bits: it stays the same whatever compiles it.
    let digest =
        path.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
            (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let stem: String = stem.chars().filter(char::is_ascii_graphic).take(LONGEST).collect();
    format!("{stem}-{digest:016x}")
}
