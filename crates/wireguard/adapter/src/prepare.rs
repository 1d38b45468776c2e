//! The things that a WireGuard file names and the system must have.

use std::path::Path;

use adit_wireguard_config::{Parsed, Table};

use crate::network;
use crate::streams::Streams;
use adit_host::failure::Failure;
use adit_host::programs::is_program;
use adit_host::remarks::Notes;

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

#[cfg(test)]
mod tests {
    use adit_host::remarks::Remarks;
    use adit_testbed::Scratch;

    use super::*;
    use crate::configuration;

    #[test]
    fn what_a_file_names_is_looked_for_unless_commands_may_make_it() {
        let scratch = Scratch::create("prepare").expect("a directory");
        let key = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
        let check = |lines: &str| {
            let text = format!("[Interface]\nPrivateKey = {key}\n{lines}\n[Peer]\nPublicKey = {key}\n");
            let file = scratch.write("wg7.conf", &text).expect("a file");
            let parsed = configuration::parse(&file, text.as_bytes()).expect("a good file");
            let mut remarks = Remarks::default();
            let prepared = prepare(&file, &parsed, &mut remarks).map(drop);
            prepared.map(|()| remarks).map_err(|failure| failure.why().to_owned())
        };
        assert!(check("Table = 7").expect("it can be used").left_open.is_empty());
        let why = check("Table = no-such-table").expect_err("there is no such table");
        assert!(why.contains("wg7.conf:3: there is no routing table `no-such-table`"), "{why}");
        let why = check("#adit: client-connect = /nowhere/program").expect_err("there is no such program");
        assert!(why.contains("wg7.conf:3: client-connect: /nowhere/program: No such file"), "{why}");
        let remarks = check("PreUp = true\nTable = no-such-table").expect("it may be made");
        assert!(remarks.left_open.len() == 1 && remarks.left_open[0].contains("wg7.conf:3"), "{remarks:?}");
    }
}
