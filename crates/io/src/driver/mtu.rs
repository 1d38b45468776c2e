//! The MTU of the TUN device, which may change while the driver runs.

use adit_system::RouteWatch;

use super::counters::LinkCounters;
use super::workers::Workers;
use crate::poller::{Interest, Poller, Token};

/// The MTU that is assumed where the device is in another network namespace, as the kernel does not report it there:
/// the size that each link must carry (RFC 8200 §5).
const UNKNOWN: u16 = 1280;

/// Tells the data threads. Where the system does not allow to listen, sessions go by the MTU that their protocol knows.
pub(super) struct MtuWatch {
    watch: RouteWatch,
    /// The MTU that the data threads were sent last; within: `None` if the kernel does not report it.
    told: Option<Option<u16>>,
}

impl MtuWatch {
    /// Listens for changes of the device with that number.
    pub(super) fn new(device: u32, poller: &Poller) -> Option<Self> {
        let watch = RouteWatch::of_device(device).ok()?;
        poller.add(&watch, Token::DeviceChange, Interest::Read).ok()?;
        Some(MtuWatch { watch, told: None })
    }

    /// Something about the device has changed, perhaps its MTU. Gives that if it did; within: `None` if the kernel does not
    /// report it.
    pub(super) fn follow(&mut self, link: &mut LinkCounters, workers: &Workers) -> Option<Option<u16>> {
        self.watch.drain();
        let mtu = link.mtu().map(|mtu| u16::try_from(mtu).unwrap_or(u16::MAX));
        let changed = self.told.replace(mtu) != Some(mtu);
        if changed {
            workers.set_mtu(mtu.unwrap_or(UNKNOWN));
        }
        changed.then_some(mtu)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use adit_system::Netlink;
    use adit_system::testing::in_fresh_network;
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::time::Timespec;

    use super::*;

    fn is_told(watch: &RouteWatch) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let told =
            poll(&mut [PollFd::from_borrowed_fd(watch.as_fd(), PollFlags::IN)], Some(&now)).unwrap() > 0;
        watch.drain();
        told
    }

    /// The kernel tells before the change is answered.
    #[test]
    fn changes_of_the_device_are_told_and_those_of_others_are_not() {
        in_fresh_network(|| {
            let run = |words: &str| {
                let status = std::process::Command::new("ip").args(words.split(' ')).status().unwrap();
                assert!(status.success(), "ip {words}");
            };
            run("link add own type veth peer name other");
            let mut netlink = Netlink::open().unwrap();
            let [own, other] = ["own", "other"].map(|name| netlink.link(name).unwrap().index);
            let watch = RouteWatch::of_device(own).unwrap();
            netlink.set_mtu(other, 1400).unwrap();
            assert!(!is_told(&watch), "another device");
            netlink.set_mtu(own, 1412).unwrap();
            assert!(is_told(&watch));
            let mut link = LinkCounters::new("own", own).unwrap();
            assert_eq!(link.mtu(), Some(1412));
            // As when it goes to another namespace (RTM_DELLINK).
            run("link delete own");
            assert!(is_told(&watch), "it is gone");
            assert_eq!(link.mtu(), None);
        });
    }
}
