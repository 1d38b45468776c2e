//! Two endpoints in memory and virtual time.

mod attacks;
mod connect;
mod orders;
mod rekeys;
mod world;

use super::shared::Event;
