//! Archives that a kernel unpacks into its first file system: cpio's form "newc" (Linux,
//! Documentation/driver-api/early-userspace/buffer-format.rst).
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::io::{Error, Result, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The kinds of entries in a mode (inode(7)).
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// An archive that is written to `W`. Its paths begin at its root, without a slash.
#[derive(Debug)]
pub struct Archive<W> {
    out: W,
    /// Folders that have an entry of [`Archive::folder`].
    folders: BTreeSet<PathBuf>,
    /// The number of the last entry: no two are links to one file.
    number: u32,
}

/// The attributes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The kind and the rights (inode(7)).
    pub mode: u32,
    /// The number of the owner.
    pub user: u32,
    /// The number of the owner's group.
    pub group: u32,
}

impl Attributes {
    fn of_root(mode: u32) -> Self {
        Attributes { mode, user: 0, group: 0 }
    }
}

impl<W: Write> Archive<W> {
    /// An archive without entries.
    pub fn new(out: W) -> Self {
        Archive { out, folders: BTreeSet::new(), number: 0 }
    }

    /// Adds a folder of root's that others may enter, with the folders that lead to it. Each is added once.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn folder(&mut self, path: &Path) -> Result<()> {
        if path.as_os_str().is_empty() || !self.folders.insert(path.to_owned()) {
            return Ok(());
        }
        self.folders_to(path)?;
        self.entry(path, Attributes::of_root(DIRECTORY | 0o755), &[])
    }

    /// Adds the folders that lead to a path.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn folders_to(&mut self, path: &Path) -> Result<()> {
        path.parent().map_or(Ok(()), |folder| self.folder(folder))
    }

    /// Adds a file of root's with these rights, and the folders that lead to it.
    ///
    /// # Errors
    /// The error of the writer, or a content of 4 GiB or more.
    pub fn file(&mut self, path: &Path, rights: u32, content: &[u8]) -> Result<()> {
        self.folders_to(path)?;
        self.entry(path, Attributes::of_root(REGULAR | rights), content)
    }

    /// Adds a symbolic link, and the folders that lead to it.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn link(&mut self, path: &Path, target: &Path) -> Result<()> {
        self.folders_to(path)?;
        self.entry(path, Attributes::of_root(LINK | 0o777), target.as_os_str().as_bytes())
    }

    /// Adds an entry: a header of hexadecimal numbers, the name, and the content, each padded to a multiple of four. The content
    /// of a symbolic link is its target, that of a folder is empty.
    ///
    /// # Errors
    /// The error of the writer, or a content of 4 GiB or more.
    pub fn entry(&mut self, path: &Path, attributes: Attributes, content: &[u8]) -> Result<()> {
        let name = path.as_os_str().as_bytes();
        let size = u32::try_from(content.len()).map_err(|_| Error::other("a file of 4 GiB or more"))?;
        self.number += 1;
        let Attributes { mode, user, group } = attributes;
        let (links, time, devices, length, check) = (1, 0, [0; 4], name.len() as u32 + 1, 0);
        let mut header = String::from("070701");
        let fields = [self.number, mode, user, group, links, time, size].into_iter();
        for field in fields.chain(devices).chain([length, check]) {
            header += &format!("{field:08x}");
        }
        self.out.write_all(header.as_bytes())?;
        self.out.write_all(name)?;
        self.out.write_all(&[0; 4][..1 + padding(header.len() + name.len() + 1)])?;
        self.out.write_all(content)?;
        self.out.write_all(&[0; 3][..padding(content.len())])
    }

    /// Ends the archive, and gives its writer back.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn finish(mut self) -> Result<W> {
        self.entry(Path::new("TRAILER!!!"), Attributes::of_root(0), &[])?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// How many bytes are missing to a multiple of four.
fn padding(length: usize) -> usize {
    length.wrapping_neg() % 4
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cpio(5), "New ASCII Format".
    #[test]
    fn entries_have_the_form_newc_and_folders_stand_once() {
        let mut archive = Archive::new(Vec::new());
        archive.file(Path::new("a/file"), 0o600, b"12345").unwrap();
        archive.link(Path::new("a/link"), Path::new("file")).unwrap();
        let owned = Attributes { mode: 0o100_600, user: 7, group: 8 };
        archive.entry(Path::new("a/owned"), owned, &[]).unwrap();
        let text = String::from_utf8(archive.finish().unwrap()).unwrap();
        // Number, mode, user, group, links, time, size, four of devices, length of the name, no check.
        let header = "070701 00000002 00008180 00000000 00000000 00000001 00000000 00000005 00000000 00000000 00000000 00000000 \
                      00000007 00000000";
        let wanted = format!("{}a/file\0", header.replace(' ', ""));
        let at = text.find(&wanted).unwrap();
        assert_eq!(at % 4, 0);
        assert!(
            text[at + wanted.len()..].trim_start_matches('\0').starts_with("12345\0\0\x00070701"),
            "{text:?}"
        );
        assert!(text.starts_with("0707010000000100"), "{text:?}");
        assert_eq!(text.matches("a\0").count(), 1, "{text:?}");
        assert!(text.contains("00000004000081800000000700000008"), "{text:?}");
        assert!(text.trim_end_matches('\0').ends_with("TRAILER!!!"), "{text:?}");
        assert_eq!(text.len() % 4, 0);
    }
}
