//! The host of tunnels: any number of them in one process, with what a process has once: signals, rights, the service manager, the
//! log, the sockets of `adit status`.
//!
//! [`process`] starts and ends all tunnels, [`startup`] is where they wait for each other.

pub(crate) mod background;
pub(crate) mod configuration;
pub(crate) mod conflicts;
pub(crate) mod ending;
pub(crate) mod endpoints;
pub(crate) mod exit;
pub(crate) mod failure;
pub(crate) mod forwarding;
pub(crate) mod helper;
pub(crate) mod log;
pub(crate) mod notify;
pub(crate) mod options;
pub(crate) mod place;
pub(crate) mod prepare;
pub(crate) mod privileges;
pub(crate) mod process;
pub(crate) mod signals;
pub(crate) mod startup;
pub(crate) mod status;
pub(crate) mod terminal;
pub(crate) mod writable;
