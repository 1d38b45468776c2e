//! Runs of EAP within `IKE_AUTH`, as an IKE SA keeps them between two messages.

use super::params::LocalProof;
use crate::crypto::Secret;
use crate::eap::{Authenticator, Peer};
use crate::wire::{Identification, Payload};

/// A run of EAP at an initiator.
pub(crate) struct Initiating {
    pub(super) peer: Peer,
    /// The identity that the responder has proved, or with EAP alone has said. `None`: EAP has not begun.
    pub(super) responder: Option<Identification>,
    /// The key, after the success of EAP: both ends prove by it.
    pub(super) msk: Option<Secret>,
}

impl Initiating {
    /// The run for this end's proof, if it is by EAP.
    pub(crate) fn of(proof: &LocalProof) -> Option<Box<Self>> {
        let LocalProof::Eap(credentials) = proof else { return None };
        Some(Box::new(Initiating { peer: Peer::new(credentials.clone()), responder: None, msk: None }))
    }
}

/// A run of EAP at a responder.
pub(crate) struct Responding {
    pub(super) authenticator: Authenticator,
    /// The first request of `IKE_AUTH`, with the offer of a child SA.
    pub(super) request: Vec<Payload>,
    /// The initiator's identity of IKE.
    pub(super) identity: Identification,
    /// The number of the connection.
    pub(super) connection: usize,
    /// The name that the initiator has said, as an identity.
    pub(super) claimed: Identification,
    /// The user of that name, if the initiator may prove it by a password.
    pub(super) user: Option<String>,
    /// Whether the initiator has said a wrong password, which is in the log then.
    pub(super) is_wrong: bool,
    /// The key, after the success of EAP: both ends prove by it.
    pub(super) msk: Option<Secret>,
}
