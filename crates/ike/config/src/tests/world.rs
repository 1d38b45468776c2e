//! Files in memory.

use std::collections::BTreeMap;
use std::path::Path;

use adit_core::configuration::{Failure, Problem};
use zeroize::Zeroizing;

use crate::{Config, Entry, Files, Parsed, parse};

/// The path of the configuration.
pub(super) const FILE: &str = "/etc/swanctl/swanctl.conf";

/// Files by their paths.
#[derive(Clone, Default)]
pub(crate) struct World(BTreeMap<String, Vec<u8>>);

impl World {
    /// The world with a further file in the folder of the configuration, or at that absolute path.
    pub(crate) fn with(mut self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        let path = Path::new("/etc/swanctl").join(path).to_string_lossy().into_owned();
        self.0.insert(path, content.into());
        self
    }

    pub(super) fn parse(&self, text: impl AsRef<[u8]>) -> Result<Parsed, Failure> {
        parse(FILE, text.as_ref(), self)
    }
}

impl Files for World {
    fn read(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
        let found = self.0.get(path.to_string_lossy().as_ref());
        found.cloned().map(Zeroizing::new).ok_or_else(|| "No such file or directory".to_owned())
    }

    fn entries(&self, folder: &Path) -> Result<Vec<Entry>, String> {
        let mut entries = Vec::new();
        for path in self.0.keys() {
            let Ok(below) = Path::new(path).strip_prefix(folder) else { continue };
            let mut parts = below.components();
            let Some(name) = parts.next() else { continue };
            let name = name.as_os_str().to_string_lossy().into_owned();
            let entry = Entry { name, is_folder: parts.next().is_some() };
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        entries.reverse();
        Ok(entries)
    }
}

/// The configuration of a text without further files.
pub(super) fn config(text: &str) -> Config {
    World::default().parse(text).unwrap_or_else(|failure| panic!("{failure}\n{text}")).config
}

/// The problems of a text without further files, without the folder.
pub(super) fn problems(text: impl AsRef<[u8]>) -> Vec<String> {
    problems_in(&World::default(), text)
}

/// The problems of a text, without the folder.
pub(super) fn problems_in(world: &World, text: impl AsRef<[u8]>) -> Vec<String> {
    let failure = world.parse(text).expect_err("problems");
    failure.problems.iter().map(Problem::to_string).map(|text| text.replace("/etc/swanctl/", "")).collect()
}
