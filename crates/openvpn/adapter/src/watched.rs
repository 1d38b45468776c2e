//! The things that may change while a tunnel runs.

use super::expiry::Expiry;
use super::peer_names::PeerNames;
use super::revocations;

/// The files that may change while the tunnel runs.
pub(crate) struct Watched {
    /// `crl-verify`.
    pub(crate) revocations: Option<revocations::Source>,
    /// The certificates and lists that expire.
    pub(crate) expiry: Expiry,
    /// The names of the only peer.
    pub(crate) names: Option<PeerNames>,
}
