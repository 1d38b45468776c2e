//! Tests of the whole, and the code that tests share.

mod access;
mod batches;
mod devices;
mod expected;
mod first_opened;
pub(crate) mod format;
mod garbage;
mod limits;
mod merging;
mod outer;
mod peers;
mod roaming;
mod selectors;
mod tunnel;
mod workers;
pub(crate) mod world;

pub(crate) use crate::testing::packets;
