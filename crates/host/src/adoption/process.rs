//! The program of a process, from /proc.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// The end of the link to a program whose file was replaced (proc_pid_exe(5)).
const DELETED: &[u8] = b" (deleted)";

/// Whether a file is this program.
pub(super) fn is_adit(program: &Path) -> bool {
    let same = |own: PathBuf| own == program || own.canonicalize().ok() == program.canonicalize().ok();
    std::env::current_exe().is_ok_and(|own| own.exists() && same(own))
}

/// Whether a process runs this program, or the one that had its path before an upgrade.
pub(super) fn runs_adit(pid: u32) -> bool {
    program(pid).is_ok_and(|program| is_adit(&program))
}

/// The program of a process.
///
/// # Errors
/// When /proc does not show it.
pub fn program(pid: u32) -> std::io::Result<PathBuf> {
    let link = fs::read_link(format!("/proc/{pid}/exe"))?.into_os_string().into_vec();
    let path = link.strip_suffix(DELETED).unwrap_or(&link);
    Ok(OsStr::from_bytes(path).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_program() {
        assert!(runs_adit(std::process::id()));
        assert!(!runs_adit(u32::MAX));
        assert!(!is_adit(Path::new("/usr/sbin/other")) && !is_adit(Path::new("/nonexistent")));
    }
}
