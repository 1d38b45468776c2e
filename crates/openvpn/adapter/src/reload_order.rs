//! The order to read the configuration again.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The work that SIGHUP causes in a tunnel: it reads the configuration again. Clones share it.
#[derive(Clone)]
pub(crate) struct Reload(pub(super) Arc<Mutex<dyn FnMut() + Send>>);

impl Reload {
    /// This work, and then further work.
    pub(crate) fn and_then(self, mut further: impl FnMut() + Send + 'static) -> Self {
        Reload(Arc::new(Mutex::new(move || {
            self.run();
            further();
        })))
    }

    /// Does it on this thread.
    fn run(&self) {
        let mut work = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (*work)();
    }

    /// Begins it, and does not wait for it: files may lie on slow disks.
    pub(crate) fn begin(&self) {
        let reload = self.clone();
        let work = move || reload.run();
        // Without a thread nothing changes; the next signal tries again.
        let _ = thread::Builder::new().name("adit-reload".to_owned()).spawn(work);
    }
}
