//! The simulated network in which adit's protocols are tested.
#![forbid(unsafe_code)]
