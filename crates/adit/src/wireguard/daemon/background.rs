//! The process that goes on when the one that was called has ended.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::setsid;
use rustix::stdio::{dup2_stderr, dup2_stdout};

use super::environment::LogLevel;
use crate::exit;

/// What it says on its standard output when it is ready.
const READY: &[u8] = b"\n";

/// Starts this program once more, and waits until that is ready or has failed, which it then has told.
///
/// The descriptors of this process that are named in the environment are still there for it.
pub(super) fn start(interface: &str) -> ExitCode {
    let started = std::env::current_exe().and_then(|program| {
        Command::new(program)
            .arg0("adit-wireguard")
            .args(["--detach", "--", interface])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
    });
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return exit::failure(format_args!("cannot start the process of {interface}: {error}")),
    };
    let mut said = [0; READY.len()];
    let is_ready = child.stdout.take().is_some_and(|mut output| output.read_exact(&mut said).is_ok());
    if is_ready {
        return ExitCode::SUCCESS;
    }
    // It closed its output because it ends.
    let _ = child.wait();
    ExitCode::FAILURE
}

/// Leaves the session and the directory of the process that was called.
pub(super) fn detach() -> Result<(), String> {
    // A process that leads a group cannot; then it was not started by `start`.
    setsid().map_err(|error| format!("no session of its own: {error}"))?;
    std::env::set_current_dir("/").map_err(|error| format!("/: {error}"))
}

/// Where nothing is kept.
pub(super) fn nowhere() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/null")
}

/// Lets the process that was called end. From now on nothing is written where that wrote, but to `nowhere`; the log is
/// written there if it is wanted.
pub(super) fn ready(level: LogLevel, nowhere: &File) -> io::Result<()> {
    let mut output = io::stdout();
    // If nobody waits, all the better.
    let _ = output.write_all(READY).and_then(|()| output.flush());
    dup2_stdout(nowhere)?;
    if !level.is_seen() {
        dup2_stderr(nowhere)?;
    }
    Ok(())
}
