//! A table of a page of results: written as Markdown, and read back from it.

use super::bars::Label;
use super::families::{Family, headings};
use crate::stats::Interval;

/// A median and where it lies, as the page shows them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shown {
    /// The text of the cell.
    pub(super) text: String,
    pub(super) median: f64,
    pub(super) interval: Option<Interval>,
}

/// A subject's figures.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) subject: String,
    pub(super) label: Label,
    /// One for each column.
    pub(super) cells: Vec<Option<Shown>>,
}

/// All subjects' figures of a workload on a link.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    /// The workload and the link, in words.
    pub(super) title: String,
    /// Figures in words, with their units.
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Row>,
}

const FIRST: &str = "subject";
const NONE: &str = "–";
/// The remarks behind the names of subjects.
const MARKS: [(&str, Label); 3] = [
    (" (stand-in)", Label::StandIn),
    (" (emulated)", Label::Emulated),
    (" (not measured on this machine yet)", Label::NotYet),
];

/// The remark behind a subject's name in tables and drawings.
pub(super) fn mark(label: Label) -> &'static str {
    MARKS.iter().find(|(_, marked)| *marked == label).map_or("", |(mark, _)| mark)
}

impl Shown {
    /// Reads `12`, or `12 (10–13)`.
    pub(super) fn parse(text: &str) -> Option<Shown> {
        let (median, rest) = text.split_once(' ').map_or((text, None), |(median, rest)| (median, Some(rest)));
        let interval = match rest {
            None => None,
            Some(rest) => {
                let (low, high) = rest.strip_prefix('(')?.strip_suffix(')')?.split_once('–')?;
                Some(Interval { low: low.parse().ok()?, high: high.parse().ok()? })
            }
        };
        Some(Shown { text: text.to_owned(), median: median.parse().ok()?, interval })
    }
}

impl Table {
    /// Has a row without figures for each of these subjects, and for no other that has none yet.
    pub(super) fn set_unmeasured(&mut self, subjects: &[String]) {
        self.rows.retain(|row| row.label != Label::NotYet);
        let row = |subject: &String| Row {
            subject: subject.clone(),
            label: Label::NotYet,
            cells: vec![None; self.columns.len()],
        };
        let rows: Vec<Row> = subjects.iter().map(row).collect();
        self.rows.extend(rows);
    }

    /// Subjects by family, and those of one family in the order in which they were.
    pub(super) fn sort_by_family(&mut self) {
        self.rows.sort_by_key(|row| Family::of_labelled(&row.subject, row.label));
    }

    /// The table in Markdown, with a line for each family above its first subject.
    pub(super) fn markdown(&self) -> String {
        let columns: String = self.columns.iter().map(|column| format!(" {column} |")).collect();
        let mut text = format!("| {FIRST} |{columns}\n|---|{}\n", "---:|".repeat(self.columns.len()));
        let families: Vec<Family> =
            self.rows.iter().map(|row| Family::of_labelled(&row.subject, row.label)).collect();
        for (row, heading) in self.rows.iter().zip(headings(&families)) {
            if let Some(heading) = heading {
                text += &format!("| **{heading}** |{}\n", " |".repeat(self.columns.len()));
            }
            let mark = mark(row.label);
            let cells = row.cells.iter().map(|cell| cell.as_ref().map_or(NONE, |shown| &shown.text));
            let cells: String = cells.map(|cell| format!(" {cell} |")).collect();
            text += &format!("| {}{mark} |{cells}\n", row.subject);
        }
        text
    }

    /// Reads the lines of a table; `None` if it is another kind of table.
    pub(super) fn parse(title: &str, lines: &[&str]) -> Option<Table> {
        let mut rows = lines.iter().map(|line| cells(line));
        let mut columns = rows.next()?.into_iter();
        if columns.next()? != FIRST {
            return None;
        }
        let columns: Vec<String> = columns.map(str::to_owned).collect();
        let rows = rows.skip(1).filter(|cells| !cells.first().is_some_and(|name| name.starts_with("**")));
        let row = |cells: Vec<&str>| {
            let (name, figures) = cells.split_first()?;
            let marked = |(mark, label): (&str, Label)| Some((name.strip_suffix(mark)?, label));
            let (subject, label) = MARKS.into_iter().find_map(marked).unwrap_or((name, Label::Measured));
            let cells = figures.iter().map(|text| Shown::parse(text)).collect();
            Some(Row { subject: subject.to_owned(), label, cells })
        };
        let rows = rows.map(row).collect::<Option<Vec<Row>>>()?;
        Some(Table { title: title.to_owned(), columns, rows })
    }
}

/// The cells of a line such as `| a | b |`.
fn cells(line: &str) -> Vec<&str> {
    let line = line.trim().strip_prefix('|').unwrap_or(line);
    line.strip_suffix('|').unwrap_or(line).split('|').map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "| subject | to the server, Mbit/s | lost |\n|---|---:|---:|\n\
                        | **OpenVPN in user space** | | |\n| adit-udp | 905 (900–910) | 0 |\n\
                        | **IPsec in user space** | | |\n| strongswan (stand-in) | 0.25 | – |\n\
                        | **In the kernel** | | |\n| wireguard-kernel (emulated) | 1 | 2 |\n";

    fn lines(text: &str) -> Vec<&str> {
        text.lines().collect()
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let table = Table::parse("x", &lines(TEXT)).unwrap();
        assert_eq!(table.columns, ["to the server, Mbit/s", "lost"]);
        assert_eq!(table.rows.len(), 3);
        let shown = table.rows[0].cells[0].as_ref().unwrap();
        assert_eq!((shown.median, shown.interval), (905.0, Some(Interval { low: 900.0, high: 910.0 })));
        assert_eq!((table.rows[1].label, &table.rows[1].cells[1]), (Label::StandIn, &None));
        assert_eq!(
            (table.rows[2].label, table.rows[2].subject.as_str()),
            (Label::Emulated, "wireguard-kernel")
        );
        assert_eq!(table.markdown(), TEXT);
    }

    #[test]
    fn direct_peers_come_first() {
        let text = "| subject | a |\n|---|---:|\n| veth | 3 |\n| wireguard-go | 2 |\n| adit-udp | 1 |\n";
        let mut table = Table::parse("x", &lines(text)).unwrap();
        table.sort_by_family();
        let names: Vec<&str> = table.rows.iter().map(|row| row.subject.as_str()).collect();
        assert_eq!(names, ["adit-udp", "wireguard-go", "veth"]);
        assert!(table.markdown().contains("| **OpenVPN in user space** | |\n| adit-udp | 1 |"));
    }

    #[test]
    fn other_tables_are_left_alone() {
        assert_eq!(Table::parse("x", &lines("| the study concluded | here |\n|---|---|\n| a | b |\n")), None);
        assert_eq!(Table::parse("x", &[]), None);
        assert_eq!(Shown::parse("12 (10-13)"), None);
        assert_eq!(Shown::parse("–"), None);
    }
}
