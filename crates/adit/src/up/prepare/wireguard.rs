//! What a WireGuard file names and the system must have.

use std::path::Path;

use adit_config::wireguard::{Parsed, Table};

use super::Notes;
use crate::up::Failure;
use crate::up::wireguard::Streams;
use crate::up::wireguard::network;

/// Reads the certificates of authorities that the file names, and finds its routing table. Commands of `PreUp` may make both, so
/// that they are looked for after these.
///
/// # Errors
/// What is missing or cannot be read, with its line.
pub(in crate::up) fn prepare(
    file: &Path,
    parsed: &Parsed,
    notes: &mut dyn Notes,
) -> Result<Option<Streams>, Failure> {
    if let Some(hook) = parsed.report.iter().find(|entry| entry.directive.eq_ignore_ascii_case("PreUp")) {
        let names_files = parsed.config.peers.iter().any(|peer| peer.tcp_ca.is_some());
        if names_files || matches!(parsed.config.interface.table, Table::Name(_)) {
            let text =
                "what `PreUp` may make (a routing table's name, certificates) is looked for after it has run";
            notes.left_open(&format_args!("{}:{}: {text}", hook.file, hook.line));
        }
        return Ok(None);
    }
    table(file, parsed)?;
    Streams::new(file, &parsed.config).map(Some)
}

/// Whether the routing table that the file names is there.
///
/// # Errors
/// It is not.
fn table(file: &Path, parsed: &Parsed) -> Result<(), Failure> {
    network::check_name(&parsed.config.interface.table)
        .map_err(|why| network::at_line(parsed, file, "Table", &why))
}
