//! Tests of the whole, and what tests share.

mod garbage;
mod limits;
mod merging;
pub(crate) mod packets;
mod roaming;
mod security;
mod static_key;
mod tunnel;
mod workers;
pub(crate) mod world;
