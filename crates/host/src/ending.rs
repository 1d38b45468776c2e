//! The end of a tunnel, for the threads that look at something now and then.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Says whether a tunnel has ended. Copies are of the same tunnel.
#[derive(Clone, Default)]
pub struct Ending(Arc<(Mutex<bool>, Condvar)>);

impl Ending {
    /// Waits for so long, or until the tunnel ends: true then.
    pub fn wait(&self, time: Duration) -> bool {
        let (ended, changed) = &*self.0;
        let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(ended, time, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Ends the waiting of all copies when the returned value is dropped.
    pub fn on_drop(&self) -> EndOnDrop {
        EndOnDrop(self.clone())
    }
}

/// Ends a tunnel's waiting threads when it is dropped.
pub struct EndOnDrop(Ending);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let (ended, changed) = &*self.0.0;
        *ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }
}
