//! The readers of OpenVPN's adapter that fuzz targets call, and the promises of each.

use crate::expiry::expiring as read_expiring;
use crate::management::fuzzing::session;

/// Has a client of the management socket send `input` in pieces of `piece` bytes, to a server's tunnel or another one,
/// behind a password or without one. Gives how many bytes it was answered.
///
/// # Panics
///
/// If an answer is not in lines, or holds what a terminal would obey; if a line of the log does; if answers that no client
/// reads grow without limit.
pub fn management(input: &[u8], piece: usize, server: bool, password: bool) -> usize {
    session(input, piece, server, password)
}

/// Reads certificates and revocation lists in PEM for the warnings before they expire. Gives how many there were.
///
/// # Panics
///
/// If a warning holds what a terminal would obey.
pub fn expiring(pem: &[u8]) -> usize {
    read_expiring(pem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fuzzed_is_reached() {
        assert!(management(b"help\nverb\n", 3, true, false) > 1000);
        assert!(management(b"secret\nkill anna\n\x1b\xff\n", 5, true, true) > 100);
        assert!(management(b"POST / HTTP/1.1\nverb\n", 64, false, true) < 20);
        assert_eq!(expiring(b"no certificate"), 0);
    }
}
