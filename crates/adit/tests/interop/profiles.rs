//! Configuration files of providers, appliances and older programs.

mod old_peers;
pub(crate) mod variants;
pub(crate) mod wild;
