//! What signals ask of a WireGuard tunnel, and its hooks while it runs.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use adit_core::{Command, Severity};

use super::hooks::{Waiting, WaitingHook};
use crate::log::Logger;
use crate::up::Failure;
use crate::up::signals::{Order, Receiver};
use crate::wireguard;

/// Speaks to a tunnel. Copies speak to the same.
#[derive(Clone)]
pub(super) struct Orders(Arc<Shared>);

struct Shared {
    interface: wireguard::Orders,
    hooks: Mutex<Waiting>,
    /// Why a hook ended the tunnel.
    failure: Mutex<Option<Failure>>,
    ending: AtomicBool,
    log: Logger,
}

impl Orders {
    pub(super) fn new(interface: wireguard::Orders, hooks: Waiting, log: Logger) -> Self {
        let (hooks, failure, ending) = (Mutex::new(hooks), Mutex::new(None), AtomicBool::new(false));
        Orders(Arc::new(Shared { interface, hooks, failure, ending, log }))
    }

    /// How the tunnel takes orders.
    pub(super) fn receiver(&self) -> Receiver {
        let orders = self.clone();
        Box::new(move |order| match order {
            Order::Shutdown => orders.end(),
            Order::Restart => orders.command(Command::Restart),
            Order::Reload | Order::Status => true,
        })
    }

    /// Runs PostUp's commands on a thread of their own. One that fails ends the tunnel.
    pub(super) fn run_post_up(&self) -> io::Result<()> {
        let hooks = std::mem::take(&mut self.hooks().post_up);
        if hooks.is_empty() {
            return Ok(());
        }
        let orders = self.clone();
        let work = move || {
            let mut log = orders.0.log.clone();
            if let Err(why) = hooks.into_iter().try_for_each(|hook| hook.run(&mut log)) {
                *lock(&orders.0.failure) = Some(Failure::World(why));
                orders.0.ending.store(true, Ordering::SeqCst);
                orders.command(Command::Shutdown);
            }
        };
        thread::Builder::new().name("adit-hooks".to_owned()).spawn(work).map(drop)
    }

    /// Begins the end, and does not wait for it: PreDown's commands may ask the interface. False when it has ended.
    fn end(&self) -> bool {
        if self.0.ending.swap(true, Ordering::SeqCst) {
            return true;
        }
        let hooks = std::mem::take(&mut self.hooks().pre_down);
        if hooks.is_empty() {
            return self.command(Command::Shutdown);
        }
        let orders = self.clone();
        let work = move || {
            orders.run_to_the_last(hooks);
            orders.command(Command::Shutdown);
        };
        let started = thread::Builder::new().name("adit-hooks".to_owned()).spawn(work);
        started.is_ok() || self.command(Command::Shutdown)
    }

    /// Runs PostDown's commands, unless a command of PostUp failed.
    pub(super) fn post_down(&self) {
        let hooks = std::mem::take(&mut self.hooks().post_down);
        if lock(&self.0.failure).is_none() {
            self.run_to_the_last(hooks);
        }
    }

    /// Why a hook ended the tunnel, if one did.
    pub(super) fn failure(&self) -> Option<Failure> {
        lock(&self.0.failure).take()
    }

    /// One that fails keeps no other from running.
    fn run_to_the_last(&self, hooks: Vec<WaitingHook>) {
        let mut log = self.0.log.clone();
        for hook in hooks {
            if let Err(why) = hook.run(&mut log) {
                log.log(Severity::Warning, why);
            }
        }
    }

    fn command(&self, command: Command) -> bool {
        self.0.interface.handle().command(command)
    }

    fn hooks(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.0.hooks)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
