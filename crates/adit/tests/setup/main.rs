//! `adit init`, `adit add-client`, `adit revoke` and `adit renew` for protocols beside OpenVPN, or without it, run as a user runs them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bed;
mod ikev2;
mod wireguard;
