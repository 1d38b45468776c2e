//! Signals, as OpenVPN takes them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use adit_core::{Command, Protocol};
use adit_io::Handle;
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag::{register_conditional_default, register_usize};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, unregister};

use super::status_file::{self, Form};
use super::terminal::Waiting;
use crate::log::Logger;
use crate::status::StatusSource;

/// What a person at a terminal, or its loss, sends to end a program.
const ENDS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Signals before there is a tunnel: each ends the program as by default, but not before what must not be left
/// behind is gone: a terminal that hides what is typed, the file of the management socket.
pub(super) struct StartupSignals {
    /// A signal may end the program on the spot.
    free: Arc<AtomicBool>,
    /// How many reasons there are to put it off.
    reasons: AtomicUsize,
    /// The last signal that came; 0: none.
    caught: Arc<AtomicUsize>,
    actions: Vec<SigId>,
}

impl StartupSignals {
    pub(super) fn watch() -> io::Result<Self> {
        let (free, caught) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
        let mut signals = StartupSignals { free, reasons: AtomicUsize::new(0), caught, actions: Vec::new() };
        for signal in ENDS {
            let number = signal.unsigned_abs() as usize;
            let note = register_usize(signal, Arc::clone(&signals.caught), number)?;
            let end = register_conditional_default(signal, Arc::clone(&signals.free))?;
            // A tunnel does not watch SIGQUIT, which goes on to end the program.
            if signal != SIGQUIT {
                signals.actions.extend([note, end]);
            }
        }
        Ok(signals)
    }

    /// Another watches from now on. True if a signal came that is still to be obeyed.
    pub(super) fn hand_over(&self) -> bool {
        for action in &self.actions {
            unregister(*action);
        }
        // SIGQUIT has no handler from here on and ends the program.
        self.free.store(true, Ordering::SeqCst);
        self.caught.swap(0, Ordering::SeqCst) != 0
    }
}

impl Waiting for StartupSignals {
    fn wants_it(&self) -> bool {
        self.caught.load(Ordering::SeqCst) == 0
    }

    fn begin(&self) {
        self.reasons.fetch_add(1, Ordering::SeqCst);
        self.free.store(false, Ordering::SeqCst);
    }

    fn end(&self) {
        if self.reasons.fetch_sub(1, Ordering::SeqCst) > 1 {
            return;
        }
        self.free.store(true, Ordering::SeqCst);
        let caught = self.caught.load(Ordering::SeqCst);
        if let Some(signal) = ENDS.into_iter().find(|signal| signal.unsigned_abs() as usize == caught) {
            // Does not come back. If it does, there is no answer, which is an end as well.
            let _ = emulate_default_handler(signal);
        }
    }
}

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
