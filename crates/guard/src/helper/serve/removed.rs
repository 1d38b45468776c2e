//! Files that go when the tunnel does, unless another program has replaced them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// A file that goes when the tunnel does.
pub(super) struct Removed {
    path: PathBuf,
    /// Device and inode, if it was there at the start.
    identity: Option<(u64, u64)>,
}

impl Removed {
    pub(super) fn new(path: &PathBuf) -> Self {
        Removed { path: path.clone(), identity: identity(path) }
    }

    pub(super) fn remove(&self) {
        let is_other = self.identity.is_some() && identity(&self.path) != self.identity;
        if !is_other {
            // Its directory may be one where only root makes files.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &PathBuf) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok()
}

#[cfg(test)]
mod tests {
    use adit_system::testing::Scratch;

    use super::*;

    #[test]
    fn what_another_program_put_there_stays() {
        let scratch = Scratch::new("removed");
        let [ours, theirs] = ["ours", "theirs"].map(|name| scratch.path().join(name));
        for path in [&ours, &theirs] {
            fs::write(path, "").unwrap();
        }
        let removed = [&ours, &theirs].map(Removed::new);
        let new = scratch.path().join("new");
        fs::write(&new, "").unwrap();
        fs::rename(&new, &theirs).unwrap();
        removed.iter().for_each(Removed::remove);
        assert!(!ours.exists() && theirs.exists());
    }
}
