//! Patterns of paths, as glob(7).

use std::path::{Path, PathBuf};

use crate::files::Files;

/// Longest pattern in bytes.
const LONGEST: usize = 4096;

/// The regular files that match a pattern, relative ones below `folder`, sorted. Without `*`, `?` and `[`: that file, whether it is
/// there or not.
///
/// # Errors
/// The pattern is too long, or a folder cannot be listed.
pub(super) fn files(files: &dyn Files, folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    if pattern.len() > LONGEST {
        return Err(format!("the pattern is {} bytes long; at most {LONGEST} are read", pattern.len()));
    }
    if !is_pattern(pattern) {
        return Ok(vec![folder.join(pattern)]);
    }
    let (mut found, rest) = match pattern.strip_prefix('/') {
        Some(rest) => (vec![PathBuf::from("/")], rest),
        None => (vec![folder.to_path_buf()], pattern),
    };
    let mut parts = rest.split('/').filter(|part| !part.is_empty()).peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let mut next = Vec::new();
        for folder in found {
            next.extend(matching(files, &folder, part, is_last)?);
        }
        found = next;
    }
    found.sort();
    Ok(found)
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The files of a folder that match a part of a pattern, or the folders if further parts follow.
fn matching(files: &dyn Files, folder: &Path, part: &str, is_last: bool) -> Result<Vec<PathBuf>, String> {
    if !is_last && !is_pattern(part) {
        return Ok(vec![folder.join(part)]);
    }
    let pattern: Vec<char> = part.chars().collect();
    let entries = files.entries(folder)?;
    let matches = |name: &str| {
        let is_hidden = name.starts_with('.') && !part.starts_with('.');
        !is_hidden && matches(&pattern, &name.chars().collect::<Vec<_>>())
    };
    let found = entries.into_iter().filter(|entry| entry.is_folder != is_last && matches(&entry.name));
    Ok(found.map(|entry| folder.join(entry.name)).collect())
}

/// Whether a name matches. The last `*` alone is tried again with more of the name, so that the time is at most the product of
/// both lengths.
fn matches(pattern: &[char], name: &[char]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = name.get(in_name) {
        if pattern.get(at) == Some(&'*') {
            star = Some((at + 1, in_name));
            at += 1;
            continue;
        }
        match one(pattern.get(at..).unwrap_or_default(), *c) {
            Some(length) => (at, in_name) = (at + length, in_name + 1),
            None => {
                let Some((after, from)) = star else { return false };
                star = Some((after, from + 1));
                (at, in_name) = (after, from + 1);
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|c| *c == '*')
}

/// The number of characters of the pattern's beginning that stand for one character, if it matches.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['\\', literal, ..] => (*literal == c).then_some(2),
        ['[', set @ ..] => match in_set(set, c) {
            Some((length, is_in)) => is_in.then_some(length + 1),
            None => (c == '[').then_some(1),
        },
        [literal, ..] => (*literal == c).then_some(1),
        [] => None,
    }
}

/// Whether a character is in the set that follows a `[`, with the set's length. `None`: the set is not closed.
fn in_set(set: &[char], c: char) -> Option<(usize, bool)> {
    let is_negated = matches!(set.first(), Some('!' | '^'));
    let start = usize::from(is_negated);
    // A `]` that comes first is a member.
    let end = start + 1 + set.get(start + 1..)?.iter().position(|c| *c == ']')?;
    let mut members = set.get(start..end)?;
    let mut is_in = false;
    while let Some((first, rest)) = members.split_first() {
        members = match rest {
            ['-', last, rest @ ..] => {
                is_in |= (*first..=*last).contains(&c);
                rest
            }
            _ => {
                is_in |= *first == c;
                rest
            }
        };
    }
    Some((end + 1, is_in != is_negated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf.bak", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("?.conf", "é.conf", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]x", "]x", true),
            ("[a", "[a", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("", "", true),
            ("*", "", true),
        ] {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            assert_eq!(matches(&chars(pattern), &chars(name)), expected, "{pattern} {name}");
        }
        let long = "a*".repeat(500);
        assert!(!matches(&long.chars().collect::<Vec<_>>(), &vec!['a'; 400]), "and the end comes soon");
    }
}
