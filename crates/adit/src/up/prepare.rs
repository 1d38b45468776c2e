//! The preparation of a tunnel by its configuration: files are read and judged, and nothing is opened, started or sent.
//!
//! `adit up` goes on after the preparation, and `adit check` ends with it: `check` refuses each configuration that `up` would
//! refuse before its first datagram, with the same message. An OpenVPN tunnel is prepared in two steps, as the management socket
//! is opened between them: [`settle`] finds the things that the system must have, and [`plan`] makes the parameters of the
//! protocol, for which a password may have to be asked for.

mod plan;
mod settle;
mod stand_in;
mod wireguard;
mod writable;

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use adit_config::Disposition;
use adit_config::openvpn::{Log, Parsed, Process};
use adit_core::Severity;

pub(super) use self::plan::{Plan, Secured, plan};
pub(super) use self::settle::{Settled, settle};
pub(super) use self::wireguard::prepare as wireguard;
use super::Failure;
use super::management::{Management, PendingQueries};
use super::terminal::Waiting;
use super::tunnel::{place, place_in};
use super::unlock::Fault;
use crate::configuration::Dialect;
use crate::log::Logger;

/// A receiver of remarks on a configuration that can be used.
pub(super) trait Notes {
    /// A doubtful point.
    fn warn(&mut self, text: &dyn Display);

    /// A point that is not known before the start, such as a password that is asked for then.
    fn left_open(&mut self, text: &dyn Display);
}

impl Notes for Logger {
    fn warn(&mut self, text: &dyn Display) {
        self.log(Severity::Warning, text);
    }

    /// Ignores the point: the start itself settles it.
    fn left_open(&mut self, _text: &dyn Display) {}
}

/// The remarks of `adit check` on a configuration that can be used.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    /// Doubtful points, in the words of the log.
    pub(crate) warnings: Vec<String>,
    /// Points that are not known before the start.
    pub(crate) left_open: Vec<String>,
}

impl Notes for Remarks {
    fn warn(&mut self, text: &dyn Display) {
        self.warnings.push(text.to_string());
    }

    fn left_open(&mut self, text: &dyn Display) {
        self.left_open.push(text.to_string());
    }
}

/// Whether a person or a program can be asked for what the files do not hold.
pub(super) enum Asking<'a> {
    /// The program at the management socket, or the person at the terminal, as long as the start waits.
    Now(Option<&'a Management>, &'a dyn Waiting),
    /// No: nothing is started.
    Never,
}

impl Asking<'_> {
    /// The program that answers questions for passwords, if there is one.
    pub(super) fn questions(&self) -> Option<Arc<PendingQueries>> {
        match self {
            Asking::Now(management, _) => management.and_then(Management::questions),
            Asking::Never => None,
        }
    }
}

/// Prepares the tunnel of a configuration that was read from `file`, and drops it.
///
/// # Errors
/// Why `adit up` would refuse it before its first datagram.
pub(crate) fn check(file: &Path, dialect: &Dialect) -> Result<Remarks, Failure> {
    let mut remarks = Remarks::default();
    match dialect {
        Dialect::OpenVpn(parsed) => {
            log_place(file, &parsed.config.process, &parsed.report)?;
            let mut parsed = Parsed::clone(parsed);
            settle(&mut parsed, file, &mut remarks)?;
            if let Some(status) = &parsed.config.process.status
                && let Err(error) = writable::check(&status.path)
            {
                remarks
                    .warn(&format_args!("status {}: it cannot be written: {error}", status.path.display()));
            }
            drop(plan(&mut parsed, file, &Asking::Never, &mut remarks)?);
        }
        Dialect::WireGuard(parsed) => drop(wireguard(file, parsed, &mut remarks)?),
    }
    Ok(remarks)
}

/// Whether the log file, if there is one, can be written.
///
/// # Errors
/// Why not.
pub(super) fn log_place(file: &Path, process: &Process, report: &[Disposition]) -> Result<(), Failure> {
    let Some(Log::File { path, .. }) = &process.log else { return Ok(()) };
    writable::check(path).map_err(|error| {
        let place = place_in(report, file, &["log-append", "log"]);
        Failure::World(format!("{place}: the log file {} cannot be written: {error}", path.display()))
    })
}

/// The failure for a fault of the management socket, with the line of the directive. A fault of `management` itself, such as a port
/// that is taken or a file that is not there, is the system's and not the configuration's.
pub(super) fn management_fault(parsed: &Parsed, file: &Path, (directive, why): Fault) -> Failure {
    match directive {
        "management" => Failure::World(format!("{}: {why}", place(parsed, file, &["management"]))),
        _ => at_line(parsed, file, directive, &why),
    }
}

/// The failure for an error in what a directive names, with the line of the directive.
fn at_line(parsed: &Parsed, file: &Path, directive: &str, error: &dyn Display) -> Failure {
    Failure::Configuration(format!("{}: {error}", place(parsed, file, &[directive])))
}

#[cfg(test)]
mod tests;
