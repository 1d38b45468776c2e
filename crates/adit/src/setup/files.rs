use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::{SetupError, random};

/// Only the owner reads and writes.
const FILE_MODE: u32 = 0o600;
/// Only the owner enters.
const DIRECTORY_MODE: u32 = 0o700;

fn failed<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> SetupError + 'a {
    move |source| SetupError::File { what, path: path.into(), source }
}

/// Reads a text file that may hold a secret.
pub(super) fn read(path: &Path) -> Result<Zeroizing<String>, SetupError> {
    fs::read_to_string(path).map(Zeroizing::new).map_err(failed("read", path))
}

/// Makes a file that did not exist: with all its content, or not at all.
pub(super) fn create(path: &Path, content: &[u8]) -> Result<(), SetupError> {
    let draft = Draft::beside(path, content)?;
    // A hard link, because it fails where a rename would overwrite.
    fs::hard_link(&draft.path, path).map_err(failed("make", path))?;
    sync_directory_of(path)
}

/// Replaces a file's content: all of it, or nothing.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), SetupError> {
    let draft = Draft::beside(path, content)?;
    fs::rename(&draft.path, path).map_err(failed("replace", path))?;
    sync_directory_of(path)
}

/// Takes the lock of a directory and keeps it until the file is dropped.
pub(super) fn lock(directory: &Path) -> Result<File, SetupError> {
    let file = File::open(directory).map_err(failed("open", directory))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|error| failed("lock", directory)(error.into()))?;
    Ok(file)
}

/// A file under a name of its own, removed when dropped.
struct Draft {
    path: PathBuf,
}

impl Draft {
    fn beside(path: &Path, content: &[u8]) -> Result<Self, SetupError> {
        let draft = Draft { path: temporary(path)? };
        write(&draft.path, content)?;
        Ok(draft)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After a rename it is gone already.
        let _ = fs::remove_file(&self.path);
    }
}

/// A directory in the making, removed when dropped before it was settled.
pub(super) struct NewDirectory {
    path: PathBuf,
    settled: bool,
}

impl NewDirectory {
    /// Starts a directory that will become `target`, which must not exist or be empty.
    pub(super) fn beside(target: &Path) -> Result<Self, SetupError> {
        match fs::read_dir(target) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(SetupError::Exists(target.into()));
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err(SetupError::Exists(target.into()));
            }
            Err(error) => return Err(failed("look into", target)(error)),
        }
        let path = temporary(target)?;
        DirBuilder::new().mode(DIRECTORY_MODE).create(&path).map_err(failed("make", &path))?;
        Ok(NewDirectory { path, settled: false })
    }

    /// Makes a directory in it.
    pub(super) fn directory(&self, name: &str) -> Result<(), SetupError> {
        let path = self.path.join(name);
        DirBuilder::new().mode(DIRECTORY_MODE).create(&path).map_err(failed("make", &path))
    }

    /// Makes a file in it.
    pub(super) fn file(&self, name: &str, content: &[u8]) -> Result<(), SetupError> {
        write(&self.path.join(name), content)
    }

    /// Gives the directory its name, in one step.
    pub(super) fn settle(mut self, target: &Path) -> Result<(), SetupError> {
        match fs::rename(&self.path, target) {
            Ok(()) => {
                self.settled = true;
                sync_directory_of(target)
            }
            Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory) => {
                Err(SetupError::Exists(target.into()))
            }
            Err(error) => Err(failed("make", target)(error)),
        }
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        if !self.settled {
            // Best effort: what failed before is what the user hears of.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A name of its own beside `path`, so that a rename stays within one file system.
fn temporary(path: &Path) -> Result<PathBuf, SetupError> {
    let name = path.file_name().ok_or_else(|| {
        failed("make", path)(io::Error::new(ErrorKind::InvalidInput, "the path does not end with a name"))
    })?;
    let tag = u64::from_ne_bytes(*random::<8>()?);
    Ok(path.with_file_name(format!(".{}.{tag:016x}", name.to_string_lossy())))
}

fn write(path: &Path, content: &[u8]) -> Result<(), SetupError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path)
        .map_err(failed("make", path))?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(failed("write", path))
}

fn sync_directory_of(path: &Path) -> Result<(), SetupError> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent).and_then(|directory| directory.sync_all()).map_err(failed("write", parent))
}
