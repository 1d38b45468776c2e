//! The OpenVPN protocol as pure state machines.
#![forbid(unsafe_code)]

pub mod control_message;
pub mod data_message;
pub mod key_method;
pub mod keys;
pub mod occ;
pub mod peer_info;
pub mod reliable;
pub mod static_key;
pub mod wire;
pub mod wrap;

pub use wire::Role;
