//! `adit demo` was a command of this program once. It drives adit from outside, so it is one of `adit-lab` now.

use std::process::ExitCode;

use adit_host::exit;

/// Was moved to adit-lab
#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Says where the demo is.
pub(crate) fn run(args: &Args) -> ExitCode {
    let rest = args.rest.iter().map(|word| format!(" {word}")).collect::<String>();
    exit::usage(format_args!(
        "the demo is a command of adit-lab: run `make demo`, or `adit-lab demo{rest}` as root"
    ))
}
