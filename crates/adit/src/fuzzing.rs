//! The readers of the program that fuzz targets and tests call, and the promises of each.

use adit_core::is_unprintable;

use crate::status;

/// Reads what a tunnel answers `adit status`, and prints it for people. Gives whether it could be read.
///
/// # Panics
///
/// If what is printed holds what a terminal would obey, or if the document does not print to one that reads the same.
pub fn status_document(json: &[u8]) -> bool {
    let Some((text, again)) = status::fuzzing::printed(json) else { return false };
    assert!(text.split('\n').all(|line| !line.contains(is_unprintable)), "{text:?}");
    let once_more = status::fuzzing::printed(again.as_bytes()).map(|(text, _)| text);
    assert_eq!(once_more, Some(text));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fuzzed_is_reached() {
        assert!(!status_document(b"{}") && !status_document(b"\xff"));
        assert!(status_document(status::fuzzing::example().as_bytes()));
    }
}
