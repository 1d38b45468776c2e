//! Hints for misspelt names.

/// Longest name that is looked at, in bytes: longer than any known one.
const LONGEST: usize = 64;

/// The known name nearest to `name`, if one is near enough to be meant: at most a third of its characters differ, and three.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let limit = (name.chars().count() / 3).clamp(1, 3);
    let near = known.map(|candidate| (distance(name, candidate), candidate));
    near.filter(|(distance, _)| *distance <= limit).min().map(|(_, candidate)| candidate)
}

/// The number of single-character edits from one name to the other, in any case (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().map(|c| c.to_ascii_lowercase()).collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, a) in from.chars().map(|c| c.to_ascii_lowercase()).enumerate() {
        let mut next = vec![index + 1];
        let mut left = index + 1;
        for ((b, diagonal), above) in to.iter().zip(&row).zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(a != *b)).min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found() {
        let known = ["remote_addrs", "remote_port", "mobike", "id"];
        for (name, expected) in [
            ("remote_addr", Some("remote_addrs")),
            ("Mobile", Some("mobike")),
            ("ip", Some("id")),
            ("frobnicate", None),
            (&"m".repeat(65), None),
        ] {
            assert_eq!(nearest(name, known.into_iter()), expected, "{name}");
        }
    }
}
