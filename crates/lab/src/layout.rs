//! The addresses, devices and queues of the test bed.

use std::net::Ipv4Addr;
use std::time::Duration;

/// The ends' addresses on the wire (RFC 5737), server first.
pub(crate) const OUTER: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
/// The ends' addresses in the tunnel, server first.
pub(crate) const INNER: [&str; 2] = ["10.8.0.1", "10.8.0.2"];
/// The wire's device at either end.
pub(crate) const WIRE: &str = "wire";
/// The frames that may wait in front of a rate limit before it drops: a tenth of a second, but so many frames at least
/// and (as in front of a Linux device) at most.
pub(crate) const QUEUE: Duration = Duration::from_millis(100);
pub(crate) const QUEUE_FRAMES: [u32; 2] = [8, 1000];

/// The outer address of each client: those of RFC 2544's test network, so that no limit for one address
/// holds for all.
pub(crate) fn client_address(number: u32) -> Ipv4Addr {
    let first = u32::from(Ipv4Addr::new(198, 18, 0, 1));
    Ipv4Addr::from(first + number)
}
