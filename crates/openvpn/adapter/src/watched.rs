//! The things that may change while a tunnel runs.

use super::expiry::Expiry;
use super::peer_names::PeerNames;
use super::revocations;

/// What may change while the tunnel runs.
pub(crate) struct Watched {
    /// `crl-verify`.
    pub(crate) revocations: Option<revocations::Source>,
    /// What expires.
    pub(crate) expiry: Expiry,
    /// The names of the only peer.
    pub(crate) names: Option<PeerNames>,
}
