//! Configuration files of providers, appliances and older programs.

pub(crate) mod variants;
pub(crate) mod wild;
