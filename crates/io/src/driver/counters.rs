//! The kernel's counters of the TUN device.

use std::io;

use adit_system::{LinkInfo, Netlink};

/// Asks for the counters of a device, which needs no right. All are 0 where the device was moved to another network
/// namespace.
#[derive(Debug)]
pub(super) struct LinkCounters {
    netlink: Netlink,
    name: String,
    index: u32,
}

impl LinkCounters {
    pub(super) fn new(name: &str, index: u32) -> io::Result<Self> {
        Ok(LinkCounters { netlink: Netlink::open()?, name: name.to_owned(), index })
    }

    /// Another device may have its name by now.
    fn link(&mut self) -> Option<LinkInfo> {
        self.netlink.link(&self.name).ok().filter(|link| link.index == self.index)
    }

    /// Packets that the device's queue dropped because it was full; 0 if the kernel does not say.
    pub(super) fn tx_dropped(&mut self) -> u64 {
        self.link().map_or(0, |link| link.tx_dropped)
    }

    /// The MTU in bytes. `None`: the device is in another network namespace.
    pub(super) fn mtu(&mut self) -> Option<u32> {
        self.link().map(|link| link.mtu)
    }

    /// Bytes of packets taken from the device and given to it.
    pub(super) fn bytes(&mut self) -> (u64, u64) {
        self.link().map(|link| (link.tx_bytes, link.rx_bytes)).unwrap_or_default()
    }
}
