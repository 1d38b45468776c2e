//! `adit` as its users run it: errors, several tunnels in one process, a file that is read again.

pub(crate) mod errors;
pub(crate) mod tunnels;
