use std::os::fd::OwnedFd;

use rustix::net::{Shutdown, shutdown};

/// Closes a listening socket of the stream type so that connections are refused at once.
///
/// Closing alone does not do it in a process with several threads: a program that another thread starts has a copy of the
/// socket until its `exec`.
pub fn stop_listening(listener: impl Into<OwnedFd>) {
    // An error means that it does not listen.
    let _ = shutdown(listener.into(), Shutdown::Both);
}
