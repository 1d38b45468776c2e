//! adit's manual pages and completions, as packages install them.
//!
//! They are made of the definitions that adit parses its command lines by (`adit::manual`), so they cannot differ from
//! them. This is a program of its own so that the program of users does not hold the code that renders pages, and so
//! that a package for another processor can be made.
#![forbid(unsafe_code)]

mod completions;
mod page;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The text of each file, by its path below a directory.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Manual pages (`man/`) and completions (`bash/`, `zsh/`, `fish/`).
///
/// # Errors
/// When a page cannot be rendered.
pub fn files() -> io::Result<Files> {
    let programs = adit::manual::programs();
    let mut files = page::all(&programs, &adit::manual::pages())?;
    files.extend(completions::all(&programs));
    Ok(files)
}

/// Writes them below a directory, which is made.
///
/// # Errors
/// When one cannot be written.
pub fn write(directory: &Path, files: &Files) -> io::Result<()> {
    for (name, text) in files {
        let path = directory.join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&path, text)?;
    }
    Ok(())
}
