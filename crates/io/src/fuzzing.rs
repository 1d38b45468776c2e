//! Readers that the crate keeps to itself, for fuzz targets and tests, with the promises of each.

/// Reads the head of an answer that an HTTP proxy may give. Gives whether it asks for an authentication that we can do.
///
/// # Panics
///
/// If the credentials that answer the challenge are more than a line, or show the password.
pub fn proxy_answer(head: &[u8]) -> bool {
    crate::proxy::fuzzing::answer(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fuzzed_is_reached() {
        assert!(proxy_answer(b"HTTP/1.0 407 x\r\nProxy-Authenticate: Digest realm=a, nonce=b\r\n\r\n"));
        assert!(!proxy_answer(b"HTTP/1.0 407 x\r\nProxy-Authenticate: NTLM\r\n\r\n"));
    }
}
