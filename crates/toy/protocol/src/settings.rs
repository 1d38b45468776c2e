use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use adit_core::{DeviceId, IpNet, Selector, UnixTime};
use zeroize::Zeroizing;

/// The settings by which an endpoint is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Our inner addresses.
    pub addresses: Vec<IpNet>,
    /// MTU of the tunnel in bytes.
    pub mtu: u16,
    /// The wall clock when the endpoint is made. It must be later at each start, or peers refuse our initiations.
    pub started: UnixTime,
    /// The peers, 256 at most; the index is the peer's [`adit_core::PeerId`].
    pub peers: Vec<PeerSettings>,
}

/// The settings that both ends agree on.
#[derive(Clone)]
pub struct PeerSettings {
    /// The number that names the pair of ends on the wire, before there is a session. Different for each
    /// peer.
    pub identity: u32,
    /// The pre-shared key.
    pub key: Zeroizing<[u8; 32]>,
    /// Where to reach it. `None`: nothing is known until it sends an authentic datagram.
    pub remotes: Option<Remotes>,
    /// Inner prefixes behind it.
    pub routes: Vec<IpNet>,
    /// The device that its packets come from and go to.
    pub device: DeviceId,
    /// The selectors of each series of sessions, in the same order at both ends. A series without any may carry everything between
    /// us. At most 256.
    pub series: Vec<Arc<[Selector]>>,
    /// The end that initiated a session initiates the next one so long after it. The other end does so half-way between this
    /// and the session's end.
    pub rekey_after: Duration,
    /// Either end does so after so many datagrams in one session.
    pub rekey_after_datagrams: u64,
    /// A session ends so long after its handshake. Longer than `rekey_after`.
    pub expires_after: Duration,
    /// An end sends a keepalive so long after the last one.
    pub keepalive: Duration,
    /// The counter of the first datagram of each session: 1, or more to see it exceed 32 bits soon. Less than 2^32.
    pub first_counter: u32,
}

/// Where a peer is reached: indices into the driver's remotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remotes {
    /// Its socket for control messages alone; `None`: they go to the other one, with a marker.
    pub control: Option<usize>,
    /// Its socket for data.
    pub data: usize,
}

impl PeerSettings {
    /// A peer that is not known to be anywhere, with the times of WireGuard (whitepaper §6.1).
    pub fn new(identity: u32, key: [u8; 32], routes: Vec<IpNet>) -> Self {
        PeerSettings {
            identity,
            key: Zeroizing::new(key),
            remotes: None,
            routes,
            device: DeviceId::MAIN,
            series: vec![Arc::default()],
            rekey_after: Duration::from_secs(120),
            rekey_after_datagrams: 1 << 32,
            expires_after: Duration::from_secs(180),
            keepalive: Duration::from_secs(10),
            first_counter: 1,
        }
    }
}

impl fmt::Debug for PeerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerSettings").field("identity", &self.identity).finish_non_exhaustive()
    }
}
