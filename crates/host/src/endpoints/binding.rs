//! The order in which the endpoints of a tunnel bind their sockets.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The endpoints that lead in a tunnel and have not bound their sockets yet. An endpoint that joins may use these sockets.
#[derive(Clone, Default)]
pub struct Binding(Arc<(Mutex<usize>, Condvar)>);

/// An endpoint that has not bound its sockets. When this is dropped, the endpoint has bound them or has failed.
pub struct Unbound(Binding);

impl Binding {
    /// One more endpoint whose sockets the others wait for.
    pub fn endpoint(&self) -> Unbound {
        *self.lock() += 1;
        Unbound(self.clone())
    }

    /// Waits until all these endpoints have bound their sockets.
    pub fn wait(&self) {
        let mut left = self.lock();
        while *left > 0 {
            left = self.0.1.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        *self.0.lock() -= 1;
        self.0.0.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_joins_waits_for_the_sockets_of_all_that_lead() {
        let binding = Binding::default();
        binding.wait();
        let leading = [binding.endpoint(), binding.endpoint()];
        let waiting = {
            let binding = binding.clone();
            std::thread::spawn(move || binding.wait())
        };
        let [first, second] = leading;
        drop(first);
        assert!(!waiting.is_finished());
        drop(second);
        waiting.join().unwrap();
    }
}
