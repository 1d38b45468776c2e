//! A tunnel as the commands see it.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use adit_core::Instant;
use adit_dataplane::Snapshot;
use adit_ike::machine::Endpoint;
use adit_ike_config::{Child, Config, Connection};
use adit_io::Handle;

use super::hub::Hub;
use super::numbers::Numbers;
use crate::loaded::Change;

/// The time in which the tunnel must say how it stands.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The configuration of a tunnel, which programs change.
pub(crate) trait Configured: Send + Sync {
    /// The content of the file with the parts that programs have loaded.
    fn config(&self) -> Arc<Config>;

    /// Carries out a change. Connections take changed secrets and certificates with [`Self::settle`].
    ///
    /// # Errors
    /// Why nothing was changed.
    fn load(&self, change: Change) -> Result<(), String>;

    /// Has the connections take the secrets and certificates that have changed.
    fn settle(&self);

    /// Reads the file again.
    ///
    /// # Errors
    /// Why nothing was changed: one reason a line.
    fn reload(&self) -> Result<(), String>;
}

/// The way to a tunnel, and to its configuration. Copies lead to the same tunnel.
#[derive(Clone)]
pub(crate) struct View {
    /// The handle of the tunnel.
    pub(super) handle: Handle<Endpoint>,
    /// The events of the tunnel.
    pub(super) hub: Hub,
    pub(super) configured: Arc<dyn Configured>,
    pub(super) numbers: Numbers,
    /// The time when the tunnel began.
    pub(super) began: Instant,
}

impl View {
    /// The view of the tunnel of that handle.
    pub(crate) fn new(handle: Handle<Endpoint>, hub: Hub, configured: Arc<dyn Configured>) -> Self {
        View { handle, hub, configured, numbers: Numbers::default(), began: adit_io::clock() }
    }

    /// Looks at the tunnel. `None`: it does not answer, or has ended.
    pub(super) fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Endpoint, &Snapshot) -> T + Send + 'static,
    ) -> Option<T> {
        let (tell, told) = mpsc::channel();
        self.handle.inspect(Box::new(move |endpoint: &Endpoint, snapshot, _| {
            let _ = tell.send(look(endpoint, snapshot));
        }));
        told.recv_timeout(TIMEOUT).ok()
    }
}

/// The first connection with a child of that name, and the child. `ike` names the connection, if it is not any.
pub(super) fn child_of<'c>(
    config: &'c Config,
    ike: Option<&str>,
    child: &str,
) -> Option<(&'c Connection, &'c Child)> {
    let connections = config.connections.iter().filter(|own| ike.is_none_or(|ike| own.name == ike));
    let mut found = connections.flat_map(|own| own.children.iter().map(move |child| (own, child)));
    found.find(|(_, own)| own.name == child)
}
