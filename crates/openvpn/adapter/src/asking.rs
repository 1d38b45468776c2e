//! The persons and programs that can be asked for what the files do not hold.

use std::sync::Arc;

use super::management::{Management, PendingQueries};
use adit_host::terminal::Waiting;

/// Whether a person or a program can be asked for what the files do not hold.
pub(crate) enum Asking<'a> {
    /// The program at the management socket, or the person at the terminal, as long as the start waits.
    Now(Option<&'a Management>, &'a dyn Waiting),
    /// No: nothing is started.
    Never,
}

impl Asking<'_> {
    /// The program that answers questions for passwords, if there is one.
    pub(crate) fn questions(&self) -> Option<Arc<PendingQueries>> {
        match self {
            Asking::Now(management, _) => management.and_then(Management::questions),
            Asking::Never => None,
        }
    }
}
