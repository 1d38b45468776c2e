//! The proof of an identity by a pre-shared key (RFC 7296 section 2.15).

use adit_core::Digest;

use super::prf::{Secret, prf};
use crate::wire::Identification;

/// The text that is hashed with the pre-shared key (RFC 7296 section 2.15).
const KEY_PAD: &[u8; 17] = b"Key Pad for IKEv2";

/// The values that the proof of one end covers.
#[derive(Clone, Copy, Debug)]
pub struct SignedOctets<'a> {
    /// The first message of the end that proves. If that end sent it several times, the last one, with the cookie.
    pub message: &'a [u8],
    /// The nonce of the other end.
    pub peer_nonce: &'a [u8],
    /// The key of the end that proves: `SK_pi` of the initiator, `SK_pr` of the responder.
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

    /// The bytes that a signature covers; `digest` is the PRF's.
    pub fn to_bytes(&self, digest: Digest) -> Vec<u8> {
        [self.message, self.peer_nonce, &self.hashed_identity(digest)].concat()
    }
}

/// The content of an AUTH payload with a pre-shared key.
pub fn shared_key_proof(digest: Digest, shared_key: &[u8], octets: &SignedOctets<'_>) -> Secret {
    let key = prf(digest, shared_key, &[KEY_PAD]);
    prf(digest, &key, &[octets.message, octets.peer_nonce, &octets.hashed_identity(digest)])
}
