use std::rc::Rc;

use zeroize::Zeroizing;

use adit_core::configuration::Problem;
use adit_core::configuration::own_settings::{self, Comment};
use adit_core::configuration::words;

/// The beginning of an entry's name, if the entry is a setting of adit's own (`#adit: key = value`).
pub(crate) const OWN: &str = "#adit: ";

/// Longest word in bytes. Less than half a line ([`words::MAX_LINE`]: OpenVPN 2 stops at 255, OpenVPN Connect reads longer
/// ones), so that a word prints on one line with every byte escaped.
pub(crate) const MAX_WORD: usize = 512;
/// Largest inline block in bytes.
const MAX_INLINE: usize = 1 << 20;

/// Blocks of PEM, in which only the text between the marks counts.
const PEM_BLOCKS: [&str; 4] = ["ca", "cert", "extra-certs", "key"];

/// A line's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) file: Rc<str>,
    pub(crate) line: u32,
}

impl At {
    pub(crate) fn problem(&self, text: impl Into<String>) -> Problem {
        Problem { file: self.file.to_string(), line: Some(self.line), text: text.into() }
    }
}

/// One directive as written: its words, or its name and an inline block.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) at: At,
    pub(crate) name: String,
    pub(crate) words: Vec<String>,
    pub(crate) inline: Option<Inline>,
}

impl Entry {
    /// The first line with bytes that were no UTF-8, and became replacement characters. Those around PEM do not
    /// count.
    pub(crate) fn garbled_line(&self) -> Option<u32> {
        let garbled = |text: &str| text.contains(char::REPLACEMENT_CHARACTER);
        if garbled(&self.name) || self.words.iter().any(|word| garbled(word)) {
            return Some(self.at.line);
        }
        let inline = self.inline.as_ref().filter(|_| !PEM_BLOCKS.contains(&self.name.as_str()))?;
        (inline.first_line..)
            .zip(inline.text.lines())
            .find(|(_, line)| garbled(line))
            .map(|(number, _)| number)
    }
}

/// The text between `<name>` and `</name>`. May be secret.
#[derive(Clone)]
pub(crate) struct Inline {
    /// Lines as they stand, each ended by `\n`.
    pub(crate) text: Zeroizing<String>,
    /// Line number of the first of them.
    pub(crate) first_line: u32,
}

impl std::fmt::Debug for Inline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inline({} bytes)", self.text.len())
    }
}

/// Splits a file into directives the way OpenVPN reads it (options_parse.c). Lines that cannot be read are
/// reported in `problems` and skipped. `first_line` numbers the first line.
pub(crate) fn lex(file: &Rc<str>, text: &str, first_line: u32, problems: &mut Vec<Problem>) -> Vec<Entry> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut entries = Vec::new();
    let mut lines = (first_line..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let at = At { file: file.clone(), line: number };
        if let Comment::Ours(text) = own_settings::comment(line) {
            entries.push(own_setting(at, text));
            continue;
        }
        let mut words = match split(line) {
            Ok(words) => words,
            Err(text) => {
                problems.push(at.problem(text));
                continue;
            }
        };
        if words.is_empty() {
            continue;
        }
        let first = words.remove(0);
        let block =
            first.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).filter(|_| words.is_empty());
        if let Some(name) = block.filter(|name| name.starts_with('/')) {
            problems.push(at.problem(format!("`<{name}>` ends a block that was not begun")));
        } else if let Some(name) = block {
            match inline(name, number, &mut lines) {
                Ok(inline) => entries.push(Entry { at, name: name.into(), words, inline: Some(inline) }),
                Err(text) => problems.push(at.problem(text)),
            }
        } else {
            let name = match first.strip_prefix("--") {
                Some(rest) if !rest.is_empty() => rest.to_string(),
                _ => first,
            };
            entries.push(Entry { at, name, words, inline: None });
        }
    }
    entries
}

/// A setting of adit's own: its key, and its value as the only word.
fn own_setting(at: At, text: &str) -> Entry {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key.trim(), Some(value.trim().to_owned())),
        None => (text, None),
    };
    Entry { at, name: format!("{OWN}{key}"), words: value.into_iter().collect(), inline: None }
}

fn inline<'a>(
    name: &str,
    opened: u32,
    lines: &mut impl Iterator<Item = (u32, &'a str)>,
) -> Result<Inline, String> {
    let close = format!("</{name}>");
    let mut parts: Vec<&str> = Vec::new();
    let mut size = 0usize;
    for (_, line) in lines {
        if line.trim_start().starts_with(&close) {
            if size > MAX_INLINE {
                return Err(format!("the block `<{name}>` is larger than {MAX_INLINE} bytes"));
            }
            // Built in one piece: a growing string would leave copies of a secret behind.
            let mut text = Zeroizing::new(String::with_capacity(size));
            for part in parts {
                text.push_str(part);
                text.push('\n');
            }
            return Ok(Inline { text, first_line: opened + 1 });
        }
        let line = line.trim_end_matches('\r');
        size = size.saturating_add(line.len() + 1);
        parts.push(line);
    }
    Err(format!("the block `<{name}>` has no end: write `{close}` on a line of its own after it"))
}

/// The words of a line of a file.
pub(crate) fn split(line: &str) -> Result<Vec<String>, String> {
    words::split(line, MAX_WORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Line = (String, Vec<String>, u32);

    fn names(text: &str) -> (Vec<Line>, Vec<String>) {
        let mut problems = Vec::new();
        let entries = lex(&"f".into(), text, 1, &mut problems);
        (
            entries.into_iter().map(|e| (e.name, e.words, e.at.line)).collect(),
            problems.iter().map(ToString::to_string).collect(),
        )
    }

    /// First words of a line, as OpenVPN 2.6.14 names them when it knows no such option; `None`: it sees none.
    #[test]
    fn first_words_are_what_openvpn_reads() {
        for (line, word) in [
            ("a\\ b", Some("a b")),
            ("a\\\\b", Some("a\\b")),
            ("\"a\\\"b\"", Some("a\"b")),
            ("a\\\"b", Some("a\"b")),
            ("\"a b\"c", Some("a b")),
            ("'a b'c", Some("a b")),
            ("a\"b c\"d", Some("a\"b")),
            ("a'b c'd", Some("a'b")),
            ("\"\" x", Some("")),
            ("'' x", Some("")),
            ("\\#a", None),
            ("\\;a", None),
            ("\\ a", Some("a")),
            ("\\\ta", Some("a")),
            ("\"a\\ b\"", Some("a b")),
            ("\"a\tb\"", Some("a\tb")),
            ("a\u{b}b", Some("a")),
            ("a\u{c}b", Some("a")),
            ("a\u{a0}b", Some("a\u{a0}b")),
            ("\"a\"\"b\"", Some("a")),
            ("'a'\"b\"", Some("a")),
            ("'a\\'", Some("a\\")),
            ("'a\\\\b'", Some("a\\\\b")),
            ("\"a\\\\\"", Some("a\\")),
            ("\"'\"", Some("'")),
            ("'\"'", Some("\"")),
            ("a#b", Some("a#b")),
            ("a;b", Some("a;b")),
            ("\"a\"#b", Some("a")),
            ("\"a#b\"", Some("a#b")),
            ("'a;b'", Some("a;b")),
            ("a\\\tb", Some("a\tb")),
            ("\\\"a b\\\"", Some("\"a")),
            ("\\\\", Some("\\")),
            ("a\\\\ b", Some("a\\")),
            ("<x> y", Some("<x>")),
            ("x \r", Some("x")),
            ("\"x\"\r", Some("x")),
            ("a \\", Some("a")),
            ("a\"", Some("a\"")),
            ("a'", Some("a'")),
            ("-a", Some("-a")),
        ] {
            let words = split(line).unwrap_or_else(|why| panic!("{line:?}: {why}"));
            assert_eq!(words.first().map(String::as_str), word, "{line:?}");
        }
        // The reader stops at this line, too.
        for line in ["a\\'b", "\"a\\nb\"", "a\\n", "a\\;b", "\"a", "'a", "\"a\\", "a \"b"] {
            assert!(split(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn files() {
        let (entries, problems) =
            names("\u{feff}--dev tun\r\n\r\n<ca>\r\nx y\r\n  </ca>\r\nverb 3\n<key>\nzz\n");
        assert_eq!(
            entries,
            [
                ("dev".into(), vec!["tun".into()], 1),
                ("ca".into(), vec![], 3),
                ("verb".into(), vec!["3".into()], 6)
            ]
        );
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("f:7: ") && problems[0].contains("</key>"), "{problems:?}");
        assert!(!problems[0].contains("zz"));
    }

    #[test]
    fn inline_text_is_kept() {
        let mut problems = Vec::new();
        let entries = lex(&"f".into(), "<ca>\r\n a\r\n\r\nb\r\n</ca>", 1, &mut problems);
        let inline = entries[0].inline.as_ref().unwrap();
        assert_eq!(inline.text.as_str(), " a\n\nb\n");
        assert_eq!(inline.first_line, 2);
    }
}
