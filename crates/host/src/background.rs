//! A process that goes on in the background when the one that was called has ended.

use std::io::{self, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::setsid;

/// The line on its standard output by which it reports that it is ready; it writes nothing before.
const READY: &[u8] = b"\n";

/// Starts that process, and waits until it is ready: true, or has ended: false. Its standard error meanwhile goes to
/// that of this process, if it is piped.
///
/// # Errors
/// When it cannot be started.
pub fn start(command: &mut Command) -> io::Result<bool> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let copying = child.stderr.take().map(|mut errors| {
        thread::Builder::new()
            .name("adit-errors".to_owned())
            .spawn(move || drop(io::copy(&mut errors, &mut io::stderr())))
    });
    let is_ready = is_ready(&mut child);
    if !is_ready {
        // It closed its output because it ends; its last words come first.
        let _ = child.wait();
        if let Some(Ok(copying)) = copying {
            let _ = copying.join();
        }
    }
    Ok(is_ready)
}

fn is_ready(child: &mut Child) -> bool {
    let mut said = [0; READY.len()];
    let said_it = child.stdout.take().is_some_and(|mut output| output.read_exact(&mut said).is_ok());
    said_it && said == READY
}

/// Leaves the session of the process that was called.
///
/// # Errors
/// When this process leads a group: then it was not started by [`start`].
pub fn leave_session() -> Result<(), String> {
    setsid().map(drop).map_err(|error| format!("no session of its own: {error}"))
}

/// Lets the process that was called end.
pub fn ready() {
    let mut output = io::stdout();
    // It is no fault if no process waits.
    let _ = output.write_all(READY).and_then(|()| output.flush());
}
