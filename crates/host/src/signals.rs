//! Signals: those that end the process before there are tunnels, and those that are orders for the tunnels.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag::{register_conditional_default, register_usize};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, unregister};

use super::terminal::Waiting;

/// The signals by which a person at a terminal, or its loss, ends a program.
const ENDS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Signals before there are tunnels: each ends the program by its default action, but not before the things that must
/// not be left behind are gone: a terminal that hides typed text, the file of the management socket.
pub struct StartupSignals {
    /// A signal may end the program on the spot.
    free: Arc<AtomicBool>,
    /// How many reasons there are to put it off.
    reasons: AtomicUsize,
    /// The last signal that came; 0: none.
    caught: Arc<AtomicUsize>,
    /// No answer is wanted any more, as the process ends for another reason.
    withdrawn: AtomicBool,
    actions: Vec<SigId>,
}

impl StartupSignals {
    /// Watches signals until all tunnels have started.
    ///
    /// # Errors
    /// When the system does not let them be watched.
    pub fn watch() -> io::Result<Self> {
        let (free, caught) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
        let (reasons, withdrawn) = (AtomicUsize::new(0), AtomicBool::new(false));
        let mut signals = StartupSignals { free, reasons, caught, withdrawn, actions: Vec::new() };
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
    pub(crate) fn hand_over(&self) -> bool {
        for action in &self.actions {
            unregister(*action);
        }
        // SIGQUIT has no handler from here on and ends the program.
        self.free.store(true, Ordering::SeqCst);
        self.caught.swap(0, Ordering::SeqCst) != 0
    }

    /// Withdraws the questions to a person or a program.
    pub fn withdraw(&self) {
        self.withdrawn.store(true, Ordering::SeqCst);
    }
}

impl Waiting for StartupSignals {
    fn wants_it(&self) -> bool {
        self.caught.load(Ordering::SeqCst) == 0 && !self.withdrawn.load(Ordering::SeqCst)
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

/// The order of a signal to each tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// End, with the exit notice (SIGTERM, SIGINT).
    Shutdown,
    /// Connect anew (SIGUSR1).
    Restart,
    /// Read the configuration again (SIGHUP).
    Reload,
    /// Write the state to the log (SIGUSR2).
    Status,
}

/// Passes an order to one tunnel; false when that has ended.
pub type Receiver = Box<dyn FnMut(Order) -> bool + Send>;

/// The tunnels of the process that take orders. Copies share them.
#[derive(Clone, Default)]
pub struct Tunnels(Arc<Mutex<Receivers>>);

#[derive(Default)]
struct Receivers {
    all: Vec<Receiver>,
    stopping: bool,
}

impl Tunnels {
    /// Adds a tunnel. It ends at once if the others were ordered to end before.
    pub fn add(&self, mut receiver: Receiver) {
        let mut receivers = self.lock();
        if receivers.stopping {
            receiver(Order::Shutdown);
        }
        receivers.all.push(receiver);
    }

    /// Gives all tunnels an order, in the order of their files. False when all have ended.
    pub fn order(&self, order: Order) -> bool {
        let mut receivers = self.lock();
        receivers.stopping |= order == Order::Shutdown;
        receivers.all.retain_mut(|receiver| receiver(order));
        !receivers.all.is_empty()
    }

    /// Whether none takes orders, or all have ended.
    pub fn is_empty(&self) -> bool {
        self.lock().all.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Receivers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// SIGTERM and SIGINT end the tunnels with the exit notice (a second one at once), SIGUSR1 makes them connect anew, SIGHUP has
/// them read their files again, SIGUSR2 writes their state to the log.
pub fn watch(tunnels: Tunnels) -> io::Result<()> {
    let stopping = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // Takes effect from the second signal on: the flag is set by the first.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stopping))?;
        signal_hook::flag::register(signal, Arc::clone(&stopping))?;
    }
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP])?;
    thread::Builder::new().name("adit-signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            let order = match signal {
                SIGTERM | SIGINT => Order::Shutdown,
                SIGUSR2 => Order::Status,
                SIGHUP => Order::Reload,
                _ => Order::Restart,
            };
            if !tunnels.order(order) && stopping.load(Ordering::Relaxed) {
                return;
            }
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn orders_reach_every_tunnel_that_has_not_ended() {
        let (orders, given) = mpsc::channel();
        let tunnels = Tunnels::default();
        let tunnel = |name: &'static str, ends: bool| -> Receiver {
            let orders = orders.clone();
            Box::new(move |order| orders.send((name, order)).is_ok() && !ends)
        };
        tunnels.add(tunnel("a", false));
        tunnels.add(tunnel("b", true));
        assert!(tunnels.order(Order::Restart) && tunnels.order(Order::Shutdown));
        tunnels.add(tunnel("late", true));
        assert!(tunnels.order(Order::Status));
        let expected = [
            ("a", Order::Restart),
            ("b", Order::Restart),
            ("a", Order::Shutdown),
            ("late", Order::Shutdown),
            ("a", Order::Status),
            ("late", Order::Status),
        ];
        assert_eq!(given.try_iter().collect::<Vec<_>>(), expected);
    }
}
