//! The program from outside: subjects of one's own, and errors.
//!
//! Needs root, `ip` and `iperf3`. Without them the tests say that they were skipped; with `CI=true` they fail
//! instead.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bench;
mod clients;
mod criteria;
mod demo;
mod errors;
mod external;
mod ipsec;
mod load;
mod slow;
mod smoke;
mod wireguard;
