//! The rights of the process: `user` and `group`, the helper that keeps the rights needed later, and the
//! sandbox.

use std::sync::{Arc, OnceLock};

use adit_core::{EventOf, Protocol, TunnelSettings};
use adit_guard::{Account, Confined};
use adit_io::Observer;

/// The rights that were given up, once they were: `adit status` shows them.
pub type Confinement = Arc<OnceLock<Confined>>;

/// Gives up the rights of the process: for good, in all threads.
pub fn confine(account: Option<&Account>, sandbox: bool) -> Result<Confined, String> {
    // Without `user` it becomes an account that owns nothing: the helper does the work that needs root.
    let unprivileged = if account.is_none() { Account::unprivileged() } else { None };
    adit_guard::confine(account.or(unprivileged.as_ref()), sandbox).map_err(|error| error.to_string())
}

/// An observer, and the action that is due when all is set up.
pub struct Starting<O, F> {
    /// The observer.
    pub observer: O,
    /// The last step of the start.
    pub begin: Option<F>,
}

impl<P, O, F> Observer<P> for Starting<O, F>
where
    P: Protocol,
    O: Observer<P>,
    F: FnOnce() -> Result<(), String>,
{
    fn event(&mut self, event: &EventOf<P>, tun_name: &str) {
        self.observer.event(event, tun_name);
    }

    fn request(&mut self, request: P::Request, tun_name: &str) {
        self.observer.request(request, tun_name);
    }

    fn device_ready(&mut self, settings: &TunnelSettings, tun_name: &str) -> bool {
        self.observer.device_ready(settings, tun_name)
    }

    fn going_down(&mut self, tun_name: &str) {
        self.observer.going_down(tun_name);
    }

    fn started(&mut self) -> Result<(), String> {
        self.observer.started()?;
        self.begin.take().map_or(Ok(()), |begin| begin())
    }
}
