use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::LoadError;

/// The state that the thread of a load and its owner share.
#[derive(Default)]
pub struct Counters {
    stop: AtomicBool,
    begun: AtomicU64,
    done: AtomicU64,
}

impl Counters {
    /// Whether the load is to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Counts things that began: a handshake, a control channel, a connection, a packet.
    pub fn add_begun(&self, count: u64) {
        self.begun.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts things that came as far as they should.
    pub fn add_done(&self, count: u64) {
        self.done.fetch_add(count, Ordering::Relaxed);
    }
}

/// A load that is generated in a thread of its own until this is dropped.
pub struct Load {
    counters: Arc<Counters>,
    thread: Option<JoinHandle<Result<(), LoadError>>>,
}

impl Load {
    /// Starts the thread. `work` returns soon after the counters say that it is stopped.
    pub fn start(work: impl FnOnce(&Counters) -> Result<(), LoadError> + Send + 'static) -> Load {
        let counters = Arc::new(Counters::default());
        let shared = Arc::clone(&counters);
        Load { counters, thread: Some(std::thread::spawn(move || work(&shared))) }
    }

    /// How many handshakes, control channels, connections or packets began.
    pub fn begun(&self) -> u64 {
        self.counters.begun.load(Ordering::Relaxed)
    }

    /// How many of them came as far as they should.
    pub fn done(&self) -> u64 {
        self.counters.done.load(Ordering::Relaxed)
    }

    /// Whether the load goes on. It ends by itself only if it cannot be generated.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends the load.
    ///
    /// # Errors
    /// Why it could not be generated.
    pub fn stop(mut self) -> Result<(), LoadError> {
        self.join()
    }

    fn join(&mut self) -> Result<(), LoadError> {
        self.counters.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or(Ok(Ok(())), JoinHandle::join).map_err(|_| LoadError::Panicked)?
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // An owner that wants to know why a load ended stops it.
        let _ = self.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_counts_until_it_is_stopped_and_says_why_it_could_not_go_on() {
        let load = Load::start(|counters| {
            counters.add_begun(3);
            counters.add_done(2);
            while !counters.is_stopped() {
                std::thread::yield_now();
            }
            Ok(())
        });
        while load.done() < 2 {
            assert!(load.is_running());
            std::thread::yield_now();
        }
        assert_eq!(load.begun(), 3);
        load.stop().unwrap();

        let load = Load::start(|_| Err(LoadError::key("a key")("is too short")));
        while load.is_running() {
            std::thread::yield_now();
        }
        assert_eq!(load.stop().unwrap_err().to_string(), "a key: is too short");
    }
}
