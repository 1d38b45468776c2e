//! Files that hold a password.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use zeroize::Zeroizing;

use adit_host::configuration;
use adit_host::remarks::Notes;

/// Larger files hold no password.
const MAX_FILE: u64 = 16 << 10;

/// The password in the first line of the file at `path`, which the configuration in `file` names.
pub(crate) fn first_line(
    file: &Path,
    path: &Path,
    notes: &mut dyn Notes,
) -> Result<Zeroizing<String>, String> {
    let path = configuration::find(file, path);
    let shown = path.display();
    let metadata = fs::metadata(&path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    if metadata.len() > MAX_FILE {
        return Err(format!("{shown} is too large for a password"));
    }
    if metadata.mode() & 0o077 != 0 {
        let text = format_args!(
            "{shown} holds a password, and others than its owner can read it: chmod 600 {shown}"
        );
        notes.warn(&text);
    }
    let text = fs::read_to_string(&path).map(Zeroizing::new);
    let text = text.map_err(|error| format!("{shown} cannot be read: {error}"))?;
    Ok(Zeroizing::new(text.lines().next().unwrap_or_default().to_owned()))
}
