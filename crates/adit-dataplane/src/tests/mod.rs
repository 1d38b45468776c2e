//! Tests of the whole, and what tests share.

pub(crate) mod packets;
mod tunnel;
mod world;
