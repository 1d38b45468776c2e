//! `adit check`: what would become of a configuration.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adit_core::configuration::{Disposition, Kind, Problem};
use adit_openvpn_config::documentation;

use crate::adapters;
use adit_host::adapter::Configuration;
use adit_host::configuration::{self, Unusable};
use adit_host::remarks::Remarks;
use adit_host::{conflicts, exit, forwarding};

/// Say what adit makes of OpenVPN configurations, and of WireGuard's files, without running them
///
/// Refuses each configuration that `adit up` would refuse before its first datagram, with the same message. Names the points that
/// show at the start alone.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The configurations: .ovpn or .conf files. Several are checked for one process, as `adit up` runs them
    #[arg(required_unless_present = "directives", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Name the directives that are used as they stand, too
    #[arg(long)]
    all: bool,
    /// Instead: what becomes of every directive there is, as a page of Markdown
    #[arg(long, exclusive = true)]
    directives: bool,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    if args.directives {
        exit::say(documentation().trim_end());
        return ExitCode::SUCCESS;
    }
    let (mut good, mut failed) = (Vec::new(), None);
    for file in &args.files {
        match check(file, args.all) {
            Ok(configuration) => good.push(configuration),
            Err(code) => {
                failed.get_or_insert(code);
            }
        }
    }
    let all: Vec<&dyn Configuration> = good.iter().map(|configuration| &**configuration).collect();
    match (conflicts::check(&all), failed) {
        (Err(why), _) => exit::usage(format_args!("cannot be used together:\n{why}")),
        (Ok(()), failed) => failed.unwrap_or(ExitCode::SUCCESS),
    }
}

/// Says what becomes of one file. An error is the exit code.
fn check(file: &Path, all: bool) -> Result<Box<dyn Configuration>, ExitCode> {
    match configuration::read(adapters::ALL, file) {
        Ok(configuration) => {
            let mut of_start = Remarks::default();
            configuration.check(&mut of_start).map_err(|failure| {
                exit::tell(format_args!("{}: cannot be used:\n{}", file.display(), failure.why()));
                failure.exit_code()
            })?;
            remarks(&*configuration, &of_start, all).iter().for_each(exit::say);
            forwarding::survey(&*configuration).iter().for_each(exit::say);
            exit::say(format_args!("{}: can be used", file.display()));
            Ok(configuration)
        }
        Err(Unusable::Wrong(failure)) => {
            lines(&failure.report, all).iter().for_each(exit::say);
            Err(exit::usage(format_args!("{}: cannot be used:\n{failure}", file.display())))
        }
        Err(error) => Err(exit::usage(error)),
    }
}

/// The remarks on a configuration that can be used, one a line: what becomes of its directives, unless they are used as they stand
/// and `all` is false, its doubtful points, and the points that show at the start alone.
pub(crate) fn remarks(configuration: &dyn Configuration, of_start: &Remarks, all: bool) -> Vec<String> {
    let report = configuration.report();
    let untold = configuration.warnings().iter().filter(|warning| !is_told(warning, report));
    let warnings = untold.map(ToString::to_string).chain(of_start.warnings.iter().cloned());
    let left_open = of_start.left_open.iter().map(|text| format!("{text} (not known before the start)"));
    let warnings = warnings.map(|warning| format!("{warning} (warning)"));
    lines(report, all).into_iter().chain(warnings).chain(left_open).collect()
}

/// What is refused comes with the problems.
fn lines(report: &[Disposition], all: bool) -> Vec<String> {
    let worth_a_line = |entry: &&Disposition| match entry.kind {
        Kind::Used => all || !entry.reason.is_empty(),
        Kind::Ignored => true,
        Kind::Refused => false,
    };
    report.iter().filter(worth_a_line).map(ToString::to_string).collect()
}

/// Whether the report says what the warning does.
fn is_told(warning: &Problem, report: &[Disposition]) -> bool {
    let tells = |entry: &Disposition| {
        let same_line = warning.line == Some(entry.line) && entry.file == warning.file;
        same_line && !entry.reason.is_empty() && warning.text.ends_with(&entry.reason)
    };
    report.iter().any(tells)
}
