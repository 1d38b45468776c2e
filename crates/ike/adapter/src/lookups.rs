//! The addresses of peers that the file names by names, looked up again whenever the endpoint has tried all that are known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use adit_core::Severity;
use adit_guard::HelperFiles;
use adit_host::log::Logger;
use adit_ike::machine::{Endpoint, Reply};
use adit_io::Handle;
use adit_system::Netlink;

use crate::names::{self, Resolver};
use crate::orders::Orders;

/// Looks names up, one after the other, in a thread that ends when it has nothing to do. Copies are the same.
#[derive(Clone)]
pub(crate) struct LookUps(Arc<Shared>);

/// The ways to names and to addresses of this machine, which a process without rights cannot open.
pub(crate) struct Ways {
    /// Looks names up.
    pub(crate) files: HelperFiles,
    /// Says from which address this machine reaches a peer.
    pub(crate) netlink: Netlink,
}

struct Shared {
    ways: Mutex<Ways>,
    handle: Handle<Endpoint>,
    orders: Orders,
    log: Logger,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The connections whose names wait.
    waiting: BTreeSet<String>,
    runs: bool,
    /// The failures of connections that were logged last: a name that does not resolve is one line, not one every few seconds.
    failures: BTreeMap<String, Vec<String>>,
}

impl State {
    /// Notes the failures of a connection's look-up. Gives whether they are others than those of the one before.
    fn are_news(&mut self, connection: &str, failures: &[String]) -> bool {
        let before = match failures.is_empty() {
            true => self.failures.remove(connection),
            false => self.failures.insert(connection.to_owned(), failures.to_vec()),
        };
        before.as_deref() != Some(failures)
    }
}

impl LookUps {
    /// Look-ups by these ways.
    pub(crate) fn new(ways: Ways, handle: Handle<Endpoint>, orders: Orders, log: Logger) -> Self {
        let (ways, state) = (Mutex::new(ways), Mutex::default());
        LookUps(Arc::new(Shared { ways, handle, orders, log, state }))
    }

    /// The endpoint asks for the addresses of a connection's names.
    pub(crate) fn ask(&self, connection: String) {
        let mut state = self.state();
        state.waiting.insert(connection);
        if state.runs {
            return;
        }
        let own = self.clone();
        let started = thread::Builder::new().name("adit-names".to_owned()).spawn(move || own.run());
        state.runs = started.is_ok();
        drop(state);
        if let Err(error) = started {
            self.say(&format!("names of peers are not looked up: {error}"));
        }
    }

    fn run(&self) {
        while let Some(connection) = self.next() {
            self.look_up(&connection);
        }
    }

    fn next(&self) -> Option<String> {
        let mut state = self.state();
        let next = state.waiting.pop_first();
        state.runs = next.is_some();
        next
    }

    fn look_up(&self, name: &str) {
        // A reload may have removed it.
        let Some(planned) = self.0.orders.planned(name) else { return };
        let mut ways = self.0.ways.lock().unwrap_or_else(PoisonError::into_inner);
        let (remotes, failures) = names::remotes(&planned, &Resolver::Helper(&ways.files));
        if self.state().are_news(name, &failures) {
            failures.iter().for_each(|failure| self.say(failure));
        }
        // Addresses that were known stay while a name server does not answer.
        if failures.is_empty() && self.0.orders.set_remotes(name, &remotes) {
            self.0.orders.look_at_addresses(&mut ways.netlink);
            self.0.handle.reply(Reply::Remotes { connection: name.to_owned(), remotes });
        }
    }

    fn say(&self, text: &str) {
        self.0.log.clone().log(Severity::Error, text);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_does_not_resolve_is_one_line_until_that_changes() {
        let mut state = State::default();
        let [none, other] = ["no such name", "no answer"].map(|why| vec![why.to_owned()]);
        let mut are_news = |connection: &str, failures: &[String]| state.are_news(connection, failures);
        assert!(are_news("a", &none) && !are_news("a", &none));
        assert!(are_news("b", &none), "of another connection");
        assert!(are_news("a", &other) && !are_news("a", &other));
        are_news("a", &[]);
        assert!(are_news("a", &other), "it was found meanwhile");
    }
}
