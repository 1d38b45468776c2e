//! The OpenVPN protocol as pure state machines.
#![forbid(unsafe_code)]

pub mod reliable;
pub mod static_key;
pub mod wire;
pub mod wrap;
