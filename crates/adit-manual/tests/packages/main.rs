//! What packages hold, without a package being made.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod pages;
