//! Signals, as OpenVPN takes them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use adit_core::{Command, Protocol};
use adit_io::Handle;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::status_file::{self, Form};
use crate::log::Logger;
use crate::status::StatusSource;

/// SIGTERM and SIGINT end the tunnel with a goodbye (a second one at once), SIGUSR1 and SIGHUP make it connect
/// anew, SIGUSR2 writes the state to the log.
pub(super) fn watch<P: Protocol + StatusSource>(
    handle: Handle<P>,
    form: Form,
    mut log: Logger,
) -> io::Result<()> {
    let stopping = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // Takes effect from the second signal on: the flag is set by the first.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stopping))?;
        signal_hook::flag::register(signal, Arc::clone(&stopping))?;
    }
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP])?;
    thread::Builder::new().name("adit-signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            let command = match signal {
                SIGTERM | SIGINT => Command::Shutdown,
                SIGUSR2 => {
                    status_file::tell(form, &handle, &mut log);
                    continue;
                }
                _ => Command::Restart,
            };
            if !handle.command(command) && stopping.load(Ordering::Relaxed) {
                return;
            }
        }
    })?;
    Ok(())
}
