//! The start of all tunnels of a process. Signals pass to the tunnels once all can take orders, and the process gives up
//! its rights once all are set up: there is one set of rights for all threads.

use std::cell::Cell;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use adit_core::Severity;
use adit_guard::{Account, Layer};

use super::notify;
use super::privileges::{self, Confinement};
use super::signals::{self, Order, Receiver, StartupSignals, Tunnels};
use super::terminal::Terminal;
use crate::background;
use crate::log::Logger;

/// The resources that the tunnels of a process share until they run.
pub struct Startup {
    /// Signals, until the tunnels take them.
    pub early: StartupSignals,
    /// The tunnels that take orders.
    pub tunnels: Tunnels,
    /// Which rights were given up, once they were.
    pub confinement: Confinement,
    /// Another process waits until all tunnels are set up.
    pub in_background: bool,
    /// Files and most system calls are given up, too.
    sandbox: bool,
    log: Logger,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Tunnels that take no orders yet, and have not failed.
    without_orders: usize,
    /// Tunnels that are not set up yet, and have not failed.
    unfinished: usize,
    /// The user to become, of the first configuration that names one.
    account: Option<Account>,
    confining: bool,
    confined: Option<Result<(), String>>,
}

impl Startup {
    /// The startup of so many tunnels. Without `sandbox` they keep files and system calls. `log` takes the lines about
    /// the process.
    pub fn new(early: StartupSignals, tunnels: usize, sandbox: bool, log: Logger) -> Self {
        let state = State {
            without_orders: tunnels,
            unfinished: tunnels,
            account: None,
            confining: false,
            confined: None,
        };
        Startup {
            early,
            tunnels: Tunnels::default(),
            confinement: Confinement::default(),
            in_background: false,
            sandbox,
            log,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// The part of one of the tunnels.
    pub fn member(&self) -> Member<'_> {
        Member { startup: self, takes_orders: Cell::new(false), is_set_up: Cell::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One tunnel fewer is waited for. Signals pass to the tunnels after the last.
    fn one_takes_orders(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.without_orders = state.without_orders.saturating_sub(1);
        // Where all have failed, a signal that came meanwhile ends the program by its default action.
        if state.without_orders > 0 || self.tunnels.is_empty() {
            return Ok(());
        }
        signals::watch(self.tunnels.clone())?;
        if self.early.hand_over() {
            self.tunnels.order(Order::Shutdown);
        }
        Ok(())
    }

    fn one_finished(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.unfinished = state.unfinished.saturating_sub(1);
        self.changed.notify_all();
        state
    }

    /// Gives up the rights of the process.
    fn confine(&self, account: Option<&Account>) -> Result<(), String> {
        if self.in_background {
            background::leave_session()?;
        } else {
            Terminal::keep();
        }
        let confined = privileges::confine(account, self.sandbox)?;
        let layers = [
            ("the capability bounding set", &confined.bounding_set),
            ("Landlock", &confined.sandbox.landlock),
            ("seccomp", &confined.sandbox.seccomp),
        ];
        let mut log = self.log.clone();
        for (name, layer) in layers {
            match layer {
                Layer::On => {}
                Layer::SwitchedOff => {
                    log.log(Severity::Warning, format_args!("{name} is switched off (--no-sandbox)"));
                }
                Layer::Unavailable(why) => {
                    log.log(Severity::Warning, format_args!("{name} does not confine the tunnel: {why}"));
                }
            }
        }
        // It is set here alone.
        let _ = self.confinement.set(confined);
        notify::ready();
        if self.in_background {
            background::ready();
        }
        Ok(())
    }
}

/// One tunnel's part in the start. When it is dropped before its time, the tunnel has failed, and the others go on.
pub struct Member<'a> {
    startup: &'a Startup,
    takes_orders: Cell<bool>,
    is_set_up: Cell<bool>,
}

impl<'a> Member<'a> {
    /// The resources that it shares with the other tunnels.
    pub fn startup(&self) -> &'a Startup {
        self.startup
    }

    /// Has the tunnel take orders from now on.
    ///
    /// # Errors
    /// When signals cannot be watched.
    pub fn take_orders(&self, receiver: Receiver) -> io::Result<()> {
        self.startup.tunnels.add(receiver);
        self.takes_orders.set(true);
        self.startup.one_takes_orders()
    }

    /// The tunnel is set up, and its configuration names that account. Waits until all are, and the process has given
    /// up its rights.
    ///
    /// # Errors
    /// Why it could not give them up: no tunnel may go on then.
    pub fn set_up(&self, account: Option<Account>) -> Result<(), String> {
        self.is_set_up.set(true);
        let mut state = self.startup.one_finished();
        state.account = state.account.take().or(account);
        loop {
            if let Some(confined) = &state.confined {
                return confined.clone();
            }
            if state.unfinished == 0 && !state.confining {
                state.confining = true;
                let account = state.account.clone();
                drop(state);
                let confined = self.startup.confine(account.as_ref());
                self.startup.lock().confined = Some(confined.clone());
                self.startup.changed.notify_all();
                return confined;
            }
            state = self.startup.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        if !self.takes_orders.get()
            && let Err(error) = self.startup.one_takes_orders()
        {
            let mut log = self.startup.log.clone();
            log.log(Severity::Error, format_args!("signals cannot be watched: {error}"));
        }
        if !self.is_set_up.get() {
            drop(self.startup.one_finished());
        }
    }
}
