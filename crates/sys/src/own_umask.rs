//! A thread with a umask of its own.

use std::io;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Gives the calling thread a umask, a working directory and a root of its own.
///
/// # Errors
/// When the kernel refuses, as some containers have it do.
pub fn unshare_file_system_attributes() -> io::Result<()> {
    // SAFETY: CLONE_FS does not touch the descriptor table, for which alone `unshare` is unsafe.
    Ok(unsafe { unshare_unsafe(UnshareFlags::FS) }?)
}
