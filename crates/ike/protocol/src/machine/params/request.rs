//! The messages of an endpoint to its adapter.

use adit_core::PeerId;

/// A message of the endpoint to its adapter, which needs no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The IKE SA of a peer, its path or its child SAs have changed, have come or are gone.
    SasChanged(PeerId),
    /// A child was asked for in vain, or the IKE SA for it.
    Failed {
        /// The name of the connection.
        connection: String,
        /// The reason.
        reason: String,
    },
}
