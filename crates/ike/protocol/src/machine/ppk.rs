//! Keys beside the key exchange (PPKs, RFC 8784): they are mixed into the keys of which further keys and proofs are made.

use super::params::{Connection, Ppk};
use super::payloads::notify;
use super::proof::{Claim, PeerSupport};
use crate::wire::{Authentication, NotifyType, Payload};

/// The kind of an identity that the operators of both ends have agreed on (`PPK_ID_FIXED`, RFC 8784 section 5.1).
const FIXED: u8 = 2;

/// The PPK of an initiator's connection, if the peer uses PPKs.
///
/// # Errors
/// The PPK is required, and the peer uses none.
pub(crate) fn ppk_for<'c>(
    connection: &'c Connection,
    peer: &PeerSupport,
) -> Result<Option<&'c Ppk>, &'static str> {
    match &connection.ppk {
        Some(ppk) if ppk.is_required && !peer.uses_ppk => Err("it has no PPK, which is required (RFC 8784)"),
        ppk => Ok(ppk.as_ref().filter(|_| peer.uses_ppk)),
    }
}

/// The name of a PPK, as the initiator sends it.
pub(crate) fn ppk_identity(ppk: &Ppk) -> Payload {
    notify(NotifyType::PPK_IDENTITY, [&[FIXED], ppk.identity.as_slice()].concat())
}

impl Claim<'_> {
    /// The PPK that both ends use. `None`: none.
    ///
    /// # Errors
    /// The connection requires a PPK, or the initiator cannot do without one that this end does not have.
    pub(crate) fn ppk<'c>(&self, connection: &'c Connection) -> Result<Option<&'c Ppk>, String> {
        let is_named = |ppk: &&Ppk| {
            self.ppk_identity.and_then(|name| name.split_first()) == Some((&FIXED, ppk.identity.as_slice()))
        };
        let found = connection.ppk.as_ref().filter(is_named);
        match (&connection.ppk, found) {
            (Some(ppk), None) if ppk.is_required => {
                Err("it does not use the PPK, which is required".to_owned())
            }
            (_, None) if self.ppk_identity.is_some() && self.no_ppk_proof.is_none() => {
                Err("it uses a PPK that this end does not have".to_owned())
            }
            _ => Ok(found),
        }
    }

    /// The initiator's proof for a responder that does not have the PPK.
    pub(crate) fn proof_without_ppk(&self) -> Option<Authentication> {
        let proof = self.proof?;
        Some(Authentication { method: proof.method, data: self.no_ppk_proof?.to_vec() })
    }
}
