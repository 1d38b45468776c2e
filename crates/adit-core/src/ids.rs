/// A peer of this process. For an OpenVPN server it is the peer-id on the wire (24 bits); a client's only
/// peer is [`PeerId::SERVER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

impl PeerId {
    /// The one peer that a client has.
    pub const SERVER: PeerId = PeerId(0);
}

/// How the data plane tells which session an incoming datagram belongs to.
///
/// OpenVPN: `peer << 3 | key_id`, see [`SessionId::openvpn`]. WireGuard: the receiver index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

impl SessionId {
    /// The session of `peer` with the 3-bit `key_id`.
    pub const fn openvpn(peer: PeerId, key_id: u8) -> Self {
        SessionId(((peer.0 as u64) << 3) | (key_id as u64 & 7))
    }

    /// Whose session it is, if [`SessionId::openvpn`] made it.
    pub const fn openvpn_peer(self) -> PeerId {
        PeerId((self.0 >> 3) as u32)
    }
}

/// One TCP connection of the driver. Never reused within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);
