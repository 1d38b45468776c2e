//! The file of the address pool's leases.

use std::fs;
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The file of the address pool's leases. Its helper may be another user by the time that it writes the file.
pub(super) struct Pool {
    path: PathBuf,
    /// The file, opened with root's rights.
    opened: Option<fs::File>,
}

impl Pool {
    pub(super) fn new(path: &Path) -> Self {
        // That it cannot be opened will show when it is to be written.
        let opened = for_owner().create(true).truncate(false).open(path).ok();
        Pool { path: path.to_owned(), opened }
    }

    /// Replaces the file in one step where its directory may be written, else in place.
    pub(super) fn replace(&mut self, text: &str) -> io::Result<()> {
        let mut beside = self.path.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        // One that an interrupted run left may have other rights.
        let _ = fs::remove_file(&beside);
        let made = for_owner().create_new(true).open(&beside);
        let written = made.and_then(|mut file| file.write_all(text.as_bytes()));
        if written.and_then(|()| fs::rename(&beside, &self.path)).is_ok() {
            return Ok(());
        }
        let _ = fs::remove_file(&beside);
        match &mut self.opened {
            Some(file) => {
                file.set_len(0)?;
                file.rewind()?;
                file.write_all(text.as_bytes())
            }
            None => for_owner().create(true).truncate(true).open(&self.path)?.write_all(text.as_bytes()),
        }
    }
}

/// Opens files to write. A new one is for its owner alone: it has the names and addresses of clients.
fn for_owner() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use adit_system::testing::Scratch;

    use super::*;

    #[test]
    fn the_pool_file_is_for_its_owner() {
        let scratch = Scratch::new("pool");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let path = scratch.path().join("pool");
        let mut pool = Pool::new(&path);
        assert_eq!(mode(&path), 0o600);
        // Also after it was made by a version that did not care, and with the files that it left.
        let beside = scratch.path().join("pool.new");
        for left in [&path, &beside] {
            fs::write(left, "old").unwrap();
            fs::set_permissions(left, fs::Permissions::from_mode(0o644)).unwrap();
        }
        pool.replace("alice,10.8.0.2\n").unwrap();
        assert_eq!((mode(&path), fs::read_to_string(&path).unwrap()), (0o600, "alice,10.8.0.2\n".to_owned()));
        assert!(!beside.exists());
    }
}
