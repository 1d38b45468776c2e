//! Tests of the whole, and what tests share.

mod first_opened;
mod garbage;
mod limits;
mod merging;
mod outer;
pub(crate) mod packets;
mod peers;
mod roaming;
mod tunnel;
mod workers;
pub(crate) mod world;
