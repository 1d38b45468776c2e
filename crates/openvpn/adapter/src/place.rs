//! The place of a directive, for messages.

use std::path::Path;

use adit_openvpn_config::Parsed;

use adit_host::place::place_in;

/// Where the first of these directives stands that the file has; the file, if it has none.
pub(crate) fn place(parsed: &Parsed, file: &Path, directives: &[&str]) -> String {
    place_in(&parsed.report, file, directives)
}
