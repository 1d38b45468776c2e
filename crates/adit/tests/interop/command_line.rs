//! `adit` as its users run it: errors and `adit demo`.

pub(crate) mod demo;
pub(crate) mod errors;
