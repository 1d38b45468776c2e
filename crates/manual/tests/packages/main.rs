//! The content of packages, without a package being made. `scripts/test-packages` installs them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod pages;
mod staged;
