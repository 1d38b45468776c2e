use std::fmt;

use ipnet::IpNet;
use zeroize::Zeroizing;

use crate::{Path, PeerId, SessionId};

/// An AEAD that the data plane can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cipher {
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439).
    ChaCha20Poly1305,
}

impl Cipher {
    /// Key length in bytes.
    pub const fn key_len(self) -> usize {
        match self {
            Cipher::Aes128Gcm => 16,
            Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => 32,
        }
    }

    /// The name OpenVPN uses.
    pub const fn name(self) -> &'static str {
        match self {
            Cipher::Aes128Gcm => "AES-128-GCM",
            Cipher::Aes256Gcm => "AES-256-GCM",
            Cipher::ChaCha20Poly1305 => "CHACHA20-POLY1305",
        }
    }

    /// The cipher with that OpenVPN name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305]
            .into_iter()
            .find(|cipher| cipher.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The key of one direction of a session.
#[derive(Clone)]
pub struct DirectionKey {
    /// The cipher key, [`Cipher::key_len`] bytes.
    pub key: Zeroizing<Vec<u8>>,
    /// The constant part of the nonce. OpenVPN: the last 8 bytes of the 12-byte nonce. WireGuard: unused.
    pub implicit_iv: [u8; 8],
}

impl fmt::Debug for DirectionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirectionKey(..)")
    }
}

/// How a sealed packet looks on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// OpenVPN DATA_V1 or DATA_V2 with an AEAD.
    OpenVpn(OpenVpnFraming),
    /// WireGuard transport data, message type 4.
    WireGuard {
        /// The receiver index that the peer chose; written into what we send.
        remote_index: u32,
    },
}

/// The variable parts of OpenVPN's data framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenVpnFraming {
    /// What to put in front of what we send. Both versions are accepted from the peer.
    pub header: OpenVpnHeader,
    /// Key id 0..=7.
    pub key_id: u8,
    /// The compression byte that both sides agreed to carry.
    pub compression: CompressionFraming,
}

/// OpenVPN's data opcode as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenVpnHeader {
    /// `DATA_V1`: opcode and key id.
    V1,
    /// `DATA_V2`: opcode, key id and the 24-bit peer-id.
    V2 {
        /// The peer-id to send.
        peer_id: u32,
    },
}

/// The byte that OpenVPN's compression framings add to each payload. adit never compresses; compressed
/// payloads from the peer are dropped and counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompressionFraming {
    /// No compression framing.
    #[default]
    None,
    /// `comp-lzo no`: byte 0xFA in front of the payload.
    LzoNo,
    /// `compress` / `compress stub`: byte 0xFB in front, the payload's first byte moved to its tail.
    Stub,
    /// `compress stub-v2`: nothing, except that payloads starting with 0x50 are escaped as `50 00`.
    StubV2,
}

/// A new session for the data plane: it opens from now on; it seals once activated.
#[derive(Clone, Debug)]
pub struct Install {
    /// Whose session.
    pub peer: PeerId,
    /// The id by which incoming datagrams name it.
    pub session: SessionId,
    /// The wire form.
    pub framing: Framing,
    /// The AEAD.
    pub cipher: Cipher,
    /// Key for what we send.
    pub seal: DirectionKey,
    /// Key for what we receive.
    pub open: DirectionKey,
    /// Replay window in packets (OpenVPN's `replay-window`, default 64). At least 1.
    pub replay_window: u32,
}

/// What the data plane must know of a peer before its first session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// The peer.
    pub peer: PeerId,
    /// Where to send.
    pub path: Path,
    /// Inner addresses behind the peer: packets to them go to this peer, and packets from this peer must
    /// come from them. A client gives its server `0.0.0.0/0` and `::/0`.
    pub routes: Vec<IpNet>,
    /// Largest TCP MSS for IPv4 that may pass, from `mssfix`; 20 less holds for IPv6. `None`: leave alone.
    pub max_mss: Option<u16>,
}
