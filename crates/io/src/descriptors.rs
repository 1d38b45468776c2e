//! The limit of a process's descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets the process have as many descriptors open as the system allows it: the usual limit of 1,024 is for programs
/// that use `select`, and each tunnel, and each TCP connection, takes some. A system that refuses leaves the limit as
/// it was.
pub fn allow_many_descriptors() {
    let limits = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, maximum: limits.maximum });
}
