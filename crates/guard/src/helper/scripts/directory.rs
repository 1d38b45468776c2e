//! The directory of scripts' files.
//!
//! The user that scripts become may own the directory around it ([`Scripts::directory`](super::super::Scripts::directory)), and
//! put a link in its place. So a helper makes, gives away, reads and removes files by descriptors, never by whole paths.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand_core::{OsRng, TryRngCore as _};
use rustix::fs::{
    AtFlags, Dir, FlockOperation, Mode, OFlags, fchmod, flock, mkdirat, open, openat, unlinkat,
};
use rustix::process::geteuid;

/// The largest file that is read back.
const MAX_FILE: u64 = 256 << 10;
/// The beginning of the directories' names; 16 hexadecimal digits follow.
pub(super) const PREFIX: &str = "adit-scripts-";

/// The directory of one helper. It is locked while the helper runs, and goes with this.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    locked: Arc<File>,
}

impl Directory {
    /// Makes and locks a directory below `parent`.
    pub(super) fn make(parent: &Path) -> io::Result<Self> {
        loop {
            // Another start may take it for abandoned before it is locked, and remove it.
            if let Some(directory) = Directory::lock(create(parent)?)? {
                return Ok(directory);
            }
        }
    }

    /// Locks the directory at `path`, which was just made. `None` if it is not there any more, or locked by another start.
    ///
    /// # Errors
    /// The owner of the directory around it has put something else in its place: a link, a file, or a directory of another user.
    pub(super) fn lock(path: PathBuf) -> io::Result<Option<Self>> {
        let locked = match lock(&path) {
            Ok(locked) => locked.filter(|_| path.is_dir()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let Some(locked) = locked else { return Ok(None) };
        if locked.metadata()?.uid() != geteuid().as_raw() {
            return Err(io::Error::other("the directory of scripts' files belongs to another user"));
        }
        Ok(Some(Directory { path, locked: Arc::new(locked) }))
    }

    /// A directory for the files of one run, that only this process's user can enter.
    pub(super) fn of_run(&self, number: u64) -> io::Result<RunDirectory> {
        let name = number.to_string();
        mkdirat(&self.locked, &name, Mode::RWXU)?;
        Ok(RunDirectory { path: self.path.join(&name), name, within: Arc::clone(&self.locked) })
    }

    /// Lets other users enter it, but none of the directories in it.
    pub(super) fn let_others_enter(&self) -> io::Result<()> {
        Ok(fchmod(&self.locked, Mode::RWXU | Mode::XGRP | Mode::XOTH)?)
    }
}

/// The directory of one run's files. It goes with this.
pub(super) struct RunDirectory {
    /// The path by which the script finds it.
    pub(super) path: PathBuf,
    name: String,
    within: Arc<File>,
}

impl RunDirectory {
    /// Makes a file with that content.
    pub(super) fn create(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        File::from(openat(self.open()?, name, flags, Mode::RUSR | Mode::WUSR)?).write_all(content)
    }

    /// Gives the directory and these files in it to a user and a group.
    pub(super) fn give(&self, names: &[String], uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        let directory = self.open()?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for name in names {
            fchown(openat(&directory, name, flags, Mode::empty())?, uid, gid)?;
        }
        fchown(&directory, uid, gid)
    }

    /// Reads a file that the script may have changed.
    pub(super) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        read_small(self.open()?, name)
    }

    fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.within, &self.name, flags, Mode::empty())?)
    }

    fn remove(&self) -> io::Result<()> {
        let directory = self.open()?;
        for entry in Dir::read_from(&directory)? {
            // Directories that the script made stay until the helper ends.
            let _ = unlinkat(&directory, entry?.file_name(), AtFlags::empty());
        }
        Ok(unlinkat(&self.within, &self.name, AtFlags::REMOVEDIR)?)
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // A file that cannot be removed now goes with the helper's directory.
        let _ = self.remove();
    }
}

/// Reads a file that a script may have changed, and which the script's user may have replaced: by a link to a file that
/// the user cannot read, or by a pipe.
pub(super) fn read_small(directory: impl AsFd, name: &str) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(directory, name, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.nlink() != 1 {
        return Err(io::Error::other("it is no file of its own"));
    }
    if metadata.len() > MAX_FILE {
        return Err(io::Error::other("too large"));
    }
    let mut content = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut content)?;
    Ok(content)
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Makes a directory with a random name below `parent`, which no other user can enter.
pub(super) fn create(parent: &Path) -> io::Result<PathBuf> {
    let tag = OsRng.try_next_u64().map_err(|error| io::Error::other(error.to_string()))?;
    let path = parent.join(format!("{PREFIX}{tag:016x}"));
    DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}

/// Opens a directory, never through a link, and locks it. `None` if another has it locked.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
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
            // It does not follow links either. A directory that cannot be removed is tried again by the next
            // start.
            let _ = fs::remove_dir_all(&path);
        }
    }
}
