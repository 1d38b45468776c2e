//! The management socket, `adit status`, the status file and the log.

pub(crate) mod commands;
mod front_end;
mod push_update;
pub(crate) mod logs;
pub(crate) mod status;
pub(crate) mod status_file;
