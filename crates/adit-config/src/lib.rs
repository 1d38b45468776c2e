//! VPN configuration dialects parsed into typed roles.
#![forbid(unsafe_code)]
