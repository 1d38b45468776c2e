//! Renegotiation with programs that share no code with adit or OpenVPN 2: OpenVPN 3's client, and MirageVPN; and with OpenVPN
//! whose data channel is Linux's, which runs in a guest (`kernel_peers.rs`).
//!
//! The others are in no package. Rows with them run where an environment variable names the program
//! (`ADIT_OPENVPN3=/path/to/ovpncli`, `ADIT_MIRAGEVPN=/directory/of/its/programs`), and say that they did not run
//! elsewhere. Behaviours that were found with these peers run everywhere, in `adit-sim`.
//!
//! A row takes minutes; many rows run at once, on a machine that is otherwise idle. `ADIT_PEER_RUNS=5` runs each row five
//! times, `ADIT_PEER_AT_ONCE=4` four rows at once.

mod dco;
mod miragevpn;
mod openvpn3;
mod row;

use std::sync::Mutex;

use adit_testbed::can_run;

use crate::bed::PROGRAMS;
use crate::options::{Transport, Wrap};
use row::Row;

/// Tunnels that are up at once.
const AT_ONCE: usize = 24;

const WRAPS: [Wrap; 4] = [Wrap::Plain, Wrap::TlsAuth("SHA256"), Wrap::TlsCrypt, Wrap::TlsCryptV2];
const TRANSPORTS: [Transport; 2] = [Transport::Udp4, Transport::Tcp4];

/// Whether the program is named; says so if it is not.
fn is_named(test: &str, variable: &str) -> bool {
    let named = std::env::var_os(variable).is_some();
    if !named {
        let note = format!("\n**** NOT RUN {test}: {variable} names no program.\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes());
    }
    named && can_run(test, &PROGRAMS)
}

/// Runs the rows if `variable` names their peer.
fn check(test: &str, variable: &str, rows: &[Row], at_once: usize) {
    if is_named(test, variable) {
        run(test, rows, at_once);
    }
}

/// The number that an environment variable holds.
fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok().and_then(|number| number.parse().ok())
}

/// Runs the rows, many at once, and prints the result of each. Fails with those that failed and have adit at an end; the
/// others are the reference.
fn run(test: &str, rows: &[Row], at_once: usize) {
    let runs = number("ADIT_PEER_RUNS").unwrap_or(1);
    let all: Vec<&Row> = (0..runs).flat_map(|_| rows).collect();
    let (left, failures) = (Mutex::new(all.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..number("ADIT_PEER_AT_ONCE").unwrap_or(at_once) {
            scope.spawn(|| {
                loop {
                    let Some(row) = left.lock().unwrap().next() else { return };
                    match row.live() {
                        Ok(summary) => eprintln!("{test}: {row:?}: {summary}"),
                        Err(failure) => {
                            eprintln!("{test}: {row:?}: FAILED: {}", failure.summary);
                            failures.lock().unwrap().push((row, failure));
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    let ours: Vec<String> = failures
        .iter()
        .filter(|(row, _)| row.has_adit())
        .map(|(row, failure)| format!("{row:?}: {}\n{}", failure.summary, failure.logs))
        .collect();
    let reference = failures.len() - ours.len();
    assert!(
        ours.is_empty(),
        "{} of {} runs failed with adit, {reference} with OpenVPN in its place:\n{}",
        ours.len(),
        all.len(),
        ours.join("\n\n")
    );
}
