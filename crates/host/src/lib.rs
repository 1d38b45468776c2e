//! The host of tunnels: any number of them in one process, with the things that a process has once: signals, rights,
//! the service manager, the log, the sockets of `adit status`.
//!
//! [`process`] starts and ends all tunnels, [`startup`] is where they wait for each other. A protocol is an [`adapter::Adapter`]; the host
//! names none.
#![forbid(unsafe_code)]

pub mod access;
pub mod adapter;
pub mod adoption;
pub mod background;
pub mod bench;
pub mod blocking;
pub mod check;
pub mod commands;
pub mod configuration;
pub mod conflicts;
pub mod ending;
pub mod endpoints;
pub mod exit;
pub mod facts;
pub mod failure;
pub mod forwarding;
pub mod helper;
pub mod leases;
pub mod log;
pub mod manual;
pub mod notify;
pub mod options;
pub mod place;
pub mod privileges;
pub mod process;
pub mod programs;
pub mod remarks;
pub mod scripts;
pub mod signals;
pub mod sockets;
pub mod startup;
pub mod state;
pub mod status;
pub mod systemd;
pub mod terminal;
pub mod writable;
