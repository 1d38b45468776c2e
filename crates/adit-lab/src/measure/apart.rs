//! What is measured without a tunnel between two ends.

use std::time::Duration;

use super::note;
use crate::error::LabError;
use crate::link::Link;
use crate::record::Outcome;
use crate::subjects::{Subject, Tools};

/// Runs a program's own benchmark, as it would run by hand.
pub(super) fn in_memory(subject: &dyn Subject, tools: &Tools) -> Result<Outcome, LabError> {
    let mut outcome = Outcome::default();
    for (name, value) in subject.in_memory(tools)? {
        note(&mut outcome, &name, value);
    }
    Ok(outcome)
}

pub(super) fn clients(
    _link: &Link,
    _subject: &dyn Subject,
    _tools: &Tools,
    _count: u32,
    _time: Duration,
) -> Result<Outcome, LabError> {
    Ok(Outcome::default())
}
