//! A guest's files, as an archive in a file.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{BufWriter, Error};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use adit_cpio::{Archive, Attributes};

use crate::TestbedError;

/// The rights of a program.
const PROGRAM: u32 = 0o755;

/// An archive that is being written.
pub(super) struct Initramfs {
    path: PathBuf,
    archive: Archive<BufWriter<File>>,
    /// The paths that trees have brought.
    paths: BTreeSet<PathBuf>,
}

impl Initramfs {
    /// Begins an archive in a new file.
    pub(super) fn create(path: &Path) -> Result<Self, TestbedError> {
        let file = File::create(path).map_err(|source| failed(path, source))?;
        Ok(Self {
            path: path.to_owned(),
            archive: Archive::new(BufWriter::new(file)),
            paths: BTreeSet::new(),
        })
    }

    /// Everything below the folder `from`, below `to` in the archive. Of the folders `without`, which are paths below `from`, the
    /// content is left out. So are devices and sockets, and paths that an earlier tree has brought.
    pub(super) fn tree(&mut self, from: &Path, to: &str, without: &[&str]) -> Result<(), TestbedError> {
        if !to.is_empty() {
            self.archive.folder(Path::new(to)).map_err(|source| failed(&self.path, source))?;
        }
        let mut left = vec![PathBuf::new()];
        while let Some(folder) = left.pop() {
            let path = from.join(&folder);
            let entries = std::fs::read_dir(&path).map_err(|source| failed(&path, source))?;
            for entry in entries.flatten() {
                let below = folder.join(entry.file_name());
                let path = Path::new(to).join(&below);
                if self.paths.insert(path.clone()) {
                    self.copy(&entry.path(), &path)?;
                }
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
        self.archive.folders_to(to).map_err(|source| failed(&self.path, source))?;
        self.copy(from, to)
    }

    /// A program with this text, at this path of the archive.
    pub(super) fn script(&mut self, to: &str, text: &str) -> Result<(), TestbedError> {
        let added = self.archive.file(Path::new(to), PROGRAM, text.as_bytes());
        added.map_err(|source| failed(&self.path, source))
    }

    /// Ends the archive.
    pub(super) fn finish(self) -> Result<(), TestbedError> {
        self.archive.finish().map(drop).map_err(|source| failed(&self.path, source))
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
        self.archive.entry(to, attributes, &content).map_err(|source| failed(&self.path, source))
    }
}

fn failed(path: &Path, source: Error) -> TestbedError {
    TestbedError::File { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    #[test]
    fn of_two_trees_the_first_has_the_paths_of_both() {
        let scratch = Scratch::create("initramfs").unwrap();
        for (name, only) in [("one", "first"), ("two", "second")] {
            let folder = scratch.path().join(name);
            std::fs::create_dir_all(folder.join("etc")).unwrap();
            std::fs::write(folder.join("etc/both"), format!("both of {name}")).unwrap();
            std::fs::write(folder.join("etc").join(only), format!("only of {name}")).unwrap();
        }
        let path = scratch.path().join("archive");
        let mut archive = Initramfs::create(&path).unwrap();
        archive.tree(&scratch.path().join("one"), "", &[]).unwrap();
        archive.tree(&scratch.path().join("two"), "", &[]).unwrap();
        archive.finish().unwrap();
        let text = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
        for (part, count) in [("both of one", 1), ("both of two", 0), ("only of one", 1), ("only of two", 1)]
        {
            assert_eq!(text.matches(part).count(), count, "{part}");
        }
    }

    #[test]
    fn a_tree_comes_with_its_links_and_without_the_content_of_some_folders() {
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
        assert!(text.contains("init\0\x0012345"), "{text:?}");
        assert!(text.contains("to/link\0") && text.contains("target\0\x00070701"), "{text:?}");
        assert!(text.contains("to/left/out\0") && !text.contains("to/left/out/file"), "{text:?}");
    }
}
