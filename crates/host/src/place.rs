//! The place of a directive, for messages.

use std::path::Path;

use adit_core::configuration::Disposition;

/// The place of the first of these directives that the report of `file` has: file and line; the file alone, if the report has none
/// of them.
pub fn place_in(report: &[Disposition], file: &Path, directives: &[&str]) -> String {
    let find = |directive: &&str| report.iter().find(|entry| entry.directive.eq_ignore_ascii_case(directive));
    match directives.iter().find_map(find) {
        Some(entry) => format!("{}:{}", entry.file, entry.line),
        None => file.display().to_string(),
    }
}
