//! `adit status`: the reports of the running tunnels, for people or as JSON.

mod columns;
mod details;
mod show;
mod units;

use std::io;
use std::process::ExitCode;

use adit_host::exit;
use adit_host::status::report::Report;
use adit_host::status::{ask, refuses, sockets};

/// Show the running tunnels: who is connected, from where, since when, with what traffic, and what is not well
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the tunnel of this configuration (its file name without the ending)
    name: Option<String>,
    /// Show offloads, sandbox, limits, counts and each peer's keys, too
    #[arg(long, conflicts_with = "json")]
    details: bool,
    /// Print JSON: an array with one object a tunnel
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let mut reports = Vec::new();
    for path in sockets() {
        match ask(&path) {
            Ok(report) => reports.push(report),
            // Left by a tunnel that was killed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return exit::failure("tunnels are running, but only root may ask them: sudo adit status");
            }
            // One tunnel that an older or newer adit runs does not hide the others.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => exit::tell(format_args!(
                "{}: no answer that this version of adit understands ({error}); restart that tunnel",
                path.display()
            )),
            // It ended while it was being asked: it closes without an answer, or is gone.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(_) if !path.exists() || refuses(&path) => {}
            Err(error) => return exit::failure(format_args!("{}: no answer: {error}", path.display())),
        }
    }
    if let Some(name) = &args.name {
        reports.retain(|report| report.name == *name);
    }
    if args.json {
        match serde_json::to_string_pretty(&reports) {
            Ok(text) => exit::say(text),
            Err(error) => return exit::failure(error),
        }
        return ExitCode::SUCCESS;
    }
    if reports.is_empty() {
        return exit::failure("no tunnel is running here; start one with: adit up FILE");
    }
    for tunnel in tunnels(&reports) {
        exit::say(show::tunnel(&tunnel, args.details));
    }
    ExitCode::SUCCESS
}

/// The reports by tunnel: those of the endpoints of one tunnel, which name the same device of one process, together.
fn tunnels(reports: &[Report]) -> Vec<Vec<&Report>> {
    let mut tunnels: Vec<Vec<&Report>> = Vec::new();
    for report in reports {
        let is_same = |tunnel: &&mut Vec<&Report>| {
            let first = tunnel.first().filter(|_| !report.endpoints.is_empty());
            first.is_some_and(|first| (first.pid, &first.endpoints) == (report.pid, &report.endpoints))
        };
        match tunnels.iter_mut().find(is_same) {
            Some(tunnel) => tunnel.push(report),
            None => tunnels.push(vec![report]),
        }
    }
    tunnels
}

/// A tunnel's answer, for the fuzz target.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing {
    use super::{Report, show};

    /// The answer as people see it, and as JSON again. `None` if it cannot be read.
    pub(crate) fn printed(json: &[u8]) -> Option<(String, String)> {
        let report: Report = serde_json::from_slice(json).ok()?;
        let shown = [false, true].map(|details| show::tunnel(&[&report], details)).join("\n");
        Some((shown, serde_json::to_string(&report).ok()?))
    }

    /// An answer with something in every place.
    #[cfg(test)]
    pub(crate) fn example() -> String {
        serde_json::to_string(&show::tests::wild_report()).expect("plain data")
    }
}
