//! The process that goes on when the one that was called has ended.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::stdio::{dup2_stderr, dup2_stdout};

use super::environment::LogLevel;
use adit_host::{background, exit};

/// Starts this program once more, and waits until that is ready or has failed, which it then has told.
///
/// The descriptors of this process that are named in the environment are still there for it.
pub(super) fn start(interface: &str) -> ExitCode {
    let started = std::env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        background::start(command.arg0("adit-wireguard").args(["--detach", "--", interface]))
    });
    match started {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => exit::failure(format_args!("cannot start the process of {interface}: {error}")),
    }
}

/// Leaves the session and the directory of the process that was called.
pub(super) fn detach() -> Result<(), String> {
    background::leave_session()?;
    std::env::set_current_dir("/").map_err(|error| format!("/: {error}"))
}

/// Where nothing is kept.
pub(super) fn nowhere() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/null")
}

/// Lets the process that was called end. From now on nothing is written where that wrote, but to `nowhere`; the log is
/// written there if it is wanted.
pub(super) fn ready(level: LogLevel, nowhere: &File) -> io::Result<()> {
    background::ready();
    dup2_stdout(nowhere)?;
    if !level.is_seen() {
        dup2_stderr(nowhere)?;
    }
    Ok(())
}
