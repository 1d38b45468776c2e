//! The primitives under [`mailbox`](crate::mailbox).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub(crate) use std::sync::mpsc;

use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that is readable while it is set (eventfd(2)).
#[derive(Debug)]
pub(crate) struct WakeDescriptor(OwnedFd);

impl WakeDescriptor {
    /// A new one that is not set.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(WakeDescriptor(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Makes it readable.
    pub(crate) fn set(&self) {
        // It fails only when the counter is full, and then it is readable.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Makes it unreadable.
    pub(crate) fn clear(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.0, &mut count);
    }
}

impl AsFd for WakeDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
