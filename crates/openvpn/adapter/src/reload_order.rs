//! The order to read the configuration again.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The work that SIGHUP causes in a tunnel: it reads the configuration again. Clones share it.
#[derive(Clone)]
pub(crate) struct Reload(pub(super) Arc<Mutex<dyn FnMut() + Send>>);

impl Reload {
    /// Begins it, and does not wait for it: files may lie on slow disks.
    pub(crate) fn begin(&self) {
        let work = Arc::clone(&self.0);
        let work = move || {
            let mut work = work.lock().unwrap_or_else(PoisonError::into_inner);
            (*work)();
        };
        // Without a thread nothing changes; the next signal tries again.
        let _ = thread::Builder::new().name("adit-reload".to_owned()).spawn(work);
    }
}
