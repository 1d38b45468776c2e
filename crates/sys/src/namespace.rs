//! Network namespaces of tests.

use std::io;

/// Moves this thread, and those it starts from now on, into a fresh network namespace.
///
/// # Errors
/// Without `CAP_SYS_ADMIN`.
pub fn enter_fresh_network_namespace() -> io::Result<()> {
    // SAFETY: CLONE_NEWNET does not touch the descriptor table, for which alone `unshare` is unsafe.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }?;
    Ok(())
}
