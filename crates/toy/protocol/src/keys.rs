//! The keys of a pair of ends: HMAC-SHA256 (RFC 2104) and HKDF (RFC 5869) with a pre-shared key.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Bytes of a tag on a control message.
pub(crate) const TAG_LEN: usize = 32;

/// A secret of 32 bytes.
pub(crate) type Secret = Zeroizing<[u8; 32]>;

/// The keys that are derived from a pre-shared key.
pub(crate) struct PairKeys {
    /// Authenticates control messages.
    control: Secret,
    /// HKDF's input for the keys of sessions.
    sessions: Secret,
}

impl PairKeys {
    pub(crate) fn new(shared: &[u8; 32]) -> Self {
        let derive = |info: &[u8]| hkdf(b"adit-toy", shared, info);
        PairKeys { control: derive(b"control messages"), sessions: derive(b"sessions") }
    }

    /// The tag over these parts, one behind the other.
    pub(crate) fn tag(&self, parts: &[&[u8]]) -> [u8; TAG_LEN] {
        let mac = parts.iter().fold(mac(self.control.as_slice()), |mac, part| mac.chain_update(part));
        mac.finalize().into_bytes().into()
    }

    /// Whether that is the tag over these parts. It takes the same time for all tags.
    pub(crate) fn verifies(&self, parts: &[&[u8]], tag: &[u8; TAG_LEN]) -> bool {
        let mac = parts.iter().fold(mac(self.control.as_slice()), |mac, part| mac.chain_update(part));
        mac.verify_slice(tag).is_ok()
    }

    /// The keys of a session: from the initiator to the responder, and back.
    pub(crate) fn session(&self, initiator_nonce: &[u8; 32], responder_nonce: &[u8; 32]) -> (Secret, Secret) {
        let salt = [&initiator_nonce[..], &responder_nonce[..]].concat();
        let derive = |info: &[u8]| hkdf(&salt, self.sessions.as_slice(), info);
        (derive(b"initiator to responder"), derive(b"responder to initiator"))
    }
}

/// HKDF-SHA256 with an output as long as the hash, for which one block is enough (RFC 5869 §2.3).
fn hkdf(salt: &[u8], input: &[u8], info: &[u8]) -> Secret {
    let extracted = Zeroizing::new(<[u8; 32]>::from(mac(salt).chain_update(input).finalize().into_bytes()));
    let expanded = mac(extracted.as_slice()).chain_update(info).chain_update([1]).finalize();
    Zeroizing::new(expanded.into_bytes().into())
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    let Ok(mac) = Hmac::new_from_slice(key) else {
        unreachable!("HMAC takes keys of any length");
    };
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 5869, appendix A.1, of whose 42 bytes the first 32 are the first block.
    #[test]
    fn hkdf_vector() {
        let salt: Vec<u8> = (0..=0x0c).collect();
        let info: Vec<u8> = (0xf0..=0xf9).collect();
        let expected = [
            0x3c, 0xb2, 0x5f, 0x25, 0xfa, 0xac, 0xd5, 0x7a, 0x90, 0x43, 0x4f, 0x64, 0xd0, 0x36, 0x2f, 0x2a,
            0x2d, 0x2d, 0x0a, 0x90, 0xcf, 0x1a, 0x5a, 0x4c, 0x5d, 0xb0, 0x2d, 0x56, 0xec, 0xc4, 0xc5, 0xbf,
        ];
        assert_eq!(*hkdf(&salt, &[0x0b; 22], &info), expected);
    }
}
