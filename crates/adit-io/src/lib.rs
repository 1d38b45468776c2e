//! adit's driver: TUN, UDP, TCP, netlink, the clock and the threads.
//!
//! Everything that touches the world is here, and all of adit's `unsafe` is in one file of it (`sys.rs`).
#![deny(unsafe_op_in_unsafe_fn)]
#![deny(unsafe_code)]

mod clock;
mod netlink;
mod routing;
mod sys;
#[cfg(test)]
mod testing;
mod tun;
mod udp;

pub use clock::{clock, unix_now};
pub use netlink::{KernelRoute, LinkInfo, Netlink, NextHop};
pub use routing::Routing;
pub use tun::{OffloadSwitches, Tun, TunConfig, TunError, TunOffloads};
