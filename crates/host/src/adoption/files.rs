//! The files of drop-ins.

use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::drop_in;

/// Whether there is a drop-in, and this command made it.
///
/// # Errors
/// When there is a file that `adit adopt` did not make.
pub(super) fn is_ours(path: &Path) -> Result<bool, String> {
    match fs::read(path) {
        Ok(text) if text.starts_with(drop_in::MARK.as_bytes()) => Ok(true),
        Ok(_) => Err(format!("{}: `adit adopt` did not make this file", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// Writes a drop-in, which all users may read, as they may the unit: `systemctl cat` shows both.
pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    adit_guard::replace_file(path, text.as_bytes())
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o644)))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Removes a drop-in, if it is there, and its directory, if that is empty then. The removal is on the disk when this returns.
pub(super) fn remove(path: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        outcome => outcome.map_err(failed)?,
    }
    let Some(directory) = path.parent() else { return Ok(()) };
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
    // An administrator's drop-ins may be there.
    let _ = fs::remove_dir(directory);
    Ok(())
}
