//! The `adit` command.
#![forbid(unsafe_code)]
fn main() {}
