//! The keys of an IKE SA.

use crate::crypto::{IkeKeys, Protection};
use crate::suite::IkeSuite;

/// The keys of an IKE SA, in use.
pub(crate) struct Channel {
    pub(crate) suite: IkeSuite,
    /// The keys that others, and proofs, are made of: without those of messages, and once both ends have authenticated without those
    /// of proofs.
    pub(crate) keys: IkeKeys,
    pub(crate) seal: Protection,
    pub(crate) open: Protection,
}

impl Channel {
    pub(crate) fn new(suite: IkeSuite, mut keys: IkeKeys, is_initiator: bool) -> Option<Self> {
        let [own, peer] = if is_initiator {
            [&keys.initiator, &keys.responder]
        } else {
            [&keys.responder, &keys.initiator]
        };
        let (seal, open) = (Protection::new(&suite, own)?, Protection::new(&suite, peer)?);
        keys.forget_directions();
        Some(Channel { suite, keys, seal, open })
    }
}
