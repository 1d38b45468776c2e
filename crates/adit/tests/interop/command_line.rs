//! `adit` as its users run it: what it says about errors.

pub(crate) mod errors;
