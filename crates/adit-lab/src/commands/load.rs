//! The program `adit-load`, which generates load from many OpenVPN clients or attackers. The lab starts it in a namespace
//! like any peer, and reads its counters.

use std::path::Path;
use std::process::Command;

use adit_testbed::{Namespace, Process, TestbedError};

use crate::error::LabError;
use crate::subjects::Tools;

/// A running load. Killed on drop.
pub(super) struct Load {
    process: Process,
    /// The word that the lines with its counters begin with.
    first: &'static str,
}

/// An error if the program is not there.
pub(super) fn check(tools: &Tools) -> Result<(), LabError> {
    if tools.load.is_file() {
        return Ok(());
    }
    Err(LabError::Usage(format!(
        "there is no {}; build it (cargo build --release -p adit-load) or say where it is (--load)",
        tools.load.display()
    )))
}

impl Load {
    /// Starts many clients in the namespace. [`Load::counters`] are those that are connected and those that gave up.
    pub(super) fn clients(
        namespace: &Namespace,
        load: &Path,
        arguments: &[String],
    ) -> Result<Load, TestbedError> {
        Load::start(namespace, load, "clients", arguments, "connected ")
    }

    /// Starts attackers in the namespace: `kind` is a subcommand. [`Load::counters`] are the sessions, connections or
    /// packets that began, and those that came as far as they should.
    pub(super) fn attackers(
        namespace: &Namespace,
        load: &Path,
        kind: &str,
        arguments: &[String],
    ) -> Result<Load, TestbedError> {
        Load::start(namespace, load, kind, arguments, "begun ")
    }

    fn start(
        namespace: &Namespace,
        load: &Path,
        kind: &str,
        arguments: &[String],
        first: &'static str,
    ) -> Result<Load, TestbedError> {
        let mut command = Command::new(load);
        command.arg(kind).args(arguments);
        Ok(Load { process: namespace.spawn("the load generator", command)?, first })
    }

    /// Both counters, as the program last wrote them.
    pub(super) fn counters(&self) -> [u64; 2] {
        self.process.last_line(self.first).and_then(|line| counters(&line)).unwrap_or_default()
    }

    /// Ends the load. An error if it ended before by itself.
    pub(super) fn stop(mut self) -> Result<(), TestbedError> {
        if self.process.is_running() {
            return Ok(());
        }
        Err(TestbedError::Output { command: "adit-load".to_owned(), output: self.process.log_tail() })
    }
}

/// The numbers of a line such as `begun 12 done 3`.
fn counters(line: &str) -> Option<[u64; 2]> {
    let mut numbers = line.split_whitespace().skip(1).step_by(2).map(|word| word.parse().ok());
    Some([numbers.next()??, numbers.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read() {
        assert_eq!(counters("begun 12 done 3"), Some([12, 3]));
        assert_eq!(counters("connected 1000 ended 0"), Some([1000, 0]));
        assert_eq!(counters("begun 12 done"), None);
        assert_eq!(counters("begun"), None);
    }
}
