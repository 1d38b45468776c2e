//! Files that a configuration names.

use std::path::{Path, PathBuf};

use adit_core::escaped;
use zeroize::Zeroizing;

use crate::files::Files;
use crate::model::{Document, Place, SecretBytes};
use crate::values::secret;

/// Most characters of bytes that stand in the file itself, in the name of a document.
const SHOWN: usize = 12;

/// The folder of a configuration, and the caller's access to files.
pub(crate) struct Folder<'a> {
    pub(crate) files: &'a dyn Files,
    /// The folder of the file that was named; the directories `x509`, `x509ca` … lie in it.
    pub(crate) path: PathBuf,
}

impl Folder<'_> {
    /// The path of a file that is named where files of that directory are.
    pub(crate) fn path_of(&self, directory: &str, name: &str) -> PathBuf {
        self.path.join(directory).join(name)
    }

    /// A file that is named on a line, or the bytes that stand in place of its name (`0x…`, `0s…`).
    ///
    /// # Errors
    /// It cannot be read, or is empty.
    pub(crate) fn named(&self, directory: &str, name: &str, place: &Place) -> Result<Document, String> {
        if let Some(bytes) = secret::encoded(name) {
            let shown: String = name.chars().take(SHOWN).collect();
            return Ok(document(format!("{shown}…"), Some(place.clone()), bytes?));
        }
        let path = self.path_of(directory, name);
        let content = self.read(&path)?;
        Ok(document(shown(&path), Some(place.clone()), content))
    }

    /// A file that was found in its directory.
    ///
    /// # Errors
    /// It cannot be read, or is empty.
    pub(crate) fn found(&self, path: &Path) -> Result<Document, String> {
        Ok(document(shown(path), None, self.read(path)?))
    }

    fn read(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
        let content = self.files.read(path);
        let content = content.map_err(|why| format!("{} cannot be read: {}", shown(path), escaped(&why)))?;
        match content.is_empty() {
            true => Err(format!("{} is empty", shown(path))),
            false => Ok(content),
        }
    }
}

fn document(name: String, place: Option<Place>, content: Zeroizing<Vec<u8>>) -> Document {
    Document { name, place, content: SecretBytes::new(content) }
}

/// A path for a message.
pub(crate) fn shown(path: &Path) -> String {
    escaped(&path.to_string_lossy()).into_owned()
}
