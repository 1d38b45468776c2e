//! The words of a line, by the quotes and escapes of option files.

/// Longest line in bytes.
pub const MAX_LINE: usize = 2048;
/// Most words on a line: twice as many as other readers of such files take, because generated files have long lists.
const MAX_WORDS: usize = 32;

/// Splits a line into words of at most `longest` bytes: quotes `"` and `'`, backslash escapes outside `'`, comments from a
/// word that starts with `#` or `;`.
///
/// # Errors
/// The fault of the line, in a few words.
pub fn split(line: &str, longest: usize) -> Result<Vec<String>, String> {
    if line.len() > MAX_LINE {
        return Err(format!("the line is {} bytes long; at most {MAX_LINE} are read", line.len()));
    }
    let mut words = Vec::new();
    let mut chars = line.chars().peekable();
    loop {
        skip_spaces(&mut chars);
        let Some(&first) = chars.peek() else { break };
        if first == '#' || first == ';' {
            break;
        }
        if words.len() == MAX_WORDS {
            return Err(format!("the line has more than {MAX_WORDS} words"));
        }
        let word = word(&mut chars)?;
        if word.len() > longest {
            return Err(format!("a word is {} bytes long; at most {longest} are read", word.len()));
        }
        words.push(word);
    }
    Ok(words)
}

/// Goes to where the next word, or a comment, starts. A backslash there does not stand for itself: it is passed over,
/// and so is an escaped space.
fn skip_spaces(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    loop {
        while chars.next_if(|c| is_space(*c)).is_some() {}
        let mut ahead = chars.clone();
        let escapes = ahead.next() == Some('\\');
        if !escapes || ahead.peek().is_some_and(|c| !is_space(*c) && !matches!(c, '#' | ';')) {
            return;
        }
        chars.next();
    }
}

fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{b}'
}

fn word(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<String, String> {
    let quote = chars.next_if(|c| matches!(c, '"' | '\''));
    let mut word = String::new();
    loop {
        match (chars.next(), quote) {
            (None, Some(quote)) => return Err(format!("a quote {quote} is opened and not closed")),
            (None, None) => return Ok(word),
            (Some(c), Some(quote)) if c == quote => return Ok(word),
            (Some('\\'), None | Some('"')) => match chars.next() {
                Some(c) if c == '\\' || c == '"' || is_space(c) => word.push(c),
                _ => {
                    return Err(
                        "a backslash stands before something other than a backslash, a double quote or a \
                         space: to mean a backslash, write two"
                            .into(),
                    );
                }
            },
            (Some(c), None) if is_space(c) => return Ok(word),
            (Some(c), _) if c.is_control() && c != '\t' => {
                return Err(format!("the line holds the control character U+{:04X}", u32::from(c)));
            }
            (Some(c), _) => word.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longest word of these tests.
    const LONGEST: usize = 512;

    #[test]
    fn words_quotes_escapes_comments() {
        for (line, expected) in [
            ("a b\tc", vec!["a", "b", "c"]),
            ("  a \"b c\" 'd \\e'", vec!["a", "b c", "d \\e"]),
            ("a b\\ c \\\\d \"q\\\"r\"", vec!["a", "b c", "\\d", "q\"r"]),
            ("a b # c", vec!["a", "b"]),
            ("a b;c ;d", vec!["a", "b;c"]),
            ("a b#c", vec!["a", "b#c"]),
            ("a \"\" ''", vec!["a", "", ""]),
            ("a x\"y", vec!["a", "x\"y"]),
            ("a \"b\"c", vec!["a", "b", "c"]),
            ("; a", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(split(line, LONGEST).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn bad_lines() {
        for line in ["a \"b", "a 'b", "a c:\\path", "a b\\", "a \u{1}"] {
            assert!(split(line, LONGEST).is_err(), "{line}");
        }
        assert!(split(&"a\\ ".repeat(1000), LONGEST).is_err());
        assert!(split(&"a".repeat(600), LONGEST).is_err());
        assert!(split(&"a ".repeat(40), LONGEST).is_err());
    }
}
