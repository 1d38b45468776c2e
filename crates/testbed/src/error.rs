use std::path::PathBuf;
use std::time::Duration;

/// The errors of building and driving a test bed.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// A program is not installed.
    #[error("the program '{0}' is not installed (looked in PATH and the sbin directories)")]
    NoProgram(String),
    /// A program could not be started.
    #[error("cannot start '{command}': {source}")]
    Start {
        /// The command line.
        command: String,
        /// Why.
        source: std::io::Error,
    },
    /// A program ended with a failure.
    #[error("'{command}' failed ({status}): {output}")]
    Failed {
        /// The command line.
        command: String,
        /// Exit code or signal.
        status: String,
        /// Its output, trimmed.
        output: String,
    },
    /// A program wrote something that is not understood.
    #[error("cannot understand what '{command}' wrote: {output}")]
    Output {
        /// The command line.
        command: String,
        /// Its output.
        output: String,
    },
    /// A program did not write an expected line in time, or ended before.
    #[error("{label}: no line with '{pattern}' within {waited:?}{ended}; its log:\n{log}")]
    NoLine {
        /// Which process.
        label: String,
        /// The text that was looked for.
        pattern: String,
        /// The time.
        waited: Duration,
        /// How the process ended, if it did; empty if it still runs.
        ended: String,
        /// The last lines of its log.
        log: String,
    },
    /// A process did not end in time.
    #[error("{label}: still running {waited:?} after the signal; its log:\n{log}")]
    StillRunning {
        /// Which process.
        label: String,
        /// The time.
        waited: Duration,
        /// The last lines of its log.
        log: String,
    },
    /// Something awaited did not happen.
    #[error("{what}: not within {waited:?}")]
    TimedOut {
        /// The event that was awaited.
        what: String,
        /// The time.
        waited: Duration,
    },
    /// A file or directory operation failed.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A network operation failed.
    #[error("{what}: {source}")]
    Network {
        /// The operation that failed.
        what: String,
        /// Why.
        source: std::io::Error,
    },
    /// A worker thread panicked.
    #[error("a worker thread ended early ({0})")]
    Worker(&'static str),
}
