//! Remarks on a configuration that can be used.

use std::fmt::Display;

use adit_core::Severity;

use super::log::Logger;

/// A receiver of remarks on a configuration that can be used.
pub trait Notes {
    /// A doubtful point.
    fn warn(&mut self, text: &dyn Display);

    /// A point that is not known before the start, such as a password that is asked for then.
    fn left_open(&mut self, text: &dyn Display);
}

impl Notes for Logger {
    fn warn(&mut self, text: &dyn Display) {
        self.log(Severity::Warning, text);
    }

    /// Ignores the point: the start itself settles it.
    fn left_open(&mut self, _text: &dyn Display) {}
}

/// The remarks of `adit check` on a configuration that can be used.
#[derive(Debug, Default)]
pub struct Remarks {
    /// Doubtful points, in the words of the log.
    pub warnings: Vec<String>,
    /// Points that are not known before the start.
    pub left_open: Vec<String>,
}

impl Notes for Remarks {
    fn warn(&mut self, text: &dyn Display) {
        self.warnings.push(text.to_string());
    }

    fn left_open(&mut self, text: &dyn Display) {
        self.left_open.push(text.to_string());
    }
}
