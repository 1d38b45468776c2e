//! The peers of a file that `adit block` keeps out, over restarts: a name a line. The command writes the list and gives it to the
//! running tunnel, which reads it when it starts.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use adit_guard::replace_file;
use adit_host::state;

/// The list of a file.
pub(crate) struct BlockedFile {
    path: PathBuf,
}

impl BlockedFile {
    /// The list of the peers of that file.
    pub(crate) fn of(file: &Path) -> Self {
        BlockedFile::within(&state::directory(), file)
    }

    fn within(directory: &Path, file: &Path) -> Self {
        BlockedFile { path: directory.join("ipsec").join(format!("{}.blocked", label(file))) }
    }

    /// The names in it; none if there is no list.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn read(&self) -> Result<BTreeSet<String>, String> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(format!("{}: {error}", self.path.display())),
        }
    }

    /// Writes a name into it, or takes the name out. Gives all names.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub(crate) fn set(&self, name: &str, is_blocked: bool) -> Result<BTreeSet<String>, String> {
        let mut names = self.read()?;
        let changed = if is_blocked { names.insert(name.to_owned()) } else { names.remove(name) };
        let written = match names.is_empty() {
            _ if !changed => Ok(()),
            true => fs::remove_file(&self.path),
            false => {
                let text: String = names.iter().flat_map(|name| [name, "\n"]).collect();
                replace_file(&self.path, text.as_bytes())
            }
        };
        written.map(|()| names).map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

/// A label of a file in the names of other files: its name, and a digest of its path.
pub(crate) fn label(file: &Path) -> String {
    /// Most characters of the name: the path of a socket has 107 bytes at most (unix(7)).
    const LONGEST: usize = 16;
    let path = fs::canonicalize(file).or_else(|_| std::path::absolute(file));
    let path = path.unwrap_or_else(|_| file.to_owned());
    // FNV-1a, of 64 bits: it stays the same whatever compiles it.
    let digest =
        path.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
            (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let stem: String = stem.chars().filter(char::is_ascii_graphic).take(LONGEST).collect();
    format!("{stem}-{digest:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_list_until_they_are_allowed() {
        let scratch = adit_testbed::Scratch::create("blocked").expect("a directory");
        let list = |file: &str| BlockedFile::within(scratch.path(), Path::new(file));
        let (one, other) = (list("/etc/one/swanctl.conf"), list("/etc/other/swanctl.conf"));
        assert_eq!(one.set("anna", true).expect("written").len(), 1);
        assert_eq!(one.set("C=CH, CN=berta", true).expect("written").len(), 2);
        assert_eq!(
            one.read().expect("read"),
            BTreeSet::from(["C=CH, CN=berta".to_owned(), "anna".to_owned()])
        );
        assert_eq!(other.read().expect("read"), BTreeSet::new(), "the list of another file");
        assert_eq!(one.set("C=CH, CN=berta", false).expect("written").len(), 1);
        assert_eq!(one.set("anna", false).expect("removed").len(), 0);
        assert!(!one.path.exists() && one.set("anna", false).is_ok());
    }
}
