//! The preparation of a tunnel by its configuration: files are read and judged, and nothing is opened, started or sent.
//!
//! `adit up` goes on after the preparation, and `adit check` ends with it: `check` refuses each configuration that `up` would
//! refuse before its first datagram, with the same message.

use std::fmt::Display;
use std::path::Path;

use adit_core::Severity;
use adit_core::configuration::Disposition;
use adit_openvpn_config::{Log, Parsed, Process};
use time::OffsetDateTime;

use super::configuration::Dialect;
use super::failure::Failure;
use super::log::Logger;
use super::place::place_in;
use super::writable;
use crate::openvpn::adapter::prepare::{Asking, plan, settle};
use crate::wireguard;

/// A receiver of remarks on a configuration that can be used.
pub(crate) trait Notes {
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
            let plan = plan(&mut parsed, file, &Asking::Never, &mut remarks)?;
            let near = plan.watched().expiry.near(OffsetDateTime::now_utc());
            near.iter().for_each(|expiring| remarks.warn(expiring));
        }
        Dialect::WireGuard(parsed) => drop(wireguard::adapter::prepare::prepare(file, parsed, &mut remarks)?),
    }
    Ok(remarks)
}

/// Whether the log file, if there is one, can be written.
///
/// # Errors
/// Why not.
pub(crate) fn log_place(file: &Path, process: &Process, report: &[Disposition]) -> Result<(), Failure> {
    let Some(Log::File { path, .. }) = &process.log else { return Ok(()) };
    writable::check(path).map_err(|error| {
        let place = place_in(report, file, &["log-append", "log"]);
        Failure::World(format!("{place}: the log file {} cannot be written: {error}", path.display()))
    })
}
