//! WireGuard initiators and attackers by the thousand, in one process, from adit's own protocol machine ([`adit_load`] has what
//! the generators of all protocols share).
#![forbid(unsafe_code)]

mod handshakes;
mod initiators;

pub use handshakes::start as start_handshakes;
pub use initiators::{initiations, public_keys, server_key};
