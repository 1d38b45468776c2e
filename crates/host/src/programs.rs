//! Programs that are to be run.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Whether there is a file of that name that can be run.
///
/// # Errors
/// Why not.
pub fn is_program(path: &str) -> Result<(), String> {
    let file = std::fs::metadata(Path::new(path)).map_err(|error| format!("{path}: {error}"))?;
    match file.is_file() && file.permissions().mode() & 0o111 != 0 {
        true => Ok(()),
        false => Err(format!("{path} is no program: make it executable (`chmod +x`)")),
    }
}
