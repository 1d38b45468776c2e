//! The words of a file.

use adit_core::configuration::own_settings::{Comment, comment};
use zeroize::Zeroizing;

/// Longest name of a section or key, in bytes.
pub(crate) const LONGEST_NAME: usize = 255;

/// A place in a file's text.
pub(super) struct Cursor<'a> {
    whole: &'a str,
    text: &'a str,
    /// The line, counted from 1.
    pub(super) line: u32,
    /// The comments passed so far that are settings of adit's own.
    pub(super) settings: Vec<Setting<'a>>,
}

/// A comment that is a setting of adit's own.
pub(super) struct Setting<'a> {
    /// Its line.
    pub(super) line: u32,
    /// The text behind `adit:`. `None`: it stands behind other text of its line, where it has no effect.
    pub(super) text: Option<&'a str>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Cursor { whole: text, text, line: 1, settings: Vec::new() }
    }

    /// The next character.
    pub(super) fn peek(&self) -> Option<char> {
        self.text.chars().next()
    }

    /// Passes over the next character.
    pub(super) fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.advance(next.len_utf8());
        Some(next)
    }

    /// Passes over bytes, and counts lines.
    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.text.split_at_checked(bytes).unwrap_or((self.text, ""));
        let lines = passed.bytes().filter(|byte| *byte == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.text = rest;
    }

    /// Passes over the characters that `holds`, and gives them.
    fn take_while(&mut self, holds: impl Fn(char) -> bool) -> &'a str {
        let end = self.text.find(|c| !holds(c)).unwrap_or(self.text.len());
        let taken = self.text.get(..end).unwrap_or_default();
        self.advance(end);
        taken
    }

    /// Passes over blanks, line ends and comments.
    pub(super) fn skip(&mut self) {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
            if self.peek() != Some('#') {
                return;
            }
            self.comment();
        }
    }

    /// Passes over a comment, and notes a setting of adit's own.
    fn comment(&mut self) {
        let start = self.whole.len() - self.text.len();
        let before = self.whole.get(..start).unwrap_or_default();
        let start_of_line = before.rfind('\n').map_or(0, |end| end + 1);
        self.take_while(|c| c != '\n');
        let end = self.whole.len() - self.text.len();
        let text = match comment(self.whole.get(start_of_line..end).unwrap_or_default()) {
            Comment::Plain => return,
            Comment::Ours(text) => Some(text),
            Comment::Behind => None,
        };
        self.settings.push(Setting { line: self.line, text });
    }

    /// A name of a section or key; empty if none stands here. With dots for references.
    pub(super) fn name(&mut self, with_dots: bool) -> Result<String, String> {
        let is_sign = |c| matches!(c, '#' | '{' | '}' | ':' | ',' | '=' | '"' | '\r' | '\n' | '\t' | ' ');
        let name = self.take_while(|c| !is_sign(c) && (with_dots || c != '.'));
        // The names of references are longer than the names in them.
        match name.len() {
            0..=LONGEST_NAME => Ok(name.to_owned()),
            _ if with_dots => Ok(name.to_owned()),
            bytes => Err(format!("a name is {bytes} bytes long; at most {LONGEST_NAME} are read")),
        }
    }

    /// Whether the pattern of `include` follows that name: blanks, and no `=` behind them.
    pub(super) fn has_pattern(&self) -> bool {
        let rest = self.text.trim_start_matches([' ', '\t']);
        rest.len() < self.text.len() && !rest.starts_with(['=', '{', ':'])
    }

    /// The pattern of `include`: quoted, or to the next blank, `#` or `}`, which may stand behind a backslash.
    pub(super) fn pattern(&mut self) -> Result<String, String> {
        self.take_while(|c| matches!(c, ' ' | '\t' | '\r'));
        if self.peek() == Some('"') {
            return Ok(self.quoted()?.to_string());
        }
        let mut pattern = String::new();
        loop {
            let ends = |c| matches!(c, '\\' | '#' | '}' | ' ' | '\t' | '\r' | '\n' | '"');
            pattern.push_str(self.take_while(|c| !ends(c)));
            if self.peek() != Some('\\') {
                return Ok(pattern);
            }
            self.next();
            match self.peek().filter(|c| matches!(c, '"' | '#' | '}' | ' ')) {
                Some(_) => pattern.extend(self.next()),
                None => pattern.push('\\'),
            }
        }
    }

    /// A value: its words and quoted texts with a blank between them. `None`: there are none.
    ///
    /// The buffer is as long as the text, so that no part of a secret is left where it was before it grew.
    pub(super) fn value(&mut self) -> Result<Option<Zeroizing<String>>, String> {
        let mut value: Option<Zeroizing<String>> = None;
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\r'));
            let word = match self.peek() {
                None | Some('\n' | '#' | '}') => return Ok(value),
                Some('"') => self.quoted()?,
                Some(_) => {
                    let ends = |c| matches!(c, '#' | '}' | '"' | '\r' | '\n' | '\t' | ' ');
                    Zeroizing::new(self.take_while(|c| !ends(c)).to_owned())
                }
            };
            value = Some(match value {
                None => word,
                Some(before) => {
                    let mut both = Zeroizing::new(String::with_capacity(before.len() + word.len() + 1));
                    both.push_str(&before);
                    both.push(' ');
                    both.push_str(&word);
                    both
                }
            });
        }
    }

    /// A text between quotes, which may have several lines.
    fn quoted(&mut self) -> Result<Zeroizing<String>, String> {
        self.next();
        let mut text = Zeroizing::new(String::with_capacity(self.longest_quoted()));
        loop {
            text.push_str(self.take_while(|c| !matches!(c, '"' | '\\' | '\r')));
            match self.next() {
                Some('"') => return Ok(text),
                Some('\\') => self.escape(&mut text)?,
                Some(_) => {}
                None => return Err("a quote \" is opened and not closed".to_owned()),
            }
        }
    }

    /// The character that stands behind a backslash; none at the end of a line, which then goes on with the next.
    fn escape(&mut self, text: &mut String) -> Result<(), String> {
        match self.next() {
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some('\n') => {}
            Some('\r') if self.peek() == Some('\n') => drop(self.next()),
            Some(c) => text.push(c),
            None => return Err("a quote \" is opened and not closed".to_owned()),
        }
        Ok(())
    }

    /// The bytes up to the next quote that no backslash stands before.
    fn longest_quoted(&self) -> usize {
        let mut is_escaped = false;
        let end = self.text.bytes().position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        });
        end.unwrap_or(self.text.len())
    }
}
