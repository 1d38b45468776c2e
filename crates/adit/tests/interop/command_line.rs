//! `adit` as its users run it: errors.

pub(crate) mod errors;
