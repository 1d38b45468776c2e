//! The files that a configuration includes and names: from the disk, and as the helper has read them.

use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use adit_guard::Gathered;
use adit_host::configuration::is_exposed;
use adit_ike_config::{Entry, Files};
use rustix::fs::OFlags;
use zeroize::Zeroizing;

/// The largest file, in bytes. Certificates and revocation lists are smaller.
const MOST_BYTES: u64 = 16 << 20;
/// Most files and folders that a configuration names.
const MOST_FILES: usize = 10_000;
/// In the place of a name within a folder: the listing of the folder.
const LISTING: &str = "*";

/// The files on the disk. Each that was read is remembered, with its content.
#[derive(Default)]
pub(crate) struct Disk {
    seen: RefCell<Vec<Seen>>,
}

/// A file or a listing, and why it cannot be read.
type Seen = (PathBuf, Result<Zeroizing<Vec<u8>>, String>);

impl Disk {
    /// The files that were read and that other users can read or write, of those that hold keys.
    pub(crate) fn exposed_keys(&self) -> Vec<PathBuf> {
        let seen = self.seen.borrow();
        let holds_key = |(path, content): &&Seen| {
            content.as_ref().is_ok_and(|content| holds_secret(content) || is_packed(path))
        };
        seen.iter().filter(holds_key).map(|(path, _)| path.clone()).filter(|path| is_exposed(path)).collect()
    }

    /// All that was read, for another process.
    pub(crate) fn into_gathered(self) -> Vec<(PathBuf, Result<Vec<u8>, String>)> {
        let all = self.seen.into_inner().into_iter();
        all.map(|(path, content)| (path, content.map(|content| content.to_vec()))).collect()
    }

    fn remember(
        &self,
        path: PathBuf,
        content: Result<Zeroizing<Vec<u8>>, String>,
    ) -> Result<Zeroizing<Vec<u8>>, String> {
        let mut seen = self.seen.borrow_mut();
        if seen.len() >= MOST_FILES {
            return Err(format!("the configuration names more than {MOST_FILES} files"));
        }
        seen.push((path, content.clone()));
        content
    }
}

impl Files for Disk {
    fn read(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
        self.remember(path.to_owned(), read(path).map_err(|error| error.to_string()))
    }

    fn entries(&self, folder: &Path) -> Result<Vec<Entry>, String> {
        let entries = entries(folder).map_err(|error| error.to_string());
        let listing = entries.as_ref().map(|entries| Zeroizing::new(to_listing(entries)));
        self.remember(folder.join(LISTING), listing.map_err(Clone::clone))?;
        entries
    }
}

/// The files as the helper has read them.
pub(crate) struct Read<'a>(pub(crate) &'a Gathered);

impl Read<'_> {
    fn find(&self, path: &Path) -> Result<&[u8], String> {
        match self.0.files.iter().find(|(name, _)| name == path) {
            Some((_, content)) => content.as_deref().map_err(Clone::clone),
            None => Err("it was not read with the configuration".to_owned()),
        }
    }
}

impl Files for Read<'_> {
    fn read(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
        self.find(path).map(|content| Zeroizing::new(content.to_vec()))
    }

    fn entries(&self, folder: &Path) -> Result<Vec<Entry>, String> {
        self.find(&folder.join(LISTING)).map(of_listing)
    }
}

/// Reads a regular file. A pipe of that name does not stop the reading.
pub(crate) fn read(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    if metadata.len() > MOST_BYTES {
        return Err(io::Error::other(format!("it has more than {MOST_BYTES} bytes")));
    }
    let mut content = Zeroizing::new(Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0)));
    file.take(MOST_BYTES).read_to_end(&mut content)?;
    Ok(content)
}

fn entries(folder: &Path) -> io::Result<Vec<Entry>> {
    let all = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        all => all?,
    };
    let mut entries = Vec::new();
    for entry in all.take(MOST_FILES) {
        let entry = entry?;
        // A link counts as what it leads to.
        let (Ok(name), Ok(metadata)) = (entry.file_name().into_string(), fs::metadata(entry.path())) else {
            continue;
        };
        if metadata.is_dir() || metadata.is_file() {
            entries.push(Entry { name, is_folder: metadata.is_dir() });
        }
    }
    Ok(entries)
}

/// The entries in lines that end with a NUL, as a name may have any other character; those of folders begin with a slash.
fn to_listing(entries: &[Entry]) -> Vec<u8> {
    let line = |entry: &Entry| format!("{}{}\0", if entry.is_folder { "/" } else { "" }, entry.name);
    entries.iter().map(line).collect::<String>().into_bytes()
}

fn of_listing(listing: &[u8]) -> Vec<Entry> {
    let names = listing.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let entry = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        let name = line.strip_prefix('/').unwrap_or(&line).to_owned();
        Entry { is_folder: line.starts_with('/'), name }
    };
    names.map(entry).collect()
}

/// Whether a text has a private key, or a secret of a section of `secrets`.
fn holds_secret(content: &[u8]) -> bool {
    const MARKS: [&[u8]; 2] = [b"PRIVATE KEY-----", b"secret"];
    MARKS.iter().any(|mark| content.windows(mark.len()).any(|window| window == *mark))
}

/// Whether a file holds a key by its folder: keys may stand there without a mark.
fn is_packed(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name);
    folder.is_some_and(|folder| {
        ["private", "rsa", "ecdsa", "pkcs8", "pkcs12"].iter().any(|name| folder == *name)
    })
}

#[cfg(test)]
mod tests {
    use adit_testbed::Scratch;

    use super::*;

    #[test]
    fn another_process_reads_the_files_and_folders_that_were_read_here() {
        let scratch = Scratch::create("swanctl").expect("a directory");
        let file = scratch.write("a.conf", "connections {}").expect("a file");
        let folder = scratch.path().join("x509");
        fs::create_dir(&folder).expect("a directory");
        fs::create_dir(folder.join("more")).expect("a directory");
        fs::write(folder.join("one.pem"), "one").expect("a file");
        let disk = Disk::default();
        let missing = scratch.path().join("none");
        let look = |files: &dyn Files| {
            let mut entries = files.entries(&folder);
            entries.iter_mut().for_each(|entries| entries.sort());
            (files.read(&file), files.read(&missing), entries, files.entries(&missing), files.read(&folder))
        };
        let found = look(&disk);
        assert_eq!(found.0.as_deref().map(Vec::as_slice), Ok(&b"connections {}"[..]));
        let entry = |name: &str, is_folder| Entry { name: name.to_owned(), is_folder };
        assert_eq!(found.2, Ok(vec![entry("more", true), entry("one.pem", false)]));
        assert_eq!(found.3, Ok(Vec::new()), "no folder");
        assert!(found.1.is_err() && found.4 == Err("it is no regular file".to_owned()));
        let gathered = Gathered { text: Vec::new(), files: disk.into_gathered(), allowed: None };
        assert_eq!(look(&Read(&gathered)), found);
        assert!(Read(&gathered).read(&folder.join("one.pem")).is_err(), "it was not read");
    }

    #[test]
    fn files_with_keys_that_others_can_read_are_found() {
        use std::os::unix::fs::PermissionsExt as _;
        let scratch = Scratch::create("exposed").expect("a directory");
        let disk = Disk::default();
        let write = |name: &str, text: &str, mode| {
            let file = scratch.write(name, text).expect("a file");
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("it is ours");
            disk.read(&file).expect("a file");
            file
        };
        let exposed = write("secrets.conf", "secrets { ike { secret = a } }", 0o644);
        write("other.conf", "secrets { ike { secret = a } }", 0o600);
        write("plain.conf", "connections {}", 0o644);
        assert_eq!(disk.exposed_keys(), [exposed]);
    }
}
