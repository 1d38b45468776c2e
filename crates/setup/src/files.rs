//! Files below a server's directory: each is written with all its content or not at all.

mod fault;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use self::fault::before_change;
use crate::{SetupError, SetupFile, random};

/// Only the owner enters.
const DIRECTORY_MODE: u32 = 0o700;
/// The mode of the server's directory: other accounts do not see its content, but get through to the list of revoked
/// certificates, which a server that gave up root's rights reads again. All else in it is its owner's.
const TOP_DIRECTORY_MODE: u32 = 0o711;
/// The part of a temporary name between the file's name and 16 hexadecimal digits.
const MARK: &str = ".adit-";

/// The accounts that may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its owner alone: it holds a key or names clients.
    Owner,
    /// Every account that may enter the directory: a server that gave up root's rights reads it again.
    Everybody,
}

impl Access {
    fn mode(self) -> u32 {
        match self {
            Access::Owner => 0o600,
            Access::Everybody => 0o644,
        }
    }
}

/// The treatment of a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Replace it.
    Replace,
    /// Keep it and fail.
    Keep,
}

fn failed<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> SetupError + 'a {
    move |source| SetupError::File { what, path: path.into(), source }
}

/// Reads a text file that may hold a secret.
///
/// # Errors
/// When it cannot be read.
pub fn read(path: &Path) -> Result<Zeroizing<String>, SetupError> {
    fs::read_to_string(path).map(Zeroizing::new).map_err(failed("read", path))
}

/// The files in a directory, in the order of their names.
pub(crate) fn list(directory: &Path) -> Result<Vec<PathBuf>, SetupError> {
    let entries = fs::read_dir(directory).map_err(failed("look into", directory))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    Ok(files)
}

/// Writes a file, with all its content or not at all: to a temporary file in the same directory, which is flushed
/// to the disk and then takes the name. Every file below a server's directory is written here.
///
/// # Errors
/// When it cannot be written; then there is no part of it.
pub fn write(path: &Path, content: &[u8], access: Access, existing: Existing) -> Result<(), SetupError> {
    let draft = Draft { path: temporary(path)? };
    draft.fill(content, access)?;
    before_change().map_err(failed("write", path))?;
    match existing {
        Existing::Replace => fs::rename(&draft.path, path).map_err(failed("replace", path))?,
        // A hard link, because it fails where a rename would overwrite.
        Existing::Keep => fs::hard_link(&draft.path, path).map_err(failed("make", path))?,
    }
    drop(draft);
    sync_directory_of(path)
}

/// Writes a file below a directory, in place of one that is there, and makes the folders on the way to it.
///
/// # Errors
/// When it cannot be written; then there is no part of it.
pub(crate) fn write_below(directory: &Path, file: &SetupFile) -> Result<(), SetupError> {
    let folders: Vec<&Path> =
        file.path.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty()).collect();
    for folder in folders.into_iter().rev().map(|path| directory.join(path)) {
        if !folder.is_dir() {
            make_directory(&folder)?;
        }
    }
    write(&directory.join(&file.path), &file.content, file.access, Existing::Replace)
}

/// Removes a folder with all that is in it.
///
/// # Errors
/// When it stays, or a part of it.
pub(crate) fn remove_folder(path: &Path) -> Result<(), SetupError> {
    before_change().and_then(|()| fs::remove_dir_all(path)).map_err(failed("remove", path))?;
    sync_directory_of(path)
}

/// Removes a file if it is there.
///
/// # Errors
/// When it is there and stays.
pub fn remove(path: &Path) -> Result<(), SetupError> {
    match before_change().and_then(|()| fs::remove_file(path)) {
        Ok(()) => sync_directory_of(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("remove", path)(error)),
    }
}

/// Removes the temporary files that an interrupted command left in a directory. The directory is locked, so that no
/// other command writes there. A file that cannot be removed is tried again by the next command.
pub(crate) fn remove_temporary_files(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|entry| is_temporary(&entry.file_name().to_string_lossy())) {
        let _ = fs::remove_file(entry.path());
    }
}

/// Takes the lock of a directory and keeps it until the file is dropped.
pub(crate) fn lock(directory: &Path) -> Result<File, SetupError> {
    let file = File::open(directory).map_err(failed("open", directory))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|error| failed("lock", directory)(error.into()))?;
    Ok(file)
}

/// A file under a temporary name, removed when dropped.
struct Draft {
    path: PathBuf,
}

impl Draft {
    fn fill(&self, content: &[u8], access: Access) -> Result<(), SetupError> {
        before_change().map_err(failed("make", &self.path))?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(access.mode());
        let mut file = options.open(&self.path).map_err(failed("make", &self.path))?;
        if access == Access::Everybody {
            // The umask may have taken rights away.
            let readable = fs::Permissions::from_mode(access.mode());
            file.set_permissions(readable).map_err(failed("make readable", &self.path))?;
        }
        put(&mut file, content)
            .and_then(|()| before_change())
            .and_then(|()| file.sync_all())
            .map_err(failed("write", &self.path))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After a rename it is gone already.
        let _ = fs::remove_file(&self.path);
    }
}

/// A directory in the making, removed when dropped before it was settled.
pub(crate) struct NewDirectory {
    path: PathBuf,
    settled: bool,
    /// Tells another `adit init` that this one is at work.
    _lock: File,
}

impl NewDirectory {
    /// Starts a directory that will become `target`, which must not exist or be empty.
    pub(crate) fn beside(target: &Path) -> Result<Self, SetupError> {
        match fs::read_dir(target) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(exists(target));
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err(SetupError::Exists(target.into()));
            }
            Err(error) => return Err(failed("look into", target)(error)),
        }
        remove_abandoned(target);
        let path = temporary(target)?;
        make_directory(&path)?;
        let made = lock(&path);
        if made.is_err() {
            let _ = fs::remove_dir(&path);
        }
        Ok(NewDirectory { path, settled: false, _lock: made? })
    }

    /// Makes a directory in it.
    pub(crate) fn directory(&self, name: &str) -> Result<(), SetupError> {
        make_directory(&self.path.join(name))
    }

    /// Makes a file in it.
    pub(crate) fn file(&self, name: &str, content: &[u8], access: Access) -> Result<(), SetupError> {
        write(&self.path.join(name), content, access, Existing::Replace)
    }

    /// Makes a file in it, with the folders on the way to it.
    pub(crate) fn file_below(&self, file: &SetupFile) -> Result<(), SetupError> {
        write_below(&self.path, file)
    }

    /// Gives the directory its name, in one step.
    pub(crate) fn settle(mut self, target: &Path) -> Result<(), SetupError> {
        let enterable = fs::Permissions::from_mode(TOP_DIRECTORY_MODE);
        fs::set_permissions(&self.path, enterable).map_err(failed("make enterable", &self.path))?;
        match before_change().and_then(|()| fs::rename(&self.path, target)) {
            Ok(()) => {
                self.settled = true;
                sync_directory_of(target)
            }
            Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory) => {
                Err(exists(target))
            }
            Err(error) => Err(failed("make", target)(error)),
        }
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        if !self.settled {
            // Best effort: the user is shown the failure before this one.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Removes the directory that an `adit init` for the same target left when it was killed. One whose `adit init` is
/// still at work is locked.
fn remove_abandoned(target: &Path) {
    let Some(name) = target.file_name().map(|name| name.to_string_lossy()) else { return };
    let Ok(entries) = fs::read_dir(parent_of(target)) else { return };
    let prefix = format!(".{name}{MARK}");
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&prefix) && is_temporary(&name) && is_unlocked(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_unlocked(directory: &Path) -> bool {
    let operation = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    File::open(directory).is_ok_and(|file| rustix::fs::flock(&file, operation).is_ok())
}

/// The reason why `init` makes nothing there.
fn exists(target: &Path) -> SetupError {
    if target.join("pki/index.json").is_file() {
        return SetupError::Made(target.into());
    }
    SetupError::Exists(target.into())
}

fn make_directory(path: &Path) -> Result<(), SetupError> {
    before_change()
        .and_then(|()| DirBuilder::new().mode(DIRECTORY_MODE).create(path))
        .map_err(failed("make", path))
}

/// A temporary name beside `path`, so that a rename stays within one file system.
fn temporary(path: &Path) -> Result<PathBuf, SetupError> {
    let name = path.file_name().ok_or_else(|| {
        failed("make", path)(io::Error::new(ErrorKind::InvalidInput, "the path does not end with a name"))
    })?;
    let tag = u64::from_ne_bytes(*random::<8>()?);
    Ok(path.with_file_name(format!(".{}{MARK}{tag:016x}", name.to_string_lossy())))
}

/// Whether [`temporary`] makes such names.
fn is_temporary(name: &str) -> bool {
    let tag = name.strip_prefix('.').and_then(|name| name.rsplit_once(MARK)).map(|(_, tag)| tag);
    tag.is_some_and(|tag| tag.len() == 16 && tag.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn sync_directory_of(path: &Path) -> Result<(), SetupError> {
    let parent = parent_of(path);
    before_change()
        .and_then(|()| File::open(parent))
        .and_then(|directory| directory.sync_all())
        .map_err(failed("write", parent))
}

/// Writes a file's content, in two parts, so that tests can have a fault between them.
fn put(file: &mut File, content: &[u8]) -> io::Result<()> {
    let (first, rest) = content.split_at(content.len() / 2);
    file.write_all(first)?;
    before_change()?;
    file.write_all(rest)
}
