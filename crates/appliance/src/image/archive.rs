//! The archive that a kernel unpacks into its first file system: cpio's form "newc" (Linux,
//! Documentation/driver-api/early-userspace/buffer-format.rst).

use std::collections::BTreeSet;

/// The kinds of entries (stat(2)).
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// An archive in memory. Its entries belong to root.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    next: u32,
}

impl Archive {
    /// A folder that others may enter, with the folders that lead to it.
    pub(super) fn folder(&mut self, path: &str) {
        if path.is_empty() || !self.folders.insert(path.to_owned()) {
            return;
        }
        self.folders_to(path);
        self.entry(path, DIRECTORY | 0o755, &[]);
    }

    /// A file with these rights, and the folders that lead to it. A file of 4 GiB or more has no place here.
    pub(super) fn file(&mut self, path: &str, rights: u32, content: &[u8]) {
        self.folders_to(path);
        self.entry(path, REGULAR | rights, content);
    }

    /// A symbolic link, and the folders that lead to it.
    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.folders_to(path);
        self.entry(path, LINK | 0o777, target.as_bytes());
    }

    /// The bytes of the whole archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn folders_to(&mut self, path: &str) {
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder(folder);
        }
    }

    /// An entry: a header of hexadecimal numbers, the name, and the content, each padded to a multiple of four.
    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.next += 1;
        let (owners, links, time, devices, check) = ([0; 2], 1, 0, [0; 4], 0);
        let sizes = (content.len() as u32, name.len() as u32 + 1);
        let first = [self.next, mode].into_iter().chain(owners).chain([links, time, sizes.0]);
        self.bytes.extend_from_slice(b"070701");
        for field in first.chain(devices).chain([sizes.1, check]) {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cpio(5), "New ASCII Format".
    #[test]
    fn entries_have_the_form_newc_and_folders_stand_once() {
        let mut archive = Archive::default();
        archive.file("a/file", 0o600, b"12345");
        archive.link("a/link", "file");
        let text = String::from_utf8(archive.finish()).unwrap();
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
        assert!(text.trim_end_matches('\0').ends_with("TRAILER!!!"), "{text:?}");
        assert_eq!(text.len() % 4, 0);
    }
}
