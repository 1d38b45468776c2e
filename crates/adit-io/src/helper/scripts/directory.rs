//! The directory of scripts' files.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rand_core::{OsRng, TryRngCore as _};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::process::geteuid;

/// What the names of the directories begin with; 16 hexadecimal digits follow.
pub(super) const PREFIX: &str = "adit-scripts-";

/// The directory of one helper. It is locked while the helper runs, and goes with this.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    _lock: fs::File,
}

impl Directory {
    pub(super) fn make(parent: &Path) -> io::Result<Self> {
        loop {
            let tag = OsRng.try_next_u64().map_err(|error| io::Error::other(error.to_string()))?;
            let path = parent.join(format!("{PREFIX}{tag:016x}"));
            DirBuilder::new().mode(0o700).create(&path)?;
            // Another start may take it for abandoned before it is locked, and remove it.
            match lock(&path) {
                Ok(Some(lock)) if path.is_dir() => return Ok(Directory { path, _lock: lock }),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Opens a directory, never through a link, and locks it. `None` if another has it locked.
fn lock(path: &Path) -> io::Result<Option<fs::File>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = fs::File::from(open(path, flags, Mode::empty())?);
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Removes the directories of helpers that were killed: ours, of the name that [`Directory`] gives, and not locked.
pub(super) fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let tag = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let named =
            tag.is_some_and(|tag| tag.len() == 16 && tag.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if !named {
            continue;
        }
        let path = entry.path();
        let Ok(Some(lock)) = lock(&path) else { continue };
        if lock.metadata().is_ok_and(|metadata| metadata.uid() == geteuid().as_raw()) {
            // It does not follow links either. What cannot be removed is tried again by the next start.
            let _ = fs::remove_dir_all(&path);
        }
    }
}
