//! `adit kill-switch`: what `adit up --kill-switch` turned on, listed and turned off.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adit_system::{KillSwitch, KillSwitchError};

use adit_host::exit;

/// Turn off, or list, the kill switches that `adit up --kill-switch` turned on
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Let traffic leave without the tunnels again: those of one `adit up`, or all
    Off {
        /// The configurations that `adit up` was given, in any order; all kill switches without them
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// List the kill switches that are on, by their tables in nftables
    List,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let outcome = match args.command {
        Command::Off { files } if files.is_empty() => {
            KillSwitch::all_off().map(|tables| told(&tables, " is off"))
        }
        Command::Off { files } => off(&files),
        Command::List => KillSwitch::tables().map(|tables| told(&tables, "")),
    };
    match outcome {
        Ok(lines) => {
            lines.iter().for_each(exit::say);
            ExitCode::SUCCESS
        }
        Err(error) => exit::failure(error),
    }
}

fn off(files: &[PathBuf]) -> Result<Vec<String>, KillSwitchError> {
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let switch = KillSwitch::new(&files, false);
    if switch.off()? {
        return Ok(told(&[switch.table().to_owned()], " is off"));
    }
    let others = KillSwitch::tables()?;
    if others.is_empty() {
        return Ok(told(&[], ""));
    }
    let mut lines = vec![
        "no kill switch is on for these files: name all that `adit up` was given, or none to turn all off; on are:"
            .to_owned(),
    ];
    lines.extend(others);
    Ok(lines)
}

fn told(tables: &[String], what: &str) -> Vec<String> {
    if tables.is_empty() {
        return vec!["no kill switch is on".to_owned()];
    }
    tables.iter().map(|table| format!("{table}{what}")).collect()
}
