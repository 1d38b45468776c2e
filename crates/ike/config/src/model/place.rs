use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file, as it was named or found.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The lines of a section. Two are equal whatever lines they have: a section that was moved within its file is unchanged.
#[derive(Clone, Debug)]
pub struct Places {
    section: Place,
    keys: BTreeMap<String, Place>,
}

impl Places {
    /// The lines of a section that begins there and has no key.
    pub(crate) fn new(section: Place) -> Self {
        Places { section, keys: BTreeMap::new() }
    }

    /// Notes the line of a key, whose name may have upper case.
    pub(crate) fn note(&mut self, key: &str, place: Place) {
        self.keys.insert(key.to_ascii_lowercase(), place);
    }

    /// The line on which the section begins.
    pub fn section(&self) -> &Place {
        &self.section
    }

    /// The line of a key, whose name is in lower case; the line on which the section begins, if it does not have the key.
    pub fn of(&self, key: &str) -> &Place {
        self.keys.get(key).unwrap_or(&self.section)
    }
}

impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Places {}
