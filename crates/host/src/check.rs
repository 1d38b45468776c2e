//! The remarks on a configuration, as `adit check` has them.

use adit_core::configuration::{Disposition, Kind, Problem};

use super::adapter::Configuration;
use super::remarks::Remarks;

/// The remarks on a configuration that can be used, one a line: the results of its directives, unless they are used as
/// they stand and `all` is false, its doubtful points, and the points that show at the start alone.
pub fn remarks(configuration: &dyn Configuration, of_start: &Remarks, all: bool) -> Vec<String> {
    let report = configuration.report();
    let untold = configuration.warnings().iter().filter(|warning| !is_told(warning, report));
    let warnings = untold.map(ToString::to_string).chain(of_start.warnings.iter().cloned());
    let left_open = of_start.left_open.iter().map(|text| format!("{text} (not known before the start)"));
    let warnings = warnings.map(|warning| format!("{warning} (warning)"));
    lines(report, all).into_iter().chain(warnings).chain(left_open).collect()
}

/// The uses of directives that are worth a line: without those that are used as they stand, unless `all` is true. Refused directives are
/// among the problems.
pub fn lines(report: &[Disposition], all: bool) -> Vec<String> {
    let worth_a_line = |entry: &&Disposition| match entry.kind {
        Kind::Used => all || !entry.reason.is_empty(),
        Kind::Ignored => true,
        Kind::Refused => false,
    };
    report.iter().filter(worth_a_line).map(ToString::to_string).collect()
}

/// Whether the report has the text of the warning.
fn is_told(warning: &Problem, report: &[Disposition]) -> bool {
    let tells = |entry: &Disposition| {
        let same_line = warning.line == Some(entry.line) && entry.file == warning.file;
        same_line && !entry.reason.is_empty() && warning.text.ends_with(&entry.reason)
    };
    report.iter().any(tells)
}
