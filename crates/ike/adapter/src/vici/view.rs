//! A tunnel as the commands see it.

use std::sync::Arc;

use adit_ike::machine::Endpoint;
use adit_io::Handle;

/// The way to a tunnel, and to the names of its file. Copies lead to the same tunnel.
#[derive(Clone)]
pub(crate) struct View {
    /// The handle of the tunnel.
    pub(crate) handle: Handle<Endpoint>,
    /// Gives the connections of the file as it was read last.
    pub(crate) connections: Arc<dyn Fn() -> Vec<Named> + Send + Sync>,
}

/// The names of a connection.
pub(crate) struct Named {
    /// Its own.
    pub(crate) connection: String,
    /// Those of its children.
    pub(crate) children: Vec<String>,
}

impl View {
    /// The names of the connections.
    pub(super) fn connections(&self) -> Vec<String> {
        (self.connections)().into_iter().map(|named| named.connection).collect()
    }

    /// The name of the first connection with a child of that name.
    pub(super) fn connection_of(&self, child: &str) -> Option<String> {
        let has = |named: &Named| named.children.iter().any(|own| own == child);
        (self.connections)().into_iter().find(has).map(|named| named.connection)
    }
}
