//! The fault in what a directive names.

/// A directive at fault, and why.
pub(crate) type Fault = (&'static str, String);
