//! Text of a peer's in logs, on terminals and in arguments: the characters that could forge a line or change how it is
//! shown.

use std::borrow::Cow;

/// Whether a character ends a line, commands a terminal or changes the order in which others are shown: control
/// characters (Unicode's `Cc`), the line and paragraph separators, and `Bidi_Control`.
pub fn is_unprintable(c: char) -> bool {
    let is_separator = matches!(c, '\u{2028}' | '\u{2029}');
    let is_bidi_control =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_separator || is_bidi_control
}

/// A peer's name, with `_` for each character that [`is_unprintable`].
pub fn printable(name: &str) -> String {
    name.chars().map(|c| if is_unprintable(c) { '_' } else { c }).collect()
}

/// A line for a log or a terminal: characters that are unprintable ([`is_unprintable`]) are written as in Rust (`\n`,
/// `\u{1b}`), except tabs.
pub fn escaped(line: &str) -> Cow<'_, str> {
    let is_wild = |c: char| is_unprintable(c) && c != '\t';
    if !line.contains(is_wild) {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len() + 8);
    for c in line.chars() {
        if is_wild(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_could_forge_a_line_is_replaced_or_escaped() {
        let evil = "bob\n\u{1b}[2J\u{9b}\u{7f}\u{202e}\u{2028}\u{200f}x";
        assert_eq!(printable(evil), "bob__[2J_____x");
        assert_eq!(escaped(evil), "bob\\n\\u{1b}[2J\\u{9b}\\u{7f}\\u{202e}\\u{2028}\\u{200f}x");
    }

    /// Names of people stay: letters of all scripts, also those that need joiners.
    #[test]
    fn other_text_stays() {
        for name in ["alice", "Jürgen Groß", "می\u{200c}خواهم", "名前", "a b/c,d\\e", "👩\u{200d}💻"]
        {
            assert_eq!((printable(name).as_str(), escaped(name).as_ref()), (name, name));
        }
        assert_eq!(escaped("a\tb"), "a\tb");
    }

    proptest! {
        #[test]
        fn nothing_unprintable_is_left(text: String) {
            prop_assert!(!printable(&text).contains(is_unprintable));
            prop_assert!(!escaped(&text).contains(|c: char| c != '\t' && is_unprintable(c)));
            prop_assert_eq!(printable(&printable(&text)), printable(&text));
            prop_assert!(printable(&text).len() <= text.len());
        }
    }
}
