//! A configuration from its file.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use adit_core::configuration::{Failure, Problem};
use thiserror::Error;
use zeroize::Zeroizing;

use super::adapter::{Adapters, Configuration};

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub enum Unusable {
    /// The file cannot be read.
    #[error("{0}: the configuration cannot be read: {1}")]
    Unreadable(String, std::io::Error),
    /// The configuration is wrong: one problem a line.
    #[error("{0}")]
    Wrong(#[from] Failure),
}

/// Reads and checks the configuration in `path`, with the files that it names, by the adapter that recognizes it.
///
/// # Errors
/// Why it cannot be used.
pub fn read(adapters: &Adapters, path: &Path) -> Result<Box<dyn Configuration>, Unusable> {
    let text = std::fs::read(path).map(Zeroizing::new);
    let text = text.map_err(|error| Unusable::Unreadable(path.display().to_string(), error))?;
    let adapter = adapters.iter().find(|adapter| adapter.recognizes(&text)).or(adapters.last());
    let Some(adapter) = adapter else {
        let error = std::io::Error::other("this program has no adapter");
        return Err(Unusable::Unreadable(path.display().to_string(), error));
    };
    Ok(adapter.read(path, &text)?)
}

/// Whether accounts other than the owner have any right to a file.
pub fn is_exposed(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o077 != 0)
}

/// The warning that a file with a key is exposed.
pub fn warning(path: &Path) -> Problem {
    let path = path.display();
    let text = format!("the file holds a key and is group or others accessible: chmod 600 {path}");
    Problem { file: path.to_string(), line: None, text }
}

/// The place of a file that the configuration `file` names: from the working directory, or beside the configuration if a file that
/// lies there alone is meant.
pub fn find(file: &Path, wanted: &Path) -> PathBuf {
    let beside = file.parent().unwrap_or(Path::new("")).join(wanted);
    if !wanted.exists() && beside.exists() { beside } else { wanted.to_owned() }
}
