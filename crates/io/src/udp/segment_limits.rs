//! How long segments may be that the kernel cuts (`UDP_SEGMENT`), by destination.
//!
//! The kernel refuses a send whose segments do not fit the path's MTU, which it learns from ICMP messages for each
//! destination, and a send through a device without checksum offload. Both say something about one path and nothing
//! about the others of the same socket; and both can change, as the kernel forgets a path's MTU after ten minutes
//! (`net.ipv4.route.mtu_expires`). So a refusal holds for its destination and expires.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use adit_core::Instant;

/// How long a refusal holds. The next send to that destination tries again, which costs one system call where it is
/// refused again.
const HOLDS: Duration = Duration::from_secs(10);
/// Destinations that are remembered at once; the refusal that expires first gives way.
const MOST_DESTINATIONS: usize = 4096;

/// The limits of one socket. Destinations without a limit are not in it, so that a socket without any costs one load
/// for each send.
#[derive(Debug, Default)]
pub(super) struct SegmentLimits {
    /// The number of entries, to be read without the lock.
    count: AtomicUsize,
    limits: Mutex<HashMap<IpAddr, Limit>>,
}

#[derive(Clone, Copy, Debug)]
struct Limit {
    longest: usize,
    until: Instant,
}

impl SegmentLimits {
    /// The longest segment that the kernel may be asked to cut for this destination. `now` is called only if some
    /// destination has a limit.
    pub(super) fn longest(&self, to: IpAddr, now: impl FnOnce() -> Instant) -> usize {
        if self.count.load(Ordering::Relaxed) == 0 {
            return usize::MAX;
        }
        let mut limits = self.lock();
        match limits.get(&to) {
            None => usize::MAX,
            Some(limit) if now() < limit.until => limit.longest,
            Some(_) => {
                limits.remove(&to);
                self.count.store(limits.len(), Ordering::Relaxed);
                usize::MAX
            }
        }
    }

    /// The kernel refused to cut segments of `longest + 1` bytes for this destination.
    pub(super) fn set(&self, to: IpAddr, longest: usize, now: Instant) {
        let mut limits = self.lock();
        if limits.len() >= MOST_DESTINATIONS && !limits.contains_key(&to) {
            let first = limits.iter().min_by_key(|(_, limit)| limit.until).map(|(address, _)| *address);
            first.and_then(|address| limits.remove(&address));
        }
        let until = now + HOLDS;
        let known = limits.get(&to).map_or(usize::MAX, |limit| limit.longest);
        limits.insert(to, Limit { longest: longest.min(known), until });
        self.count.store(limits.len(), Ordering::Relaxed);
    }

    /// The destinations whose path takes segments up to some length, if that limit still holds.
    pub(super) fn narrow(&self, now: Instant) -> Vec<IpAddr> {
        if self.len() == 0 {
            return Vec::new();
        }
        let limits = self.lock();
        let narrow = limits.iter().filter(|(_, limit)| limit.longest != 0 && now < limit.until);
        narrow.map(|(address, _)| *address).collect()
    }

    /// How many destinations have a limit, among them those whose limit has expired since their last send.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The map is whole after each statement, whatever happened to a thread that held the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Limit>> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from(0x0a00_0000 + number).into()
    }

    #[test]
    fn a_limit_is_that_of_one_destination_and_expires() {
        let limits = SegmentLimits::default();
        let never = || unreachable!("no destination has a limit");
        assert_eq!(limits.longest(address(1), never), usize::MAX);
        limits.set(address(1), 1299, at(0));
        limits.set(address(1), 1399, at(1));
        assert_eq!(limits.longest(address(1), || at(10_000)), 1299, "the shorter of the two");
        assert_eq!(limits.longest(address(2), || at(0)), usize::MAX);
        limits.set(address(3), 0, at(1));
        assert_eq!(limits.narrow(at(10_000)), [address(1)], "the other is no matter of length");
        assert!(limits.narrow(at(10_001)).is_empty(), "nothing was sent since, but it has expired");
        limits.longest(address(3), || at(20_000));
        assert_eq!(limits.len(), 1);
        assert_eq!(limits.longest(address(1), || at(10_001)), usize::MAX);
        assert_eq!((limits.len(), limits.longest(address(1), never)), (0, usize::MAX));
    }

    #[test]
    fn the_number_of_destinations_is_bounded() {
        let limits = SegmentLimits::default();
        for number in 0..5000 {
            limits.set(address(number), 100, at(u64::from(number)));
        }
        assert_eq!(limits.len(), MOST_DESTINATIONS);
        assert_eq!(
            limits.longest(address(0), || at(5000)),
            usize::MAX,
            "the first that would expire is gone"
        );
        assert_eq!(limits.longest(address(4999), || at(5000)), 100);
    }
}
