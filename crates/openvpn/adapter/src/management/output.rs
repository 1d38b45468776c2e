//! The lines for the program at the socket.

use zeroize::{Zeroize as _, Zeroizing};

/// As much may wait to be sent before further commands do. A single answer may be longer.
pub(super) const MOST_WAITING: usize = 256 << 10;

/// The bytes that are still to be sent.
#[derive(Default)]
pub(super) struct Output {
    bytes: Zeroizing<Vec<u8>>,
    /// A secret is, or was, among it.
    secret: bool,
}

impl Output {
    /// A line; what is in it cannot make another.
    pub(super) fn line(&mut self, text: &str) {
        self.put(&[text]);
    }

    /// A line of these pieces, one of which may be a secret.
    pub(super) fn secret(&mut self, pieces: &[&str]) {
        self.secret = true;
        self.put(pieces);
    }

    fn put(&mut self, pieces: &[&str]) {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.make_room(length + 2);
        for c in pieces.iter().flat_map(|piece| piece.chars()) {
            let printed = if c.is_control() && c != '\t' { ' ' } else { c };
            self.bytes.extend_from_slice(printed.encode_utf8(&mut [0; 4]).as_bytes());
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// When the buffer grows, its old memory is wiped.
    fn make_room(&mut self, more: usize) {
        let needed = self.bytes.len() + more;
        if needed > self.bytes.capacity() {
            let mut larger = Zeroizing::new(Vec::with_capacity(needed.max(2 * self.bytes.capacity())));
            larger.extend_from_slice(&self.bytes);
            self.bytes = larger;
        }
    }

    /// Lines with their ends.
    pub(super) fn lines(&mut self, text: &str) {
        text.lines().for_each(|line| self.line(line));
    }

    /// The prompt for the password, without an end of the line, as OpenVPN has it.
    pub(super) fn prompt(&mut self) {
        self.bytes.extend_from_slice(b"ENTER PASSWORD:");
    }

    pub(super) fn waiting(&self) -> &[u8] {
        &self.bytes
    }

    /// So many bytes were sent.
    pub(super) fn sent(&mut self, number: usize) {
        let number = number.min(self.bytes.len());
        self.bytes.drain(..number);
        if self.bytes.is_empty() && std::mem::take(&mut self.secret) {
            self.bytes.zeroize();
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= MOST_WAITING
    }
}

/// The answer to a command that this tunnel does not have.
pub(super) fn unsupported(name: &str) -> String {
    format!("ERROR: The '{name}' command is not supported by the current daemon mode")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_makes_lines_of_its_own() {
        let mut out = Output::default();
        out.line("a\r\nb\tc\u{85}");
        out.secret(&["ä\n", "=", "\u{1b}"]);
        assert_eq!(out.waiting(), "a  b\tc \r\nä = \r\n".as_bytes());
    }

    #[test]
    fn a_secret_is_wiped_when_it_was_sent() {
        let mut out = Output::default();
        for _ in 0..100 {
            out.secret(&["password=", "s3 cret"]);
        }
        let size = out.bytes.len();
        assert_eq!(size, 1800);
        out.sent(size - 1);
        assert!(out.secret);
        out.sent(1);
        let capacity = out.bytes.capacity();
        assert!(!out.secret && out.bytes.is_empty() && capacity >= size);
    }
}
