//! Changes of the configuration while the interface runs, and who waits for their outcome.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use adit_io::Handle;
use adit_wireguard::{Changes, ConfigureError, Interface, PeerDetail, PublicKey, Reply, Sockets, Status};

/// Whether changes were made.
type Outcome = Result<(), ConfigureError>;

/// Speaks to a running interface, from any thread. Copies speak to the same.
#[derive(Clone)]
pub(crate) struct Orders {
    handle: Handle<Interface>,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    last: u64,
    outcomes: BTreeMap<u64, mpsc::Sender<Outcome>>,
    ended: bool,
}

impl Orders {
    pub(super) fn new(handle: Handle<Interface>) -> Self {
        Orders { handle, waiting: Arc::default() }
    }

    /// A way to give the interface other orders.
    pub(crate) fn handle(&self) -> Handle<Interface> {
        self.handle.clone()
    }

    /// Makes all of these changes or none, and waits until that is done. `None` if the interface has ended.
    pub(crate) fn configure(&self, changes: Box<Changes>) -> Option<Outcome> {
        let (sender, outcome) = mpsc::channel();
        let id = {
            let mut waiting = self.lock();
            if waiting.ended {
                return None;
            }
            waiting.last += 1;
            let id = waiting.last;
            waiting.outcomes.insert(id, sender);
            id
        };
        if !self.handle.reply(Reply::Configure { id, changes }) {
            return None;
        }
        outcome.recv().ok()
    }

    /// All of the interface, its secrets included. `None` if it has ended.
    pub(crate) fn status(&self) -> Option<Status> {
        self.ask(Interface::status)
    }

    /// The sockets that it sends from. `None` if it has ended.
    pub(crate) fn sockets(&self) -> Option<Sockets> {
        self.ask(Interface::sockets)
    }

    /// The firewall mark of its datagrams; 0: none. `None` if it has ended.
    pub(crate) fn fwmark(&self) -> Option<u32> {
        self.ask(Interface::fwmark)
    }

    /// The detail of a peer. `None` if there is no such peer, or the interface has ended.
    pub(crate) fn peer(&self, key: PublicKey) -> Option<PeerDetail> {
        self.ask(move |interface| interface.peer(&key)).flatten()
    }

    /// Which of these peers are blocked; without those that are not there. `None` if the interface has ended.
    pub(crate) fn blocked(&self, keys: Vec<PublicKey>) -> Option<Vec<(PublicKey, bool)>> {
        self.ask(move |interface| {
            keys.iter().filter_map(|key| Some((*key, interface.peer(key)?.blocked))).collect()
        })
    }

    /// The details of these peers; without those that are not there. `None` if the interface has ended.
    pub(crate) fn peers(&self, keys: Vec<PublicKey>) -> Option<Vec<PeerDetail>> {
        self.ask(move |interface| keys.iter().filter_map(|key| interface.peer(key)).collect())
    }

    fn ask<T: Send + 'static>(&self, ask: impl FnOnce(&Interface) -> T + Send + 'static) -> Option<T> {
        let (sender, answer) = mpsc::channel();
        self.handle.inspect(Box::new(move |interface, _, _| {
            // The thread that asked may be gone.
            let _ = sender.send(ask(interface));
        }));
        answer.recv().ok()
    }

    /// Gives the outcome of changes to the thread that waits for it.
    pub(super) fn answer(&self, id: u64, outcome: Outcome) {
        if let Some(sender) = self.lock().outcomes.remove(&id) {
            // The thread that waited may be gone.
            let _ = sender.send(outcome);
        }
    }

    /// The interface has ended: no request is answered any more.
    pub(super) fn end(&self) {
        let mut waiting = self.lock();
        waiting.ended = true;
        waiting.outcomes.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
