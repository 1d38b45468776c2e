//! The differences, and their reasons: the rows of docs/use/OPENVPN-COMMAND.md below [`HEADING`].

use std::collections::BTreeSet;

use adit_core::configuration::Kind;
use adit_openvpn_config::directive;

use super::lists::OptionList;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/use/OPENVPN-COMMAND.md");

const HEADING: &str = "## Accepted and refused";

/// All rows.
pub(super) struct Differences {
    rows: Vec<Row>,
    /// Rows that explained a difference.
    used: BTreeSet<usize>,
}

/// Options, or one with another, or one without another, that adit judges otherwise.
struct Row {
    /// Each is in the list, as it would stand in a file.
    options: BTreeSet<String>,
    /// The names of options that are not in it.
    missing: BTreeSet<String>,
    /// `refuses`, `accepts` or `differs`.
    adit: String,
}

impl Differences {
    /// Reads the differences of the page.
    pub(super) fn read() -> Self {
        let page = std::fs::read_to_string(PAGE).unwrap();
        let (_, part) = page.split_once(HEADING).unwrap();
        let part = part.split("\n## ").next().unwrap();
        let lines = part.lines().filter(|line| line.starts_with("| `"));
        let rows: Vec<Row> = lines.flat_map(rows).collect();
        assert!(!rows.is_empty(), "{PAGE} has no rows below {HEADING}");
        Differences { rows, used: BTreeSet::new() }
    }

    /// Whether something explains that adit differs in this way. Options that the table of directives refuses need no
    /// row, nor do those that it ignores, with any arguments.
    pub(super) fn explain(&mut self, list: &OptionList, adit: &str) -> bool {
        let lines: BTreeSet<String> = list.lines().collect();
        let has = |name: &String| list.options.iter().any(|option| option[0] == *name);
        let row = |(_, row): &(usize, &Row)| {
            row.adit == adit && row.options.is_subset(&lines) && !row.missing.iter().any(has)
        };
        let found: Vec<usize> = self.rows.iter().enumerate().filter(row).map(|(index, _)| index).collect();
        self.used.extend(&found);
        let kinds = || list.options.iter().filter_map(|option| Some(directive(&option[0])?.kind()));
        !found.is_empty()
            || match adit {
                "refuses" => kinds().any(|kind| kind == Kind::Refused),
                "accepts" => kinds().any(|kind| kind == Kind::Ignored),
                _ => false,
            }
    }

    /// The options of rows that explain nothing.
    pub(super) fn unused(&self) -> Vec<&BTreeSet<String>> {
        let rows = self.rows.iter().enumerate();
        rows.filter(|(index, _)| !self.used.contains(index)).map(|(_, row)| &row.options).collect()
    }
}

/// The rows of one line of the page: `` | `a`, `b` with `c`, `d` without `e` | refuses | why | ``.
fn rows(line: &str) -> Vec<Row> {
    let cells: Vec<&str> = line.trim_matches(['|', ' ']).split(" | ").collect();
    let [options, adit, _] = cells[..] else { panic!("{line}") };
    let option = |text: &str| text.trim_matches('`').to_owned();
    let row = |text: &str| {
        let mut parts = text.split(" without ");
        let options = parts.next().unwrap_or_default().split(" with ").map(option).collect();
        Row { options, missing: parts.map(option).collect(), adit: adit.to_owned() }
    };
    options.split(", ").map(row).collect()
}
