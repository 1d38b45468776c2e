//! `adit check`: what would become of a configuration.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::adapters::{self, help};
use adit_host::adapter::Configuration;
use adit_host::check::{lines, remarks};
use adit_host::configuration::{self, Unusable};
use adit_host::remarks::Remarks;
use adit_host::{access, conflicts, exit, forwarding};

/// The arguments of the command.
#[derive(clap::Args)]
#[command(about = help::CHECK, long_about = help::CHECK_LONG)]
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
        let pages: Vec<String> = adapters::ALL.iter().filter_map(|adapter| adapter.directives()).collect();
        exit::say(pages.join("\n").trim_end());
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
            let rules = access::file_of(file);
            let found = access::read(&rules).map_err(adit_host::failure::Failure::exit)?;
            found.iter().for_each(|found| exit::say(format_args!("{}: {}", rules.display(), found.summary)));
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
