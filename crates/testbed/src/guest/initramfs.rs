//! The archive that a kernel unpacks into its first file system: cpio's form "newc" (Linux, `driver-api/early-userspace`).

use std::fs::{File, Metadata};
use std::io::{BufWriter, Error, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::TestbedError;

/// Kinds of files in a mode (inode(7)).
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;

/// An archive that is being written.
pub(super) struct Initramfs {
    path: PathBuf,
    file: BufWriter<File>,
    /// The number of the next entry: no two are links to one file.
    next: u32,
}

/// The attributes of a file in its entry, besides its name and content.
struct Attributes {
    mode: u32,
    user: u32,
    group: u32,
}

impl Initramfs {
    /// Begins an archive in a new file.
    pub(super) fn create(path: &Path) -> Result<Self, TestbedError> {
        let file = File::create(path).map_err(|source| failed(path, source))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file), next: 1 })
    }

    /// Everything below the folder `from`, below `to` in the archive. Of the folders `without`, which are paths below `from`, the
    /// content is left out. So are devices and sockets.
    pub(super) fn tree(&mut self, from: &Path, to: &str, without: &[&str]) -> Result<(), TestbedError> {
        if !to.is_empty() {
            self.folders_to(&Path::new(to).join("below"))?;
        }
        let mut left = vec![PathBuf::new()];
        while let Some(folder) = left.pop() {
            let path = from.join(&folder);
            let entries = std::fs::read_dir(&path).map_err(|source| failed(&path, source))?;
            for entry in entries.flatten() {
                let below = folder.join(entry.file_name());
                self.copy(&entry.path(), &Path::new(to).join(&below))?;
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder && !without.iter().any(|name| below == Path::new(name)) {
                    left.push(below);
                }
            }
        }
        Ok(())
    }

    /// A file under the absolute path `to`, with the folders that lead there.
    pub(super) fn file(&mut self, from: &Path, to: &Path) -> Result<(), TestbedError> {
        let to = to.strip_prefix("/").unwrap_or(to);
        self.folders_to(to)?;
        self.copy(from, to)
    }

    /// The folders that lead to a path of the archive. A folder that is there already stays as it is, but for its mode.
    fn folders_to(&mut self, path: &Path) -> Result<(), TestbedError> {
        let folders: Vec<&Path> =
            path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()).collect();
        for folder in folders.into_iter().rev() {
            self.entry(folder, &Attributes { mode: DIRECTORY | 0o755, user: 0, group: 0 }, &[])?;
        }
        Ok(())
    }

    /// A program with this text, at this path of the archive.
    pub(super) fn script(&mut self, to: &str, text: &str) -> Result<(), TestbedError> {
        let to = Path::new(to);
        self.folders_to(to)?;
        self.entry(to, &Attributes { mode: REGULAR | 0o755, user: 0, group: 0 }, text.as_bytes())
    }

    /// Ends the archive.
    pub(super) fn finish(mut self) -> Result<(), TestbedError> {
        self.entry(Path::new("TRAILER!!!"), &Attributes { mode: 0, user: 0, group: 0 }, &[])?;
        self.file.flush().map_err(|source| failed(&self.path, source))
    }

    /// A file, folder or symbolic link of this system.
    fn copy(&mut self, from: &Path, to: &Path) -> Result<(), TestbedError> {
        let read = || -> Result<Option<(Metadata, Vec<u8>)>, Error> {
            let metadata = std::fs::symlink_metadata(from)?;
            let content = match metadata.file_type() {
                kind if kind.is_file() => std::fs::read(from)?,
                kind if kind.is_symlink() => std::fs::read_link(from)?.as_os_str().as_bytes().to_vec(),
                kind if kind.is_dir() => Vec::new(),
                _ => return Ok(None),
            };
            Ok(Some((metadata, content)))
        };
        let Some((metadata, content)) = read().map_err(|source| failed(from, source))? else { return Ok(()) };
        let attributes = Attributes { mode: metadata.mode(), user: metadata.uid(), group: metadata.gid() };
        self.entry(to, &attributes, &content)
    }

    /// An entry: a header of hexadecimal numbers, the name, and the content, each padded to a multiple of four.
    fn entry(&mut self, name: &Path, attributes: &Attributes, content: &[u8]) -> Result<(), TestbedError> {
        let name = name.as_os_str().as_bytes();
        let number = self.next;
        self.next += 1;
        let size = u32::try_from(content.len())
            .map_err(|_| failed(&self.path, Error::other("a file of 4 GiB or more")))?;
        let length = name.len() as u32 + 1;
        let (links, time, devices, check) = (1, 0, [0; 4], 0);
        let fields = [number, attributes.mode, attributes.user, attributes.group, links, time, size];
        let mut header = String::from("070701");
        for field in fields.into_iter().chain(devices).chain([length, check]) {
            header += &format!("{field:08x}");
        }
        let mut write = || -> Result<(), Error> {
            self.file.write_all(header.as_bytes())?;
            self.file.write_all(name)?;
            self.file.write_all(&[0; 4][..1 + padding(header.len() + name.len() + 1)])?;
            self.file.write_all(content)?;
            self.file.write_all(&[0; 3][..padding(content.len())])
        };
        write().map_err(|source| failed(&self.path, source))
    }
}

/// How many bytes are missing to a multiple of four.
fn padding(length: usize) -> usize {
    length.wrapping_neg() % 4
}

fn failed(path: &Path, source: Error) -> TestbedError {
    TestbedError::File { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    /// cpio(5), "New ASCII Format".
    #[test]
    fn entries_have_the_form_newc() {
        let scratch = Scratch::create("initramfs").unwrap();
        let folder = scratch.path().join("from");
        std::fs::create_dir_all(folder.join("left/out")).unwrap();
        std::fs::write(folder.join("left/out/file"), "").unwrap();
        std::os::unix::fs::symlink("target", folder.join("link")).unwrap();
        let path = scratch.path().join("archive");
        let mut archive = Initramfs::create(&path).unwrap();
        archive.script("init", "12345").unwrap();
        archive.tree(&folder, "to", &["left/out"]).unwrap();
        archive.finish().unwrap();
        let text = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
        // Number, mode, user, group, links, time, size, four of devices, length of the name, no check.
        let fields = "00000001 000081ed 00000000 00000000 00000001 00000000 00000005 00000000 00000000 00000000 00000000 00000005 \
                      00000000";
        let init = format!("070701{}init", fields.replace(' ', ""));
        assert!(text.starts_with(&init), "{text}");
        assert!(text[init.len()..].starts_with("\0\x0012345\0\0\x00070701"), "{text:?}");
        assert!(text.contains("to/link\0") && text.contains("target\0\x00070701"), "{text:?}");
        assert!(text.contains("to/left/out\0") && !text.contains("to/left/out/file"), "{text:?}");
        assert!(text.trim_end_matches('\0').ends_with("TRAILER!!!"), "{text:?}");
        assert_eq!(text.len() % 4, 0);
    }
}
