//! OpenVPN clients and attackers by the thousand, in one process, from adit's own protocol machines ([`adit_load`] has
//! the code that the generators of all protocols share).
#![forbid(unsafe_code)]

pub mod attack;
pub mod clients;
pub mod datagrams;
pub mod echoes;
pub mod wrapping;
