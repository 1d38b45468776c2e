//! IKEv2 (RFC 7296), in pure values and functions: no I/O, no clock, no source of randomness.
//!
//! | part | holds |
//! |---|---|
//! | [`wire`] | messages and payloads: decoded into values, encoded from values |
#![forbid(unsafe_code)]

pub mod wire;
