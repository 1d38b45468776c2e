//! The messages of the exchanges before authentication, which the proofs of both ends cover.

use crate::crypto::{KeyShare, Secret};

/// The first messages and nonces of an exchange, as the initiator has them.
pub(crate) struct FirstMessages {
    pub(crate) own: Vec<u8>,
    pub(crate) peer: Vec<u8>,
    /// The initiator's and the responder's.
    pub(crate) nonces: [Vec<u8>; 2],
}

/// The octets of all messages so far, by the end that sent them, for the proofs of both ends.
#[derive(Default)]
pub(crate) struct Transcript {
    pub(crate) initiator: Secret,
    pub(crate) responder: Secret,
    /// The octets of the peer's message that was opened last.
    pub(crate) received: Vec<u8>,
    /// The number of exchanges that are done.
    pub(crate) done: u32,
}

impl Transcript {
    /// The octets that a proof covers (RFC 9242 section 3.3.2). Empty if there was no exchange.
    pub(crate) fn octets(&self) -> Vec<u8> {
        if self.done == 0 {
            return Vec::new();
        }
        let number = (self.done + 1).to_be_bytes();
        [self.initiator.as_slice(), &self.responder, &number].concat()
    }
}

/// A key exchange of an initiator that waits for its response.
pub(crate) struct IntermediateRequest {
    pub(crate) first: FirstMessages,
    pub(crate) share: KeyShare,
    /// The number of the exchange, from 0 on.
    pub(crate) index: usize,
}

#[cfg(test)]
impl IntermediateRequest {
    /// Puts another key in place of the one whose public value was sent.
    pub(crate) fn forget_key(&mut self) {
        self.share = KeyShare::new(self.share.group(), &mut |bytes| bytes.fill(3)).expect("a key");
    }
}
