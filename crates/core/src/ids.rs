/// A peer of an endpoint. Each protocol numbers its peers, below 2^24; the only peer of a client is [`PeerId::SERVER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

impl PeerId {
    /// The one peer that a client has.
    pub const SERVER: PeerId = PeerId(0);
}

/// How the data plane tells which session an incoming datagram belongs to. Each protocol numbers its sessions, below
/// 2^48, such that the demultiplexer of its sockets can tell the number from a datagram, as one that names an index does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// One TCP connection of the driver. Never reused within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// A device of a tunnel. Most tunnels have one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u16);

impl DeviceId {
    /// The device that each tunnel has.
    pub const MAIN: DeviceId = DeviceId(0);

    /// Whether it is the device that each tunnel has.
    pub const fn is_main(self) -> bool {
        self.0 == 0
    }
}
