//! The peers that are kept out of a tunnel over restarts: a name a line. The command writes the list, and the tunnel reads it when it
//! starts.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use adit_core::Severity;
use adit_guard::replace_file;

use crate::log::Logger;
use crate::state;

/// The list of a tunnel, in the state directory.
#[derive(Clone, Debug)]
pub struct BlockedList {
    path: PathBuf,
}

/// The peers that a tunnel keeps out from its start on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtStart<K> {
    /// The peers of the list.
    Listed(BTreeSet<K>),
    /// All peers: the list cannot be read.
    All,
}

impl BlockedList {
    /// The list of the tunnel with that label, in the folder of its protocol.
    pub fn of(folder: &str, label: &str) -> Self {
        BlockedList::within(&state::directory(), folder, label)
    }

    /// The list below another directory.
    pub fn within(directory: &Path, folder: &str, label: &str) -> Self {
        BlockedList { path: directory.join(folder).join(format!("{label}.blocked")) }
    }

    /// The names in it; none if there is no list.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self) -> Result<BTreeSet<String>, String> {
        self.read_as(|line| Some(line.to_owned()), "name")
    }

    /// The lines of it as keys, which `parse` reads; none if there is no list. `what` is a key in words.
    ///
    /// # Errors
    /// It cannot be read, or a line is no key.
    pub fn read_as<K: Ord>(
        &self,
        parse: impl Fn(&str) -> Option<K>,
        what: &str,
    ) -> Result<BTreeSet<K>, String> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(error) => return Err(format!("{}: {error}", self.path.display())),
        };
        let key = |(line, number): (&str, usize)| {
            parse(line.trim()).ok_or_else(|| format!("{}:{number}: a line is a {what}", self.path.display()))
        };
        text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()).map(key).collect()
    }

    /// The peers that a tunnel keeps out when it starts, by what [`read`](Self::read) or [`read_as`](Self::read_as) has given. The log
    /// says how many there are, or why it is all of them.
    pub fn at_start<K>(read: Result<BTreeSet<K>, String>, log: &mut Logger) -> AtStart<K> {
        match read {
            Ok(names) => {
                if !names.is_empty() {
                    let text = format_args!(
                        "{} peers are blocked until `adit allow`, as before this start",
                        names.len()
                    );
                    log.log(Severity::Info, text);
                }
                AtStart::Listed(names)
            }
            Err(why) => {
                let text = format_args!(
                    "{why}; no peer may connect, as the list of those that `adit block` keeps out cannot be read: mend the file, or remove it, and start anew"
                );
                log.log(Severity::Error, text);
                AtStart::All
            }
        }
    }

    /// Writes a name into it, or takes the name out. Gives all names.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn set(&self, name: &str, is_blocked: bool) -> Result<BTreeSet<String>, String> {
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

#[cfg(test)]
mod tests {
    use adit_testbed::Scratch;

    use super::*;

    #[test]
    fn names_stay_in_the_list_until_they_are_allowed() {
        let scratch = Scratch::create("blocked").expect("a directory");
        let list = |label: &str| BlockedList::within(scratch.path(), "vpn", label);
        let (one, other) = (list("one"), list("other"));
        assert_eq!(one.set("anna", true).expect("written").len(), 1);
        assert_eq!(one.set("C=CH, CN=berta", true).expect("written").len(), 2);
        assert_eq!(one.set("anna", true).expect("nothing to do").len(), 2);
        assert_eq!(
            one.read().expect("read"),
            BTreeSet::from(["C=CH, CN=berta".to_owned(), "anna".to_owned()])
        );
        assert_eq!(other.read().expect("read"), BTreeSet::new(), "the list of another tunnel");
        assert_eq!(one.set("C=CH, CN=berta", false).expect("written").len(), 1);
        assert_eq!(one.set("anna", false).expect("removed").len(), 0);
        assert!(!one.path.exists() && one.set("anna", false).is_ok());
    }

    #[test]
    fn a_list_that_cannot_be_read_keeps_all_peers_out() {
        let scratch = Scratch::create("blocked").expect("a directory");
        let list = BlockedList::within(scratch.path(), "vpn", "one");
        let mut log = Logger::new(&crate::log::LogSettings::default()).expect("a log");
        let number = |line: &str| line.parse::<u8>().ok();
        let mut at_start = || BlockedList::at_start(list.read_as(number, "number"), &mut log);
        assert_eq!(at_start(), AtStart::Listed(BTreeSet::new()));
        list.set("7", true).expect("written");
        assert_eq!(at_start(), AtStart::Listed(BTreeSet::from([7])));
        list.set("anna", true).expect("written");
        assert_eq!(at_start(), AtStart::All);
        assert!(
            list.read_as(number, "number")
                .is_err_and(|why| why.ends_with("one.blocked:2: a line is a number"))
        );
        fs::remove_file(&list.path).expect("a file");
        fs::create_dir(&list.path).expect("a folder in its place");
        assert_eq!(at_start(), AtStart::All);
        assert!(list.set("anna", true).is_err());
    }
}
