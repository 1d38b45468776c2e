//! `adit check`: what would become of a configuration.

use std::path::PathBuf;
use std::process::ExitCode;

use adit_config::openvpn::documentation;
use adit_config::{Disposition, Kind, Problem};

use crate::configuration::{self, Unusable};
use crate::exit;

/// Say what adit makes of an OpenVPN configuration, without running it
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The configuration: an .ovpn or .conf file
    #[arg(required_unless_present = "directives")]
    file: Option<PathBuf>,
    /// Name the directives that are used as they stand, too
    #[arg(long)]
    all: bool,
    /// Instead: what becomes of every directive there is, as a page of Markdown
    #[arg(long, exclusive = true)]
    directives: bool,
}

/// Runs the command. Certificates and keys are only found, not judged: `adit up` does that.
pub(crate) fn run(args: Args) -> ExitCode {
    let Some(file) = args.file else {
        exit::say(documentation().trim_end());
        return ExitCode::SUCCESS;
    };
    match configuration::read(&file) {
        Ok(parsed) => {
            tell(&parsed.report, args.all);
            parsed.warnings.iter().filter(|warning| !is_told(warning, &parsed.report)).for_each(|warning| {
                exit::say(format_args!("{warning} (warning)"));
            });
            exit::say(format_args!("{}: can be used", file.display()));
            ExitCode::SUCCESS
        }
        Err(Unusable::Wrong(failure)) => {
            tell(&failure.report, args.all);
            exit::usage(format_args!("{}: cannot be used:\n{failure}", file.display()))
        }
        Err(error) => exit::usage(error),
    }
}

/// What is refused comes with the problems.
fn tell(report: &[Disposition], all: bool) {
    let worth_a_line = |entry: &&Disposition| match entry.kind {
        Kind::Used => all || !entry.reason.is_empty(),
        Kind::Ignored => true,
        Kind::Refused => false,
    };
    report.iter().filter(worth_a_line).for_each(exit::say);
}

/// Whether the report has a line on what the warning is about.
fn is_told(warning: &Problem, report: &[Disposition]) -> bool {
    warning.line.is_some_and(|line| {
        report
            .iter()
            .any(|entry| entry.line == line && entry.file == warning.file && !entry.reason.is_empty())
    })
}
