//! The programs `adit-load-ike`, `adit-load-openvpn` and `adit-load-wireguard`, which generate load from many clients or attackers. The
//! lab starts them in a namespace like any peer, and reads their counters.

use std::ops::{Add, Sub};
use std::path::Path;
use std::process::Command;

use adit_testbed::{Namespace, Process, TestbedError};
use serde::Serialize;

use crate::error::LabError;

/// A running load. Killed on drop.
pub(super) struct Load {
    process: Process,
    /// The program's name.
    name: String,
    /// The word that the lines with its counters begin with.
    first: &'static str,
}

/// The counts of the clients' numbered packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct EchoCounters {
    pub(super) sent: u64,
    /// Within two seconds.
    pub(super) answered: u64,
    /// Not answered within two seconds.
    pub(super) lost: u64,
    /// Answers beyond the first, or late.
    pub(super) repeated: u64,
}

impl EchoCounters {
    fn with(self, other: EchoCounters, work: fn(u64, u64) -> u64) -> EchoCounters {
        EchoCounters {
            sent: work(self.sent, other.sent),
            answered: work(self.answered, other.answered),
            lost: work(self.lost, other.lost),
            repeated: work(self.repeated, other.repeated),
        }
    }
}

impl Add for EchoCounters {
    type Output = EchoCounters;

    fn add(self, other: EchoCounters) -> EchoCounters {
        self.with(other, u64::saturating_add)
    }
}

impl Sub for EchoCounters {
    type Output = EchoCounters;

    /// The counts since `earlier`.
    fn sub(self, earlier: EchoCounters) -> EchoCounters {
        self.with(earlier, u64::saturating_sub)
    }
}

/// An error if the program is not there.
pub(super) fn check(program: &Path) -> Result<(), LabError> {
    if program.is_file() {
        return Ok(());
    }
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    Err(LabError::Usage(format!(
        "there is no {}; build it (cargo build --release -p {name}) or say in which folder it is (--load)",
        program.display()
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

    /// Starts attackers in the namespace: `kind` is a subcommand. [`Load::counters`] are the control channels, connections or
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
        let name = load.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Load { process: namespace.spawn("the load generator", command)?, name, first })
    }

    /// Both counters, as the program last wrote them.
    pub(super) fn counters(&self) -> [u64; 2] {
        self.process.last_line(self.first).and_then(|line| counters(&line)).unwrap_or_default()
    }

    /// The counts of the clients' numbered packets up to now, if they send any (`--echoes`).
    pub(super) fn echoes(&self) -> EchoCounters {
        self.process.last_line(self.first).and_then(|line| echoes(&line)).unwrap_or_default()
    }

    /// Ends the load. An error if it ended before by itself.
    pub(super) fn stop(mut self) -> Result<(), TestbedError> {
        if self.process.is_running() {
            return Ok(());
        }
        Err(TestbedError::Output { command: self.name.clone(), output: self.process.log_tail() })
    }
}

/// The numbers of a line such as `begun 12 done 3`.
fn counters(line: &str) -> Option<[u64; 2]> {
    let mut numbers = line.split_whitespace().skip(1).step_by(2).map(|word| word.parse().ok());
    Some([numbers.next()??, numbers.next()??])
}

/// The numbers behind those, as in `connected 3 ended 0 sent 40 answered 38 lost 1 repeated 0`.
fn echoes(line: &str) -> Option<EchoCounters> {
    let mut numbers = line.split_whitespace().skip(5).step_by(2).map(|word| word.parse().ok());
    let mut next = || numbers.next().flatten();
    Some(EchoCounters { sent: next()?, answered: next()?, lost: next()?, repeated: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_numbered_packets_is_read() {
        let line = "connected 3 ended 0 sent 40 answered 37 lost 2 repeated 1";
        let counted = EchoCounters { sent: 40, answered: 37, lost: 2, repeated: 1 };
        assert_eq!((echoes(line), counters(line)), (Some(counted), Some([3, 0])));
        assert_eq!(echoes("connected 3 ended 0"), None);
        assert_eq!(echoes("connected 3 ended 0 sent 40 answered 37 lost"), None);
        let earlier = EchoCounters { sent: 30, answered: 30, ..EchoCounters::default() };
        assert_eq!((counted - earlier).sent, 10);
        assert_eq!(counted - earlier + earlier, counted);
    }

    #[test]
    fn counters_are_read() {
        assert_eq!(counters("begun 12 done 3"), Some([12, 3]));
        assert_eq!(counters("connected 1000 ended 0"), Some([1000, 0]));
        assert_eq!(counters("begun 12 done"), None);
        assert_eq!(counters("begun"), None);
    }
}
