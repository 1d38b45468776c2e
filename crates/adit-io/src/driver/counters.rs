//! What the kernel counts of the TUN device.

use std::io;

use crate::netlink::Netlink;

/// Asks for the counters of a device, which needs no right.
#[derive(Debug)]
pub(super) struct LinkCounters {
    netlink: Netlink,
    name: String,
}

impl LinkCounters {
    pub(super) fn new(name: &str) -> io::Result<Self> {
        Ok(LinkCounters { netlink: Netlink::open()?, name: name.to_owned() })
    }

    /// Packets that the device's queue dropped because it was full; 0 if the kernel does not say.
    pub(super) fn tx_dropped(&mut self) -> u64 {
        self.netlink.link(&self.name).map(|link| link.tx_dropped).unwrap_or(0)
    }

    /// Bytes of packets taken from the device and given to it.
    pub(super) fn bytes(&mut self) -> (u64, u64) {
        self.netlink.link(&self.name).map(|link| (link.tx_bytes, link.rx_bytes)).unwrap_or_default()
    }
}
