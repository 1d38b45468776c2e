//! The values of keys. An error says what would be right; it begins with what it is about, or goes on after the key's name and a colon.

pub(crate) mod addresses;
pub(crate) mod auth;
pub(crate) mod identity;
pub(crate) mod numbers;
pub(crate) mod secret;
pub(crate) mod selector;

use adit_core::escaped;

/// Most characters of a value in a message.
const MOST_SHOWN: usize = 64;

/// Text from a file, short and printable enough for a message.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(MOST_SHOWN).collect();
    if text.chars().nth(MOST_SHOWN).is_some() {
        shown.push('…');
    }
    escaped(&shown).replace('\t', "\\t")
}

/// The parts of a list with commas between them, without blanks around them and without empty ones.
pub(crate) fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(|part| part.trim_matches(' ')).filter(|part| !part.is_empty())
}

/// A value that is one of several words, in upper or lower case.
///
/// # Errors
/// It is none of them.
pub(crate) fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let (last, others) = words.split_last().unwrap_or((&"", &[]));
        format!("`{}` is not {} or {last}", shown(text), others.join(", "))
    })
}

/// `yes` or `no`, and what else stands for them.
///
/// # Errors
/// It is neither.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    const YES: [&str; 4] = ["yes", "true", "enabled", "1"];
    const NO: [&str; 4] = ["no", "false", "disabled", "0"];
    let is_in = |words: [&str; 4]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
    match (is_in(YES), is_in(NO)) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(format!("`{}` is not yes or no", shown(text))),
    }
}

/// A text of printable characters.
///
/// # Errors
/// It has others.
pub(crate) fn printable(text: &str) -> Result<String, String> {
    match text.contains(adit_core::is_unprintable) {
        true => Err(format!("`{}` has characters that are not printable", shown(text))),
        false => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_in_any_case_and_errors_name_them() {
        assert_eq!(one_of("B", &[("a", 1), ("b", 2)]), Ok(2));
        assert_eq!(one_of("d", &[("a", 1), ("b", 2), ("c", 3)]), Err("`d` is not a, b or c".to_owned()));
        for (text, value) in
            [("yes", true), ("TRUE", true), ("enabled", true), ("1", true), ("no", false), ("0", false)]
        {
            assert_eq!(boolean(text), Ok(value), "{text}");
        }
        assert_eq!(boolean("on"), Err("`on` is not yes or no".to_owned()));
        assert_eq!(list(" a, b ,,c,").collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(shown(&"a\n".repeat(40)).chars().count(), 32 * 3 + 1);
    }
}
