//! The proof of an identity by a pre-shared key (RFC 7296 section 2.15).

use adit_core::Digest;

use super::prf::{Secret, prf};
use crate::wire::Identification;

/// What the pre-shared key is hashed with (RFC 7296 section 2.15).
const KEY_PAD: &[u8; 17] = b"Key Pad for IKEv2";

/// What the proof of one end covers.
#[derive(Clone, Copy, Debug)]
pub struct SignedOctets<'a> {
    /// The first message of that end: the last one of its kind that it sent, with the cookie.
    pub message: &'a [u8],
    /// The nonce of the other end.
    pub peer_nonce: &'a [u8],
    /// `SK_pi` or `SK_pr`, that of the end that proves.
    pub proof_key: &'a [u8],
    /// The identity of the end that proves.
    pub identity: &'a Identification,
}

impl SignedOctets<'_> {
    /// The identity as the proof covers it.
    fn hashed_identity(&self, digest: Digest) -> Secret {
        let mut identity = Vec::new();
        self.identity.encode(&mut identity);
        prf(digest, self.proof_key, &[&identity])
    }
}

/// The content of an AUTH payload with a pre-shared key.
pub fn shared_key_proof(digest: Digest, shared_key: &[u8], octets: &SignedOctets<'_>) -> Secret {
    let key = prf(digest, shared_key, &[KEY_PAD]);
    prf(digest, &key, &[octets.message, octets.peer_nonce, &octets.hashed_identity(digest)])
}
