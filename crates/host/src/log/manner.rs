//! The look of the lines of a log.

use adit_core::Severity;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The look of lines, and their place if the configuration states none.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// The name of the program, under which the log of the system has the lines.
    pub program: &'static str,
    /// The start of a line, before its text. It has the time if that is wanted.
    pub start: fn(severity: Severity, stamped: bool) -> String,
    /// The stream of the lines if the configuration states no place.
    pub stream: Stream,
    /// Lines on that stream have the time also where the journal takes them, which adds the time itself.
    pub stamps_in_journal: bool,
}

/// A stream of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The standard error.
    Errors,
    /// The standard output.
    Output {
        /// Errors go to the standard error.
        errors_apart: bool,
    },
}

/// The name of this program.
const PROGRAM: &str = "adit";

impl Manner {
    /// adit's own manner: the standard error, the time in UTC.
    pub const ADIT: Manner =
        Manner { program: PROGRAM, start, stream: Stream::Errors, stamps_in_journal: false };

    /// Whether it is adit's own manner, and not that of a program in whose place adit runs.
    pub fn is_own(self) -> bool {
        self.program == PROGRAM
    }
}

impl Default for Manner {
    fn default() -> Self {
        Manner::ADIT
    }
}

fn start(severity: Severity, stamped: bool) -> String {
    let mark = match severity {
        Severity::Debug => "debug: ",
        Severity::Info => "",
        Severity::Warning => "warning: ",
        Severity::Error => "error: ",
    };
    if stamped { format!("{} {mark}", stamp()) } else { mark.to_owned() }
}

/// The time in UTC, to the second.
fn stamp() -> String {
    let now = OffsetDateTime::now_utc();
    now.replace_nanosecond(0).unwrap_or(now).format(&Rfc3339).unwrap_or_default()
}
