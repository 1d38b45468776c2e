//! Violations of a model, whichever protocol it is of.

use std::time::Duration;

use thiserror::Error;

/// Longer than any packet is in transit on a clean net.
pub(crate) const MAX_TRANSIT: Duration = Duration::from_secs(1);

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct Violation(String);

impl Violation {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Violation(text.into())
    }
}

/// Fails with the text, which names the violated condition, unless that holds.
pub(crate) fn ensure(holds: bool, text: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation(text())) }
}
