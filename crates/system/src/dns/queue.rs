//! The queue of processes that wait for `/etc/resolv.conf`: files beside it, one for each process, with the content
//! that it shall have then. The process that leaves it puts the first of them into its place, so that no process needs
//! a message.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::geteuid;

/// How long a process may hold the lock, and how often is looked whether it still does: it reads and writes a few small
/// files meanwhile.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Larger files are none of ours.
const MAX_FILE: u64 = 1 << 16;

/// The part of these files' names after the file's own; the number in the queue and that of the process follow.
const WAITING: &str = ".adit-waiting-";

/// The right to change the file and the queue. Its own file goes with it.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Waits until no other process has it.
    ///
    /// # Errors
    /// When one has it for too long, or the directory cannot be written.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        let path = with_ending(path, ".adit-lock");
        let tries = LOCK_TIMEOUT.as_millis() / LOOK_EVERY.as_millis();
        for _ in 0..tries {
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600);
            let file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(&path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // The one before may have removed the file while we opened it.
                Ok(()) if is_at(&file, &path) => return Ok(Lock { path, _file: file }),
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => thread::sleep(LOOK_EVERY),
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other("another process has it locked"))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let number = |metadata: io::Result<fs::Metadata>| metadata.map(|file| (file.dev(), file.ino())).ok();
    number(file.metadata()).is_some_and(|own| Some(own) == number(fs::symlink_metadata(path)))
}

/// One that waits.
struct Entry {
    number: u32,
    process: u32,
    path: PathBuf,
}

/// The processes that wait for one file. To be used under the lock.
pub(super) struct Queue<'a> {
    path: &'a Path,
    /// Whether a process runs, and is an adit.
    runs: fn(u32) -> bool,
}

impl<'a> Queue<'a> {
    pub(super) fn new(path: &'a Path, runs: fn(u32) -> bool) -> Self {
        Queue { path, runs }
    }

    /// The processes that wait, the first first. Files that dead processes left are removed.
    fn entries(&self) -> Vec<Entry> {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let Ok(files) = fs::read_dir(parent.unwrap_or(Path::new("."))) else { return Vec::new() };
        let mut entries: Vec<Entry> = files.flatten().filter_map(|file| self.entry(file.path())).collect();
        entries.retain(|entry| {
            let runs = (self.runs)(entry.process);
            if !runs {
                let _ = fs::remove_file(&entry.path);
            }
            runs
        });
        entries.sort_by_key(|entry| (entry.number, entry.process));
        entries
    }

    /// A file that one of ours wrote: in a directory that others may write, other users could have written
    /// it.
    fn entry(&self, path: PathBuf) -> Option<Entry> {
        let own = self.path.file_name()?.to_str()?;
        let (number, process) =
            path.file_name()?.to_str()?.strip_prefix(own)?.strip_prefix(WAITING)?.split_once('-')?;
        let (number, process) = (number.parse().ok()?, process.parse().ok()?);
        let metadata = fs::symlink_metadata(&path).ok()?;
        let ours = metadata.is_file() && metadata.uid() == geteuid().as_raw() && metadata.len() <= MAX_FILE;
        ours.then_some(Entry { number, process, path })
    }

    /// Whether another than `process` waits.
    pub(super) fn has_other(&self, process: u32) -> bool {
        self.entries().iter().any(|entry| entry.process != process)
    }

    /// `process` waits, at the place that it has if it has one, and `text` is the content that the file shall
    /// have then.
    pub(super) fn wait(&self, process: u32, text: &str) -> io::Result<()> {
        let entries = self.entries();
        let own = entries.iter().find(|entry| entry.process == process).map(|entry| entry.number);
        let last = entries.last().map_or(0, |entry| entry.number);
        let number = own.unwrap_or(last.saturating_add(1));
        let path = with_ending(self.path, &format!("{WAITING}{number}-{process}"));
        let _ = fs::remove_file(&path);
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o644).open(&path)?;
        io::Write::write_all(&mut file, text.as_bytes())
    }

    /// `process` waits no more.
    pub(super) fn leave(&self, process: u32) {
        for entry in self.entries().iter().filter(|entry| entry.process == process) {
            let _ = fs::remove_file(&entry.path);
        }
    }

    /// The content that the file shall have for the first process that waits, which waits no more.
    pub(super) fn next(&self) -> Option<String> {
        self.entries().into_iter().find_map(|entry| {
            let text = fs::read_to_string(&entry.path).ok();
            let _ = fs::remove_file(&entry.path);
            text
        })
    }
}

/// A path with more at the end of its name.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.to_owned().into_os_string();
    path.push(ending);
    path.into()
}
