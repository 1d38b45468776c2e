//! Deployments of OpenVPN, replayed with Debian's OpenVPN 2.6 and with adit in its place: their command lines, files
//! and scripts, and the output for their users and programs.

mod containers;
mod eduvpn;
mod installers;
mod name_servers;

use std::collections::BTreeMap;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Scratch};

use crate::options::Program;

const WAIT: Duration = MAX_WAIT;
/// The line of OpenVPN, and of adit in its manner, when a tunnel is up.
pub(super) const COMPLETED: &str = "Initialization Sequence Completed";
/// Variables that a shell makes, or whose values are of one process or of a file of this test.
const OF_THE_RUN: [&str; 8] =
    ["PATH", "PWD", "OLDPWD", "SHLVL", "_", "config", "daemon_pid", "daemon_start_time"];

/// The results of a run with OpenVPN and with adit, at the same time.
pub(super) fn by_both<T: Send>(run: impl Fn(Program) -> T + Sync) -> [T; 2] {
    let run = &run;
    std::thread::scope(|scope| {
        let threads = [Program::OpenVpn, Program::Adit].map(|program| scope.spawn(move || run(program)));
        threads.map(|thread| thread.join().unwrap())
    })
}

/// One call of a script: its type with its arguments, and its variables.
type Call = (String, BTreeMap<String, String>);

/// The body of a script that writes down its call.
const RECORD: &str = "{ echo \"== $script_type $*\"; env; } >>\"$HERE/calls\"\n";

/// The calls that scripts of [`RECORD`] wrote down, without the variables [`OF_THE_RUN`].
fn calls(scratch: &Scratch) -> Vec<Call> {
    let text = std::fs::read_to_string(scratch.path().join("calls")).unwrap_or_default();
    let mut calls: Vec<Call> = Vec::new();
    for line in text.lines() {
        if let Some(event) = line.strip_prefix("== ") {
            calls.push((event.to_owned(), BTreeMap::new()));
        } else if let (Some((name, value)), Some(call)) = (line.split_once('='), calls.last_mut())
            && !OF_THE_RUN.contains(&name)
        {
            let value = if is_of_a_certificate(name) { "" } else { value };
            call.1.insert(name.to_owned(), value.to_owned());
        }
    }
    calls
}

/// Whether the variable's value is of a certificate, which differ as each program has a server of its own.
fn is_of_a_certificate(name: &str) -> bool {
    ["tls_digest_", "tls_serial_"].iter().any(|start| name.starts_with(start))
}
