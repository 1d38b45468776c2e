//! The messages of the exchanges before authentication, which the proofs of both ends cover.

use super::params::{Connection, FullTranscript};
use super::payloads::{Payloads, notify};
use super::sa::IkeSa;
use crate::crypto::{KeyShare, Secret};
use crate::wire::{NotifyType, Payload};

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
    pub(crate) opened: Vec<u8>,
    /// The number of exchanges that are done.
    pub(crate) done: u32,
    /// Whether both ends prove both first messages, as both said in them.
    pub(crate) is_full: bool,
}

impl Transcript {
    /// The first message that an end has received, if its proof covers that message, too.
    pub(crate) fn received<'m>(&self, message: &'m [u8]) -> Option<&'m [u8]> {
        self.is_full.then_some(message)
    }

    /// The octets that a proof covers (RFC 9242 section 3.3.2). Empty if there was no exchange.
    pub(crate) fn octets(&self) -> Vec<u8> {
        if self.done == 0 {
            return Vec::new();
        }
        let number = (self.done + 1).to_be_bytes();
        [self.initiator.as_slice(), &self.responder, &number].concat()
    }
}

/// The notify of an end that proves both first messages, if the other end does.
pub(crate) fn full_transcript() -> Payload {
    notify(NotifyType::IKE_SA_INIT_FULL_TRANSCRIPT_AUTH, Vec::new())
}

/// Whether a first message has that notify.
pub(crate) fn has_full_transcript(payloads: Payloads<'_>) -> bool {
    payloads.notify(NotifyType::IKE_SA_INIT_FULL_TRANSCRIPT_AUTH).is_some()
}

impl IkeSa {
    /// Refuses a peer that does not prove both first messages, where the connection requires it.
    ///
    /// # Errors
    /// The reason for the log.
    pub(crate) fn check_transcript(&self, connection: &Connection) -> Result<(), String> {
        let is_missing = connection.full_transcript == FullTranscript::Require && !self.transcript.is_full;
        let text = "it does not prove both messages of IKE_SA_INIT (IKE_SA_INIT_FULL_TRANSCRIPT_AUTH), which is required";
        if is_missing { Err(text.to_owned()) } else { Ok(()) }
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
