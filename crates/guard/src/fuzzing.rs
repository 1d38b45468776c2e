//! Messages between a tunnel and its helper, for fuzz targets and tests, with the promises of each.

/// Reads a message that a tunnel may send to its helper, or the helper may answer. Gives whether it was understood.
///
/// # Panics
///
/// If a message that was understood is not written as one that reads the same.
pub fn helper_message(bytes: &[u8]) -> bool {
    crate::helper::fuzzing::message(bytes)
}

/// Has a tunnel's process that was taken over send a helper messages: a byte says how many bytes of one follow, at most.
///
/// # Panics
///
/// If something outside the helper's policy is opened or written, or an answer holds it, or the machine refuses a file or a thread.
pub fn played_worker(input: &[u8]) {
    crate::helper::fuzzing::play(input).expect("files and threads of the test itself");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fuzzed_is_reached() {
        // The second kind of request has no content; there is no twentieth kind.
        assert!(helper_message(&[1]) && !helper_message(&[20]));
        // The configuration is saved, read again, and taken; a client's file is read, and one that is no client's.
        played_worker(
            b"\x06\x04\x07\x03abc\x02\x04\x09\x03\x04\x0b\x00\x08\x04\x00\x05alice\x08\x04\x00\x0c../tu",
        );
    }
}
