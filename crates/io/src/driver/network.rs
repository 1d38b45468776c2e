//! When to look again at the ways that lead around the tunnel.

use std::io;
use std::time::Duration;

use adit_core::Instant;
use adit_system::RouteWatch;

use crate::poller::{Interest, Poller, Token};

/// Where routes change all the time, they are looked at so often.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause for a tunnel that takes all traffic, which is held up while a route is missing.
const SHORT_PAUSE: Duration = Duration::from_millis(100);

/// Looking takes at most one part in so many of the time, however many routes there are.
const LOOKS_SHARE: u32 = 10;

/// Watches for changed routes, while there are some that must follow the network. Machines with a thousand devices
/// report thousands of changes a second: a thread that need not know does not listen, and one that must is woken once
/// for all of them.
pub(super) struct NetworkWatch {
    watch: Option<RouteWatch>,
    changed: bool,
    /// When they were looked at last, and how long that took.
    last: Option<(Instant, Duration)>,
}

impl NetworkWatch {
    pub(super) fn new() -> Self {
        NetworkWatch { watch: None, changed: false, last: None }
    }

    /// Listens from now on by `watch`, or no more. Where the system does not allow it, routes stay as they are.
    pub(super) fn set(
        &mut self,
        wanted: bool,
        poller: &Poller,
        watch: impl FnOnce() -> io::Result<RouteWatch>,
    ) {
        match (&self.watch, wanted) {
            (None, true) => {
                self.watch = watch().ok();
                self.listen(poller);
                // Changes between finding the ways and listening were not reported.
                self.changed = self.watch.is_some();
            }
            (Some(watch), false) => {
                poller.remove(watch);
                self.watch = None;
                self.changed = false;
            }
            _ => {}
        }
    }

    fn listen(&mut self, poller: &Poller) {
        if self.watch.as_ref().is_some_and(|watch| poller.add(watch, Token::Routes, Interest::Read).is_err())
        {
            self.watch = None;
        }
    }

    /// Notes that routes have changed. Further changes do not wake the thread until the routes were read.
    pub(super) fn woke(&mut self, poller: &Poller) {
        if let Some(watch) = &self.watch {
            poller.remove(watch);
            self.changed = true;
        }
    }

    /// When to look at the routes, if there was word of a change. `urgent`: traffic is held up meanwhile.
    pub(super) fn due(&self, urgent: bool) -> Option<Instant> {
        let due = match self.last {
            None => Instant::ORIGIN,
            Some((last, took)) => {
                let pause = if urgent { SHORT_PAUSE } else { PAUSE };
                last + pause.max(took * LOOKS_SHARE)
            }
        };
        self.changed.then_some(due)
    }

    /// The look that was due is over.
    pub(super) fn looked(&mut self, began: Instant, now: Instant) {
        self.last = Some((now, now - began));
    }

    /// Whether to look at the routes now.
    pub(super) fn is_due(&mut self, now: Instant, urgent: bool, poller: &Poller) -> bool {
        if self.due(urgent).is_none_or(|due| now < due) {
            return false;
        }
        self.changed = false;
        self.last = Some((now, Duration::ZERO));
        if let Some(watch) = &self.watch {
            poller.remove(watch);
            watch.drain();
            self.listen(poller);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use adit_system::Netlink;
    use adit_system::testing::in_fresh_network;

    use super::*;
    use crate::clock;

    /// How often a thread wakes for these changes of routes, if it looks for a little while.
    fn wakes(watch: &mut NetworkWatch, poller: &mut Poller) -> usize {
        let mut ready = Vec::new();
        let mut count = 0;
        for _ in 0..50 {
            poller.wait(Some(Duration::from_millis(1)), &mut ready).expect("waits");
            if !ready.is_empty() {
                count += 1;
                watch.woke(poller);
            }
        }
        count
    }

    fn change(netlink: &mut Netlink, addresses: std::ops::Range<u8>) {
        let lo = netlink.link("lo").expect("is there").index;
        for last in addresses {
            let address = format!("192.0.2.{last}/32").parse().expect("an address");
            netlink.add_address(lo, address, None).expect("is added");
        }
    }

    #[test]
    fn many_changes_wake_once() {
        in_fresh_network(|| {
            let (mut netlink, mut poller, now) = (Netlink::open().unwrap(), Poller::new().unwrap(), clock());
            let mut watch = NetworkWatch::new();
            watch.set(true, &poller, RouteWatch::new);
            assert!(watch.is_due(now, false, &poller), "something may have changed before");
            assert!(!watch.is_due(now + PAUSE, false, &poller));
            change(&mut netlink, 1..20);
            assert_eq!(wakes(&mut watch, &mut poller), 1);
            change(&mut netlink, 20..40);
            assert_eq!(wakes(&mut watch, &mut poller), 0, "it knows");
            assert!(!watch.is_due(now + PAUSE / 2, false, &poller), "too early");
            assert!(watch.is_due(now + PAUSE, false, &poller));
            assert_eq!(wakes(&mut watch, &mut poller), 0, "all was taken");
            assert!(!watch.is_due(now + PAUSE * 2, false, &poller));
            change(&mut netlink, 40..41);
            assert_eq!(wakes(&mut watch, &mut poller), 1, "it listens again");
            let long = watch.due(true);
            watch.looked(now + PAUSE, now + PAUSE * 2);
            assert!(watch.due(true) > long, "a look that takes long is rare");
            watch.looked(now + PAUSE, now + PAUSE);
            assert!(watch.is_due(now + PAUSE * 2, false, &poller));
        });
    }

    #[test]
    fn who_need_not_know_does_not_listen() {
        in_fresh_network(|| {
            let (mut netlink, mut poller, now) = (Netlink::open().unwrap(), Poller::new().unwrap(), clock());
            let mut watch = NetworkWatch::new();
            watch.set(false, &poller, RouteWatch::new);
            change(&mut netlink, 1..3);
            assert_eq!((wakes(&mut watch, &mut poller), watch.is_due(now, false, &poller)), (0, false));
            watch.set(true, &poller, RouteWatch::new);
            change(&mut netlink, 3..6);
            watch.set(false, &poller, RouteWatch::new);
            assert_eq!((wakes(&mut watch, &mut poller), watch.is_due(now, false, &poller)), (0, false));
        });
    }
}
