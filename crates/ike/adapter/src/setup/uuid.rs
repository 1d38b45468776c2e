//! UUIDs of profiles: a profile that is made anew replaces the one that a device has.

use adit_pki::signature::Digest;

/// The UUID of these words: of version 8 (RFC 9562 section 5.8), from their SHA-256 digest.
pub(super) fn of(words: &[&str]) -> String {
    let digest = Digest::Sha256.of(words.join("\0").as_bytes());
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(&digest).for_each(|(byte, of)| *byte = *of);
    bytes[6] = (bytes[6] & 0x0F) | 0x80;
    bytes[8] = (bytes[8] & 0x3F) | 0x80;
    let hex = adit_pki::inspect::hex(&bytes).to_uppercase();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_always_have_the_uuid_that_they_had() {
        assert_eq!(super::of(&["vpn.example", "alice"]), super::of(&["vpn.example", "alice"]));
        assert_ne!(super::of(&["vpn.example", "alice"]), super::of(&["vpn.examplea", "lice"]));
        let uuid = super::of(&["a"]);
        assert_eq!((uuid.len(), uuid.as_bytes()[14]), (36, b'8'), "{uuid}");
        assert!(matches!(uuid.as_bytes()[19], b'8' | b'9' | b'A' | b'B'), "{uuid}");
    }
}
