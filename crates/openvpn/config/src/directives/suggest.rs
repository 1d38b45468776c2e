//! Hints for misspelt names.

/// The known name nearest to `name`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Far longer than any directive: nothing is meant, and the comparison would cost.
    if name.len() > 64 {
        return None;
    }
    let limit = (name.chars().count() / 3).clamp(1, 3);
    known
        // A difference in length is a distance already: most names need no closer look.
        .filter(|candidate| candidate.chars().count().abs_diff(name.chars().count()) <= limit)
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// The number of single-character edits from one to the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().map(|c| c.to_ascii_lowercase()).collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().map(|c| c.to_ascii_lowercase()).enumerate() {
        let mut next = vec![i + 1];
        let mut left = i + 1;
        for ((b, diagonal), above) in to.iter().zip(&row).zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(a != *b)).min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

/// A name from a file, short and printable enough for a message.
pub(crate) fn shown(name: &str) -> String {
    let mut shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
    if name.chars().nth(64).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found() {
        let known = ["remote", "route", "proto", "port", "push"];
        for (name, expected) in [
            ("remot", Some("remote")),
            ("Remote", Some("remote")),
            ("poto", Some("proto")),
            ("frobnicate", None),
            ("x", None),
        ] {
            assert_eq!(nearest(name, known.into_iter()), expected, "{name}");
        }
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
