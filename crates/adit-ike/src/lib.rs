//! IKEv2 (RFC 7296), in pure values and functions: no I/O, no clock, no source of randomness.
//!
//! | part | holds |
//! |---|---|
//! | [`crypto`] | key exchanges, key derivation, the protection of messages, proofs of identity |
//! | [`fragment`] | messages in several datagrams (RFC 7383) |
//! | [`suite`] | algorithms: proposals from keywords, and the choice of one |
//! | [`wire`] | messages and payloads: decoded into values, encoded from values |
#![forbid(unsafe_code)]

pub mod crypto;
pub mod fragment;
pub mod suite;
pub mod wire;
