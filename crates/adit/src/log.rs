//! The log of a running tunnel.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use adit_config::openvpn::{Log, Process};
use adit_core::Severity;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Where lines go, and which. Copies write to the same place.
#[derive(Clone)]
pub(crate) struct Logger {
    sink: Arc<Mutex<dyn Write + Send>>,
    least: Severity,
    stamped: bool,
}

impl Logger {
    /// The log as the configuration has it: the standard error, or a file.
    pub(crate) fn new(process: &Process) -> io::Result<Self> {
        let sink: Arc<Mutex<dyn Write + Send>> = match &process.log {
            Some(Log::File { path, append }) => Arc::new(Mutex::new(open(path, *append)?)),
            Some(Log::Syslog(_)) | None => Arc::new(Mutex::new(io::stderr())),
        };
        // The journal stamps each line itself.
        let stamped = process.log.is_some() || std::env::var_os("JOURNAL_STREAM").is_none();
        let least = match process.verb {
            0 => Severity::Warning,
            1..=5 => Severity::Info,
            _ => Severity::Debug,
        };
        Ok(Logger { sink, least, stamped })
    }

    /// Writes one line if it matters enough. A log that cannot be written must not stop the tunnel.
    pub(crate) fn log(&mut self, severity: Severity, text: impl std::fmt::Display) {
        if severity < self.least {
            return;
        }
        let mark = match severity {
            Severity::Debug => "debug: ",
            Severity::Info => "",
            Severity::Warning => "warning: ",
            Severity::Error => "error: ",
        };
        let line =
            if self.stamped { format!("{} {mark}{text}\n", stamp()) } else { format!("{mark}{text}\n") };
        // In one piece: the standard error is not buffered, and each part would be a system call.
        let _ = self.sink.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}

fn open(path: &std::path::Path, append: bool) -> io::Result<File> {
    OpenOptions::new().create(true).write(true).append(append).truncate(!append).open(path)
}

/// The time in UTC, to the second.
fn stamp() -> String {
    let now = OffsetDateTime::now_utc();
    now.replace_nanosecond(0).unwrap_or(now).format(&Rfc3339).unwrap_or_default()
}
