//! The tables of keys as a part of the documentation.

use std::fmt::Write as _;

use adit_core::configuration::Kind;

use super::all;

/// The tables of all keys, as Markdown.
pub fn documentation() -> String {
    let mut text = String::new();
    let mut section = "";
    for known in all() {
        if known.section != section {
            section = known.section;
            // Writing to a string cannot fail.
            let _ =
                write!(text, "\n### `{section}`\n\n| key | values | what becomes of it |\n|---|---|---|\n");
        }
        let what = match (known.kind, known.reason) {
            (Kind::Used, "") => "used".to_owned(),
            (Kind::Used, reason) => format!("no other value: {reason}"),
            (Kind::Ignored, reason) => format!("without effect: {reason}"),
            (Kind::Refused, reason) => format!("refused: {reason}"),
        };
        let form = if known.form.is_empty() { String::new() } else { format!("`{}`", escaped(known.form)) };
        let _ = writeln!(text, "| `{}` | {form} | {} |", known.name, escaped(&what));
    }
    text
}

/// Text within a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_has_the_tables() {
        let page = include_str!("../../../../../docs/use/IPSEC.md");
        let tables = super::documentation();
        assert!(page.ends_with(&tables), "docs/use/IPSEC.md has to end with these tables:\n{tables}");
    }
}
