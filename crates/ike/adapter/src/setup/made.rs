//! The files that were made, before they are written: nothing leaves that adit itself would refuse.

use std::path::Path;

use adit_ike_config::{Entry, Files};
use adit_setup::{SetupError, SetupFile};
use zeroize::Zeroizing;

use crate::content::{check_machine, parse};

/// Files that are not written yet.
struct Made<'a>(&'a [SetupFile]);

impl Files for Made<'_> {
    fn read(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
        let found = self.0.iter().find(|file| file.path == path);
        found.map(|file| file.content.clone()).ok_or_else(|| "there is no such file".to_owned())
    }

    fn entries(&self, folder: &Path) -> Result<Vec<Entry>, String> {
        let inside = self.0.iter().filter(|file| file.path.parent() == Some(folder));
        let names = inside.filter_map(|file| file.path.file_name()?.to_str());
        Ok(names.map(|name| Entry { name: name.to_owned(), is_folder: false }).collect())
    }
}

/// Reads the file of swanctl in `path`, with those that it names, as adit would.
///
/// # Errors
/// adit would refuse it.
pub(super) fn check(files: &[SetupFile], path: &Path) -> Result<(), SetupError> {
    let made = Made(files);
    let text = made.read(path).map_err(SetupError::Unreadable)?;
    let content = parse(path, &text, &made).map_err(|failure| SetupError::Unreadable(failure.to_string()))?;
    if let Some(warning) = content.parsed.warnings.first() {
        return Err(SetupError::Unreadable(warning.to_string()));
    }
    check_machine(path, &content.planned).map_err(|failure| SetupError::Unreadable(failure.why().to_owned()))
}

/// The content of the file in `path`.
#[cfg(test)]
pub(super) fn parsed(files: &[SetupFile], path: &Path) -> crate::content::Content {
    let made = Made(files);
    let text = made.read(path).expect("a file");
    parse(path, &text, &made).map_err(|failure| failure.to_string()).expect("it is good")
}
