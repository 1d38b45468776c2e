//! Writes adit's manual pages and completions: `adit-manual DIRECTORY`.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use adit_manual::{files, write};
use clap::Parser;

/// Write manual pages (man/) and the completions of shells (bash/, zsh/, fish/)
#[derive(Parser)]
struct Cli {
    /// Where to write them
    directory: PathBuf,
}

fn main() -> ExitCode {
    let directory = Cli::parse().directory;
    match files().and_then(|files| write(&directory, &files)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("adit-manual: {}: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}
