//! The peers of an interface that `adit block` keeps out, kept over restarts: a public key a line. `adit block` and `adit allow`
//! write the file, the interface reads it when it starts.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use adit_guard::replace_file;
use adit_host::state;
use adit_wireguard::PublicKey;

/// The file of an interface.
pub(crate) struct BlockedFile {
    path: PathBuf,
}

impl BlockedFile {
    /// The file of the interface with this name.
    pub(crate) fn of(interface: &str) -> Self {
        BlockedFile::within(&state::directory(), interface)
    }

    fn within(directory: &Path, interface: &str) -> Self {
        BlockedFile { path: directory.join("wireguard").join(format!("{interface}.blocked")) }
    }

    /// The keys in it; none if there is no file.
    ///
    /// # Errors
    /// It cannot be read, or a line is no key.
    pub(crate) fn read(&self) -> Result<BTreeSet<PublicKey>, String> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(error) => return Err(format!("{}: {error}", self.path.display())),
        };
        let key = |(line, number): (&str, usize)| {
            let fault = || format!("{}:{number}: a line is a public key in base64", self.path.display());
            PublicKey::from_base64(line.trim()).ok_or_else(fault)
        };
        text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()).map(key).collect()
    }

    /// Writes a key into it, or takes the key out.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub(crate) fn set(&self, key: PublicKey, blocked: bool) -> Result<(), String> {
        let mut keys = self.read()?;
        let changed = if blocked { keys.insert(key) } else { keys.remove(&key) };
        if !changed {
            return Ok(());
        }
        let written = match keys.is_empty() {
            true => fs::remove_file(&self.path),
            false => replace_file(&self.path, text(&keys).as_bytes()),
        };
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

fn text(keys: &BTreeSet<PublicKey>) -> String {
    let mut text = String::new();
    for key in keys {
        let _ = writeln!(text, "{key}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_blocked_is_read_until_it_is_allowed() {
        let scratch = adit_testbed::Scratch::create("blocked").expect("a directory");
        let file = BlockedFile::within(scratch.path(), "wg0");
        let (one, two) = (PublicKey([1; 32]), PublicKey([2; 32]));
        assert_eq!(file.read(), Ok(BTreeSet::new()));
        for key in [one, two, one] {
            file.set(key, true).expect("written");
        }
        assert_eq!(file.read(), Ok(BTreeSet::from([one, two])));
        file.set(one, false).expect("written");
        assert_eq!(file.read(), Ok(BTreeSet::from([two])));
        file.set(two, false).expect("removed");
        assert!(!file.path.exists());
        file.set(two, false).expect("nothing to do");
        fs::write(&file.path, "AgI=\n").expect("written");
        assert!(file.read().expect_err("no key").contains("wg0.blocked:1: "));
    }
}
