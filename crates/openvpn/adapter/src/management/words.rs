//! Splits what the management client sends into lines, and lines into words.

use adit_openvpn_config::split_line;
use zeroize::Zeroizing;

/// Longest line in bytes, its end not counted.
pub(super) const MAX_LINE: usize = 4096;

/// The bytes that were received and not yet understood.
pub(super) struct Input {
    /// Never grows beyond its first size, so that no copy of a password is left behind.
    bytes: Zeroizing<Vec<u8>>,
    /// The line is too long: the rest of it is passed over.
    skipping: bool,
}

/// A line of the input.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(super) enum Line {
    /// Its text, without control characters.
    Text(Zeroizing<String>),
    /// The line was longer than [`MAX_LINE`].
    TooLong,
}

impl Input {
    pub(super) fn new() -> Self {
        Input { bytes: Zeroizing::new(Vec::with_capacity(MAX_LINE + 1)), skipping: false }
    }

    /// How many bytes may be added now.
    pub(super) fn room(&self) -> usize {
        (MAX_LINE + 1).saturating_sub(self.bytes.len())
    }

    /// Adds what was received, at most [`Input::room`].
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let taken = bytes.len().min(self.room());
        self.bytes.extend_from_slice(bytes.get(..taken).unwrap_or_default());
    }

    /// Whether there is a whole line, or too much for one.
    pub(super) fn has_line(&self) -> bool {
        self.room() == 0 || self.bytes.contains(&b'\n')
    }

    /// The next line.
    pub(super) fn line(&mut self) -> Option<Line> {
        let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') else {
            if self.room() == 0 {
                self.bytes.clear();
                self.skipping = true;
            }
            return None;
        };
        let line = Zeroizing::new(self.bytes.drain(..=end).collect::<Vec<u8>>());
        if std::mem::take(&mut self.skipping) {
            return Some(Line::TooLong);
        }
        // As OpenVPN (manage.c `command_line_add`): what is not printed does not count, a tab too.
        let text = Zeroizing::new(String::from_utf8_lossy(&line).into_owned());
        Some(Line::Text(Zeroizing::new(text.chars().filter(|c| !c.is_control()).collect())))
    }
}

/// A command and its arguments.
///
/// # Errors
/// The answer to the client.
pub(super) fn words(line: &str) -> Result<Zeroizing<Vec<String>>, String> {
    split_line(line).map(Zeroizing::new).map_err(|why| format!("ERROR: {why}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(line: &str) -> Option<Line> {
        Some(Line::Text(Zeroizing::new(line.to_owned())))
    }

    #[test]
    fn lines_come_in_pieces() {
        let mut input = Input::new();
        input.add(b"stat");
        assert!(!input.has_line() && input.line().is_none());
        input.add(b"us 2\r\n\npid\x00\x1b\nq");
        assert_eq!(input.line(), text("status 2"));
        assert_eq!(input.line(), text(""));
        assert_eq!(input.line(), text("pid"));
        assert_eq!(input.line(), None);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let mut input = Input::new();
        let long = vec![b'x'; 3 * MAX_LINE];
        let mut rest: &[u8] = &long;
        while !rest.is_empty() {
            let (piece, others) = rest.split_at(rest.len().min(input.room()));
            input.add(piece);
            rest = others;
            assert_eq!(input.line(), None);
        }
        input.add(b"\n");
        assert_eq!(input.line(), Some(Line::TooLong));
        input.add(b"pid\n");
        assert_eq!(input.line(), text("pid"));
    }

    #[test]
    fn words_are_cut_as_in_a_configuration() {
        let of = |line| words(line).map(|words| words.to_vec());
        assert_eq!(
            of("password \"Private Key\" 'a b'\\\\"),
            Ok(vec!["password".to_owned(), "Private Key".to_owned(), "a b".to_owned(), "\\".to_owned()])
        );
        assert_eq!(of("  "), Ok(vec![]));
        assert!(of("kill \"x").is_err_and(|why| why.starts_with("ERROR: ")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(pieces in proptest::collection::vec(any::<Vec<u8>>(), 0..20)) {
            let mut input = Input::new();
            for piece in pieces {
                input.add(&piece);
                prop_assert!(input.room() <= MAX_LINE + 1);
                while let Some(line) = input.line() {
                    if let Line::Text(text) = line {
                        prop_assert!(text.len() <= 3 * MAX_LINE && !text.contains(char::is_control));
                        let _ = words(&text);
                    }
                }
                prop_assert!(!input.has_line());
            }
        }
    }
}
