//! The management socket, `adit status`, the status file and the log.

pub(crate) mod commands;
mod consumers;
mod external_key;
mod front_end;
pub(crate) mod logs;
mod push_update;
pub(crate) mod status;
pub(crate) mod status_file;
