//! Transports, wrappings, ciphers and TLS, in all combinations; point-to-point and static keys.

pub(crate) mod ciphers;
pub(crate) mod extended_master_secret;
pub(crate) mod pairwise;
pub(crate) mod point_to_point;
pub(crate) mod rows;
pub(crate) mod static_keys;
