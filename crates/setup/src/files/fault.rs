//! Faults for tests (`tests/setup_faults.rs`), which can come at each change of the file system.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// Says in a debug build at which change which fault comes: `kill N` is SIGKILL before change N, `error N` an error in
/// place of change N, `full N` a full disk from change N on.
const VARIABLE: &str = "ADIT_TEST_FAULT";

/// Changes so far.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// Comes before each change of the file system. Fails in debug builds alone, and only where the environment asks for it.
pub(super) fn before_change() -> io::Result<()> {
    if cfg!(debug_assertions) { injected() } else { Ok(()) }
}

fn injected() -> io::Result<()> {
    let Ok(order) = std::env::var(VARIABLE) else { return Ok(()) };
    let Some((fault, number)) = order.split_once(' ') else { return Ok(()) };
    let (change, at) = (CHANGES.fetch_add(1, Ordering::Relaxed), number.parse().unwrap_or(u32::MAX));
    match fault {
        "kill" if change == at => {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            Ok(())
        }
        "error" if change == at => Err(rustix::io::Errno::IO.into()),
        "full" if change >= at => Err(rustix::io::Errno::NOSPC.into()),
        _ => Ok(()),
    }
}
