use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::TestbedError;
use crate::namespace::creating;

/// Directories with these labels are never kept on purpose.
const SWEPT: [&str; 2] = ["lab", "guest"];

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// A directory that only we can read and that is removed with everything in it on drop.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    /// Makes a new, empty directory (mode 0700) below the system's temporary directory.
    pub fn create(label: &str) -> Result<Self, TestbedError> {
        use std::os::unix::fs::DirBuilderExt as _;
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("adit-{}-{number}-{label}", std::process::id()));
        let _creating = creating();
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|source| TestbedError::File { path: path.clone(), source })?;
        Ok(Self { path, keep: false })
    }

    /// Removes the directories with a label of [`SWEPT`] of processes that are gone.
    pub(crate) fn sweep(is_alive: impl Fn(u32) -> bool) {
        let temporary = std::env::temp_dir();
        let entries = std::fs::read_dir(&temporary).into_iter().flatten().flatten();
        for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
            let parts: Vec<&str> = name.split('-').collect();
            if let ["adit", owner, _, label] = parts[..]
                && SWEPT.contains(&label)
                && owner.parse().is_ok_and(|pid| !is_alive(pid))
            {
                let _ = std::fs::remove_dir_all(temporary.join(&name));
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the directory in place when this guard is dropped.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// Writes a file into the directory (mode 0600) and returns its path.
    pub fn write(&self, name: &str, content: &str) -> Result<PathBuf, TestbedError> {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = self.path.join(name);
        std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(content.as_bytes()))
            .map_err(|source| TestbedError::File { path: path.clone(), source })?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
