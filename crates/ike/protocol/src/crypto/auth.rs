//! The proof of an identity by a pre-shared key (RFC 7296 section 2.15).

use adit_core::Digest;

use super::prf::{Secret, prf};
use crate::wire::{
    Header, Identification, PayloadType, begin_sealed, set_message_length, set_payload_length,
};

/// The text that is hashed with the pre-shared key (RFC 7296 section 2.15).
const KEY_PAD: &[u8; 17] = b"Key Pad for IKEv2";
/// The octets in front of both first messages in a proof of the full transcript (draft-ietf-ipsecme-ikev2-downgrade-prevention-08).
/// A first message begins with the SPI of its initiator, which is not zero, so that a proof of one kind is none of the other.
const FULL_TRANSCRIPT: [u8; 8] = [0; 8];

/// The values that the proof of one end covers.
#[derive(Clone, Copy, Debug)]
pub struct SignedOctets<'a> {
    /// The first message of the end that proves. If that end sent it several times, the last one, with the cookie.
    pub message: &'a [u8],
    /// The first message of the other end, as the end that proves received it, if both ends prove the full transcript
    /// (draft-ietf-ipsecme-ikev2-downgrade-prevention-08). `None`: the proof covers the own message alone.
    pub received: Option<&'a [u8]>,
    /// The nonce of the other end.
    pub peer_nonce: &'a [u8],
    /// The key of the end that proves: `SK_pi` of the initiator, `SK_pr` of the responder.
    pub proof_key: &'a [u8],
    /// The identity of the end that proves.
    pub identity: &'a Identification,
    /// The octets of `IKE_INTERMEDIATE` exchanges (RFC 9242 section 3.3.2); empty without such exchanges.
    pub intermediate: &'a [u8],
}

impl SignedOctets<'_> {
    /// The identity as the proof covers it.
    fn hashed_identity(&self, digest: Digest) -> Secret {
        let mut identity = Vec::new();
        self.identity.encode(&mut identity);
        prf(digest, self.proof_key, &[&identity])
    }

    /// The octets in their order, with the identity as [`Self::hashed_identity`] gives it.
    fn parts<'s>(&'s self, hashed_identity: &'s [u8]) -> [&'s [u8]; 6] {
        let (mark, received): (&[u8], &[u8]) =
            self.received.map_or((&[], &[]), |received| (&FULL_TRANSCRIPT, received));
        [mark, received, self.message, self.peer_nonce, hashed_identity, self.intermediate]
    }

    /// The bytes that a signature covers; `digest` is the PRF's.
    pub fn to_bytes(&self, digest: Digest) -> Vec<u8> {
        self.parts(&self.hashed_identity(digest)).concat()
    }
}

/// The content of an AUTH payload with a pre-shared key.
pub fn shared_key_proof(digest: Digest, shared_key: &[u8], octets: &SignedOctets<'_>) -> Secret {
    let key = prf(digest, shared_key, &[KEY_PAD]);
    prf(digest, &key, &octets.parts(&octets.hashed_identity(digest)))
}

/// The octets of a message of `IKE_INTERMEDIATE` that both proofs cover: its header and its payloads, as if they were neither
/// encrypted nor cut into fragments (RFC 9242 section 3.3.2).
pub fn intermediate_octets(header: &Header, first: PayloadType, plain: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    header.encode(PayloadType::ENCRYPTED, &mut octets);
    let start = begin_sealed(first, None, &mut octets);
    octets.extend_from_slice(plain);
    set_payload_length(&mut octets, start);
    set_message_length(&mut octets);
    octets
}
