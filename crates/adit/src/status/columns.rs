//! Rows of text in columns.

use std::fmt::Write as _;

/// Cells between which columns are made as wide as their widest cell.
pub(super) struct Columns<const N: usize> {
    rows: Vec<[String; N]>,
    /// Whether a column is flush right, as numbers are.
    right: [bool; N],
}

impl<const N: usize> Columns<N> {
    /// A table with that first row. `right` says which columns are flush right.
    pub(super) fn new(header: [&str; N], right: [bool; N]) -> Self {
        Columns { rows: vec![header.map(str::to_owned)], right }
    }

    /// One more row.
    pub(super) fn push(&mut self, row: [String; N]) {
        self.rows.push(row);
    }

    /// Writes all rows, a line each, with two spaces before each column.
    pub(super) fn write(&self, out: &mut String) {
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| length(cell)).max();
        let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or_default()).collect();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), right) in row.iter().zip(&widths).zip(self.right) {
                let padding = " ".repeat(width.saturating_sub(length(cell)));
                // Writing to a String cannot fail.
                let _ = match right {
                    true => write!(line, "  {padding}{cell}"),
                    false => write!(line, "  {cell}{padding}"),
                };
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
}

fn length(cell: &str) -> usize {
    cell.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Columns::new(["NAME", "SENT"], [false, true]);
        table.push(["ann".to_owned(), "1.00 kB".to_owned()]);
        table.push(["bärbel".to_owned(), "9 B".to_owned()]);
        let mut out = String::new();
        table.write(&mut out);
        assert_eq!(out, "  NAME       SENT\n  ann     1.00 kB\n  bärbel      9 B\n");
    }
}
