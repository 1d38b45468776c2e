//! Files that are replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Writes a file that its owner alone may read, in the place of the one with that name. The name stands for the old
/// file or for the whole new one, also after the machine has lost its power. Until then the new content is in a file of
/// that name with `.new` behind it; such a file is replaced, too. The directory is made if it is missing.
///
/// # Errors
/// When the system refuses; the old file is there then.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    // A confined process can make none, also where there is one.
    if !directory.is_dir() {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    // A file that a killed process left may have other rights.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| fs::rename(&beside, path)) {
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    // Only then has the disk the new name as well.
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use adit_system::testing::Scratch;

    use super::*;

    #[test]
    fn a_file_is_replaced_with_what_an_interrupted_run_left() {
        let scratch = Scratch::new("replace");
        let path = scratch.path().join("state/file");
        replace_file(&path, b"one").unwrap();
        for left in [path.clone(), scratch.path().join("state/file.new")] {
            fs::write(&left, "a longer text").unwrap();
            fs::set_permissions(&left, fs::Permissions::from_mode(0o644)).unwrap();
        }
        replace_file(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_replaced_stays() {
        let scratch = Scratch::new("replace-none");
        let path = scratch.path().join("directory");
        fs::create_dir(&path).unwrap();
        assert!(replace_file(&path, b"x").is_err());
        assert!(path.is_dir());
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    }
}
