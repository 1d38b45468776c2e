//! The things that a WireGuard file names and the system must have.

use std::path::Path;

use adit_wireguard_config::{Parsed, Table};

use crate::host::failure::Failure;
use crate::host::prepare::Notes;
use crate::openvpn::adapter::tunnel_scripts::check::is_program;
use crate::wireguard::adapter::wg_quick::{Streams, network};

/// Reads the certificates of authorities that the file names, and finds its routing table and its programs. Commands of `PreUp` may
/// make all of these. The result for a file with `PreUp` is therefore `None`: its certificates and its table are looked for after
/// the commands have run, and its programs when they are to run.
///
/// # Errors
/// The first thing that is missing or cannot be read, with its line.
pub(crate) fn prepare(
    file: &Path,
    parsed: &Parsed,
    notes: &mut dyn Notes,
) -> Result<Option<Streams>, Failure> {
    if let Some(hook) = parsed.report.iter().find(|entry| entry.directive.eq_ignore_ascii_case("PreUp")) {
        let names_files = parsed.config.peers.iter().any(|peer| peer.tcp_ca.is_some());
        let interface = &parsed.config.interface;
        let has_programs = interface.client_connect.is_some() || interface.client_disconnect.is_some();
        if names_files || has_programs || matches!(parsed.config.interface.table, Table::Name(_)) {
            let text = "what `PreUp` may make is looked for later: a routing table's name and certificates after it has run, \
                        programs when they are to run";
            notes.left_open(&format_args!("{}:{}: {text}", hook.file, hook.line));
        }
        return Ok(None);
    }
    table(file, parsed)?;
    programs(file, parsed)?;
    Streams::new(file, &parsed.config).map(Some)
}

/// Whether the programs that decide and hear about peers can be run.
///
/// # Errors
/// The program that cannot be run and why, with its line.
fn programs(file: &Path, parsed: &Parsed) -> Result<(), Failure> {
    let interface = &parsed.config.interface;
    let programs =
        [("client-connect", &interface.client_connect), ("client-disconnect", &interface.client_disconnect)];
    for (key, argv) in programs {
        if let Some(program) = argv.as_ref().and_then(|argv| argv.first()) {
            is_program(program)
                .map_err(|why| network::at_line(parsed, file, key, &format!("{key}: {why}")))?;
        }
    }
    Ok(())
}

/// Whether the routing table that the file names is there.
///
/// # Errors
/// There is no table of that name.
fn table(file: &Path, parsed: &Parsed) -> Result<(), Failure> {
    network::check_name(&parsed.config.interface.table)
        .map_err(|why| network::at_line(parsed, file, "Table", &why))
}
