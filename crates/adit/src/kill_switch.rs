//! `adit kill-switch`: what `adit up --kill-switch` turned on, listed and turned off.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adit_io::{KillSwitch, KillSwitchError};

use crate::exit;

/// Turn off, or list, the kill switches that `adit up --kill-switch` turned on
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Let traffic leave without the tunnel again: that of one configuration file, or all
    Off {
        /// The configuration that `adit up` was given; all kill switches without it
        file: Option<PathBuf>,
    },
    /// List the kill switches that are on, by their tables in nftables
    List,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let outcome = match args.command {
        Command::Off { file: Some(file) } => off(&file),
        Command::Off { file: None } => KillSwitch::all_off().map(|tables| told(&tables, " is off")),
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

fn off(file: &Path) -> Result<Vec<String>, KillSwitchError> {
    let switch = KillSwitch::new(file, false);
    let was_on = switch.off()?;
    Ok(if was_on { told(&[switch.table().to_owned()], " is off") } else { told(&[], "") })
}

fn told(tables: &[String], what: &str) -> Vec<String> {
    if tables.is_empty() {
        return vec!["no kill switch is on".to_owned()];
    }
    tables.iter().map(|table| format!("{table}{what}")).collect()
}
