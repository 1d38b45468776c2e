//! The parts that the commands that measure share: the machine's description, and where results go.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use adit_testbed::{TestbedError, program};
use serde::Serialize;

use crate::environment;
use crate::error::LabError;
use crate::say;
use crate::subjects::{Tools, adit};

/// The machine, the command and the programs, one line each. A program is its name and the command that shows its version.
pub(super) fn describe(programs: Vec<(&str, Command)>) -> Vec<String> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let count = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let name = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let mut lines = vec![
        format!("`{}`", environment::command(std::env::args().skip(1))),
        installed("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        format!("{count} x {}", name.map_or("unknown processor", |(_, name)| name)),
        installed("uname", &["-sr"]),
        format!("load average before: {}", load.split(' ').next().unwrap_or_default()),
    ];
    lines.extend(programs.into_iter().map(|(name, command)| version(name, command)));
    lines
}

/// The first line that an installed program writes.
pub(super) fn installed(name: &str, arguments: &[&str]) -> String {
    let command = program(name).map(|mut command| {
        command.args(arguments);
        command
    });
    first_line(command)
}

/// The first line that a command writes; nothing if it cannot be started.
pub(super) fn first_line(command: Result<Command, TestbedError>) -> String {
    let output = command.ok().and_then(|mut command| command.output().ok());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_default()
}

/// The version that a command prints; the start of the file's SHA-256 tells builds of one version apart.
fn version(name: &str, mut command: Command) -> String {
    let file = PathBuf::from(command.get_program());
    command.arg("--version");
    let said = first_line(Ok(command));
    let digest = installed("sha256sum", &[&file.display().to_string()]);
    let digest = digest.get(..12).unwrap_or("unknown");
    format!("{name}: {} (SHA-256 {digest}…)", if said.is_empty() { "no version" } else { &said })
}

/// An error if adit is not there.
pub(super) fn check_adit(tools: &Tools) -> Result<(), LabError> {
    if tools.adit.is_file() { Ok(()) } else { Err(LabError::Usage(adit::unbuilt(tools))) }
}

/// Shows the table, and keeps every figure where the user wants them.
pub(super) fn finish(markdown: &str, json: Option<&Path>, all: &impl Serialize) -> Result<(), LabError> {
    say(markdown.trim_end());
    let Some(path) = json else { return Ok(()) };
    let text = serde_json::to_string_pretty(all)
        .map_err(|error| LabError::Usage(format!("the results cannot be written as JSON: {error}")))?;
    std::fs::write(path, text).map_err(|source| LabError::File { path: path.to_owned(), source })
}

/// A table in Markdown.
pub(super) fn table(columns: &[&str], rows: &[Vec<String>]) -> String {
    let mut text =
        format!("| {} |\n|---|{}\n", columns.join(" | "), "---:|".repeat(columns.len().saturating_sub(1)));
    rows.iter().for_each(|row| {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    });
    text
}

/// Least, median and most.
pub(super) fn spread(values: &[f64]) -> Option<[f64; 3]> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied();
    let (low, high) = (at(sorted.len().saturating_sub(1) / 2)?, at(sorted.len() / 2)?);
    Some([at(0)?, f64::midpoint(low, high), *sorted.last()?])
}

/// A median with least and most, with so many decimals.
pub(super) fn cell(values: &[f64], decimals: usize) -> String {
    match spread(values) {
        Some([least, median, most]) if values.len() > 1 => {
            format!("{median:.decimals$} ({least:.decimals$}–{most:.decimals$})")
        }
        Some([_, median, _]) => format!("{median:.decimals$}"),
        None => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_show_the_median_and_the_extremes() {
        assert_eq!(cell(&[3.0, 1.0, 2.0], 0), "2 (1–3)");
        assert_eq!(cell(&[1.0, 2.0], 1), "1.5 (1.0–2.0)");
        assert_eq!(cell(&[7.25], 1), "7.2");
        assert_eq!(cell(&[], 0), "–");
        assert_eq!(spread(&[f64::NAN]), None);
    }

    #[test]
    fn tables_are_markdown() {
        let rows = [vec!["x".to_owned(), "1".to_owned()]];
        assert_eq!(table(&["a", "b"], &rows), "| a | b |\n|---|---:|\n| x | 1 |\n");
    }
}
