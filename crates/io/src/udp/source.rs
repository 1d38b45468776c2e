//! The address that datagrams leave from, where the protocol has chosen it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use adit_sys::LocalAddress;

/// A source address, which the system may refuse: the address is not this machine's any more, or no route leads from it.
#[derive(Debug)]
pub(crate) struct PinnedSource {
    address: LocalAddress,
    refused: AtomicBool,
}

impl PinnedSource {
    pub(crate) fn new(address: LocalAddress) -> Self {
        PinnedSource { address, refused: AtomicBool::new(false) }
    }

    /// The address, unless the system refused it.
    pub(super) fn get(&self) -> Option<LocalAddress> {
        (!self.refused.load(Ordering::Relaxed)).then_some(self.address)
    }

    /// The system chooses the address from now on.
    pub(super) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// A datagram came to the address: it is there.
    pub(crate) fn restore(&self) {
        if self.refused.load(Ordering::Relaxed) {
            self.refused.store(false, Ordering::Relaxed);
        }
    }
}

/// Whether an error may mean that nothing can be sent from the address. The kernel says EINVAL of an address that is not
/// this machine's, but also of other things (ip_route_output_key_hash_rcu in Linux's net/ipv4/route.c, ip6_datagram_send_ctl
/// in net/ipv6/datagram.c).
pub(super) fn may_be_refusal(error: &io::Error) -> bool {
    let numbers = [libc::EINVAL, libc::EADDRNOTAVAIL, libc::ENETUNREACH, libc::ENODEV];
    error.raw_os_error().is_some_and(|number| numbers.contains(&number))
}
