//! The table of directives as a page of the documentation.

use std::fmt::Write as _;

use super::table::{DIRECTIVES, Side};
use crate::Kind;

const HEAD: &str = "# OpenVPN's directives, and what becomes of them

This page is made by `adit check --directives` from the table that the parser uses.
A directive that is not here is an error; `adit check FILE` says what becomes of those in a file.
";

/// The page, as Markdown.
pub fn documentation() -> String {
    let mut page = String::from(HEAD);
    let parts = [
        (Kind::Used, "Used", "| directive | side |\n|---|---|\n"),
        (Kind::Ignored, "Ignored", "adit does without these, safely.\n\n| directive | why |\n|---|---|\n"),
        (
            Kind::Refused,
            "Refused",
            "adit does not run with these.\n\n| directive | what to do |\n|---|---|\n",
        ),
    ];
    for (kind, title, head) in parts {
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {title}\n\n{head}");
        for directive in DIRECTIVES.iter().filter(|directive| directive.kind() == kind) {
            let what = match (kind, directive.side) {
                (Kind::Used, Side::Any) => "both",
                (Kind::Used, Side::Client) => "client",
                (Kind::Used, Side::Server) => "server",
                (Kind::Used, Side::ClientFile) => "a client's file in `client-config-dir`",
                _ => directive.reason(),
            };
            let usage = if kind == Kind::Refused { "" } else { directive.usage };
            let call = format!("{} {usage}", directive.name);
            let _ =
                writeln!(page, "| `{}` | {} |", call.trim().replace('|', "\\|"), what.replace('|', "\\|"));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_is_up_to_date() {
        let page = include_str!("../../../../docs/OPENVPN-DIRECTIVES.md");
        assert!(
            page == super::documentation(),
            "run `cargo run -p adit -- check --directives > docs/OPENVPN-DIRECTIVES.md`"
        );
    }
}
