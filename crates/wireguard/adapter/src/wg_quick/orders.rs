//! The actions of a WireGuard tunnel on signals, and its hooks while it runs.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use adit_core::{Command, Severity};

use super::hooks::{Waiting, WaitingHook};
use super::reload::{self, Holds};
use super::save;
use crate::interface as wireguard;
use adit_host::failure::Failure;
use adit_host::log::Logger;
use adit_host::signals::{Order, Receiver};

/// Speaks to a tunnel. Copies speak to the same.
#[derive(Clone)]
pub(super) struct Orders(Arc<Shared>);

struct Shared {
    file: PathBuf,
    interface: wireguard::Orders,
    holds: Mutex<Holds>,
    hooks: Mutex<Waiting>,
    /// Why a hook ended the tunnel.
    failure: Mutex<Option<Failure>>,
    ending: AtomicBool,
    log: Logger,
}

impl Orders {
    /// For the tunnel of that file.
    pub(super) fn new(
        file: PathBuf,
        (interface, holds): (wireguard::Orders, Holds),
        hooks: Waiting,
        log: Logger,
    ) -> Self {
        let (hooks, failure, ending) = (Mutex::new(hooks), Mutex::new(None), AtomicBool::new(false));
        let holds = Mutex::new(holds);
        Orders(Arc::new(Shared { file, interface, holds, hooks, failure, ending, log }))
    }

    /// How the tunnel takes orders.
    pub(super) fn receiver(&self) -> Receiver {
        let orders = self.clone();
        Box::new(move |order| match order {
            Order::Shutdown => orders.end(),
            Order::Restart => orders.command(Command::Restart),
            Order::Reload => orders.in_thread("adit-reload", Orders::reload).is_ok(),
            Order::Status => orders.in_thread("adit-status", Orders::tell_status).is_ok(),
        })
    }

    /// Runs PostUp's commands on a thread of their own. One that fails ends the tunnel.
    pub(super) fn run_post_up(&self) -> io::Result<()> {
        let hooks = std::mem::take(&mut self.hooks().post_up);
        if hooks.is_empty() {
            return Ok(());
        }
        self.in_thread("adit-hooks", move |orders| {
            let mut log = orders.0.log.clone();
            if let Err(why) = hooks.into_iter().try_for_each(|hook| hook.run(&mut log)) {
                *lock(&orders.0.failure) = Some(Failure::World(why));
                orders.0.ending.store(true, Ordering::SeqCst);
                orders.command(Command::Shutdown);
            }
        })
    }

    /// On a thread of its own, as files may lie on slow disks and the interface takes its time.
    fn in_thread(&self, name: &str, work: impl FnOnce(&Orders) + Send + 'static) -> io::Result<()> {
        let orders = self.clone();
        thread::Builder::new().name(name.to_owned()).spawn(move || work(&orders)).map(drop)
    }

    fn reload(&self) {
        let (mut log, shared) = (self.0.log.clone(), &self.0);
        // Events that come meanwhile wait here.
        let mut holds = lock(&shared.holds);
        if let Err(why) = reload::reload(&shared.file, &shared.interface, &mut holds, &mut log) {
            why.lines().for_each(|line| log.log(Severity::Error, line));
            log.log(Severity::Error, format_args!("SIGHUP: {} changes nothing", shared.file.display()));
        }
        let Holds { rules, files, .. } = &mut *holds;
        rules.reload(files, &shared.interface.handle(), &mut log);
    }

    /// A line for each peer.
    fn tell_status(&self) {
        let (mut log, status) = (self.0.log.clone(), self.0.interface.status());
        for peer in status.iter().flat_map(|status| &status.peers) {
            let detail = &peer.detail;
            let endpoint = detail.endpoint.map_or_else(|| "no endpoint".to_owned(), |it| it.to_string());
            let text = format_args!(
                "peer {}: {endpoint}, {} bytes sent, {} bytes received",
                detail.public_key, detail.sent_bytes, detail.received_bytes
            );
            log.log(Severity::Info, text);
        }
    }

    /// `SaveConfig`.
    fn save(&self) {
        let (mut log, shared) = (self.0.log.clone(), &self.0);
        let holds = lock(&shared.holds);
        if !holds.config.interface.save_config {
            return;
        }
        let Some(status) = shared.interface.status() else { return };
        if let Err(error) = save::save(&holds.files, &status) {
            let file = shared.file.display();
            log.log(Severity::Error, format_args!("{file}: SaveConfig: it cannot be written: {error}"));
        }
    }

    /// Begins the end, and does not wait for it: PreDown's commands may ask the interface. False when it has ended.
    fn end(&self) -> bool {
        if self.0.ending.swap(true, Ordering::SeqCst) {
            return true;
        }
        let hooks = std::mem::take(&mut self.hooks().pre_down);
        let work = move |orders: &Orders| {
            orders.run_to_the_last(hooks);
            orders.save();
            orders.command(Command::Shutdown);
        };
        self.in_thread("adit-hooks", work).is_ok() || self.command(Command::Shutdown)
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
