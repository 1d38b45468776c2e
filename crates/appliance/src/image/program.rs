//! The program of an image and the libraries that the loader gives it, without what only debuggers read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf};

/// Fields of a 64-bit ELF header that speak of sections (elf(5)): offset of the table, then number of entries and index of names.
const SECTION_TABLE: std::ops::Range<usize> = 0x28..0x30;
const SECTION_COUNTS: std::ops::Range<usize> = 0x3c..0x40;

/// A program or a library as the kernel and the loader need it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Loadable {
    /// The file without what lies behind its last segment: symbols, debug information and the table of sections.
    pub(super) bytes: Vec<u8>,
    /// The loader's path, if a loader starts it.
    pub(super) loader: Option<PathBuf>,
}

impl Loadable {
    /// Reads a 64-bit ELF file.
    ///
    /// # Errors
    /// The fault of a file that is none.
    pub(super) fn read(mut bytes: Vec<u8>) -> Result<Self, String> {
        let (end, loader) = extent(&bytes).map_err(|fault| format!("no 64-bit ELF program: {fault}"))?;
        bytes.truncate(end);
        for range in [SECTION_TABLE, SECTION_COUNTS] {
            if let Some(field) = bytes.get_mut(range) {
                field.fill(0);
            }
        }
        Ok(Loadable { bytes, loader })
    }
}

/// Where the last segment of a file ends, and the loader that it names.
fn extent(bytes: &[u8]) -> object::read::Result<(usize, Option<PathBuf>)> {
    let header = elf::FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let mut end = usize::from(header.e_phentsize(endian)) * usize::from(header.e_phnum(endian))
        + header.e_phoff(endian) as usize;
    let mut loader = None;
    for segment in header.program_headers(endian, bytes)? {
        end = end.max(segment.p_offset(endian).saturating_add(segment.p_filesz(endian)) as usize);
        if let Some(path) = segment.interpreter(endian, bytes)? {
            loader = Some(PathBuf::from(String::from_utf8_lossy(path).into_owned()));
        }
    }
    Ok((end, loader))
}

/// The shared libraries of a process, by the text of its `/proc/PID/maps`: those that the loader has found for it, and the loader.
pub(super) fn libraries(maps: &str) -> BTreeSet<PathBuf> {
    let path = |line: &str| {
        let mut words = line.split_whitespace();
        let is_code = words.nth(1)?.contains('x');
        let path = words.nth(3)?;
        (is_code && path.starts_with('/') && is_library(Path::new(path))).then(|| PathBuf::from(path))
    };
    maps.lines().filter_map(path).collect()
}

/// Whether a file has the name of a shared library, such as `libc.so.6`.
fn is_library(path: &Path) -> bool {
    path.file_name().is_some_and(|name| {
        let name = name.to_string_lossy();
        name.ends_with(".so") || name.contains(".so.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_the_files_with_code_that_the_loader_mapped() {
        let maps = "55d0-55d1 r-xp 00000000 fe:00 12 /usr/bin/adit\n\
                    7f00-7f01 r--p 00000000 fe:00 13 /usr/lib/libc.so.6\n\
                    7f01-7f02 r-xp 00001000 fe:00 13 /usr/lib/libc.so.6\n\
                    7f05-7f06 r-xp 00000000 fe:00 14 /usr/lib/ld-linux.so.2\n\
                    7f07-7f08 r-xp 00000000 00:00 0\n7ffd-7ffe r-xp 00000000 00:00 0 [vdso]\n";
        let wanted = ["/usr/lib/ld-linux.so.2", "/usr/lib/libc.so.6"].map(PathBuf::from);
        assert_eq!(libraries(maps), BTreeSet::from(wanted));
    }

    #[test]
    fn this_program_keeps_its_segments_and_loses_the_rest() {
        let whole = std::fs::read("/proc/self/exe").unwrap();
        let length = whole.len();
        let program = Loadable::read(whole).unwrap();
        assert!(program.bytes.len() < length);
        assert!(program.loader.is_none_or(|loader| loader.is_file()));
        assert!(Loadable::read(b"#!/bin/sh\n".to_vec()).unwrap_err().starts_with("no 64-bit ELF program"));
    }
}
