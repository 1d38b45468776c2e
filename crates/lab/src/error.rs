//! The errors of the lab.

use std::path::PathBuf;

use adit_testbed::TestbedError;

use crate::plan::PlanError;
use crate::record::LogError;

/// Why the lab cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LabError {
    /// A namespace, process or socket.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// A plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The kept records.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Another file.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// An order that cannot be followed; the text says what would be right.
    #[error("{0}")]
    Usage(String),
}
