//! The files that a configuration includes and names, as the caller reads them.

use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// The caller's access to files. Paths are those of the configuration, relative ones below the folder of the file that names them.
pub trait Files {
    /// The content of a file.
    ///
    /// # Errors
    /// The reason why it cannot be read, such as `No such file or directory`.
    fn read(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, String>;

    /// The entries of a folder, in any order, without `.` and `..`; none if there is no such folder.
    ///
    /// # Errors
    /// The reason why a folder that is there cannot be listed.
    fn entries(&self, folder: &Path) -> Result<Vec<Entry>, String>;
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name within the folder.
    pub name: String,
    /// Whether it is a folder, also by a symbolic link. Else it is a regular file; others are left out.
    pub is_folder: bool,
}

/// No file is there.
pub(crate) struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
        Err("no file is read here: its bytes must stand in its place".to_owned())
    }

    fn entries(&self, _: &Path) -> Result<Vec<Entry>, String> {
        Ok(Vec::new())
    }
}

/// The folder of a file; empty for one without.
pub(crate) fn folder_of(file: &str) -> PathBuf {
    Path::new(file).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// The regular files of a folder by their names, sorted. Hidden files are left out.
///
/// # Errors
/// The reason why the folder cannot be listed.
pub(crate) fn regular_files(files: &dyn Files, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut names: Vec<String> = files
        .entries(folder)?
        .into_iter()
        .filter(|entry| !entry.is_folder && !entry.name.starts_with('.'))
        .map(|entry| entry.name)
        .collect();
    names.sort();
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}
