use std::fmt;
use std::time::Duration;

use ipnet::IpNet;
use zeroize::Zeroizing;

use crate::{Path, PeerId, SessionId};

/// A cipher that the data plane can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cipher {
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-192-GCM.
    Aes192Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439).
    ChaCha20Poly1305,
    /// AES-128-CBC, for old OpenVPN peers. It needs a [`MacKey`] beside its key, like the next two.
    Aes128Cbc,
    /// AES-192-CBC, for old OpenVPN peers.
    Aes192Cbc,
    /// AES-256-CBC, for old OpenVPN peers.
    Aes256Cbc,
}

impl Cipher {
    /// All ciphers.
    pub const ALL: [Cipher; 7] = [
        Cipher::Aes128Gcm,
        Cipher::Aes192Gcm,
        Cipher::Aes256Gcm,
        Cipher::ChaCha20Poly1305,
        Cipher::Aes128Cbc,
        Cipher::Aes192Cbc,
        Cipher::Aes256Cbc,
    ];

    /// Key length in bytes.
    pub const fn key_len(self) -> usize {
        match self {
            Cipher::Aes128Gcm | Cipher::Aes128Cbc => 16,
            Cipher::Aes192Gcm | Cipher::Aes192Cbc => 24,
            Cipher::Aes256Gcm | Cipher::Aes256Cbc | Cipher::ChaCha20Poly1305 => 32,
        }
    }

    /// Whether it authenticates what it encrypts. The others need a [`MacKey`].
    pub const fn is_aead(self) -> bool {
        match self {
            Cipher::Aes128Gcm | Cipher::Aes192Gcm | Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => true,
            Cipher::Aes128Cbc | Cipher::Aes192Cbc | Cipher::Aes256Cbc => false,
        }
    }

    /// The name OpenVPN uses.
    pub const fn name(self) -> &'static str {
        match self {
            Cipher::Aes128Gcm => "AES-128-GCM",
            Cipher::Aes192Gcm => "AES-192-GCM",
            Cipher::Aes256Gcm => "AES-256-GCM",
            Cipher::ChaCha20Poly1305 => "CHACHA20-POLY1305",
            Cipher::Aes128Cbc => "AES-128-CBC",
            Cipher::Aes192Cbc => "AES-192-CBC",
            Cipher::Aes256Cbc => "AES-256-CBC",
        }
    }

    /// The cipher with that OpenVPN name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cipher| cipher.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The digest of an HMAC: for a cipher that is no AEAD, and for OpenVPN's tls-auth (the `auth` option).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Digest {
    /// SHA-1, OpenVPN's default. Its HMAC is still sound.
    #[default]
    Sha1,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Digest {
    /// All digests.
    pub const ALL: [Digest; 5] =
        [Digest::Sha1, Digest::Sha224, Digest::Sha256, Digest::Sha384, Digest::Sha512];

    /// Length in bytes of the digest, which is also the length of the HMAC key.
    pub const fn output_len(self) -> usize {
        match self {
            Digest::Sha1 => 20,
            Digest::Sha224 => 28,
            Digest::Sha256 => 32,
            Digest::Sha384 => 48,
            Digest::Sha512 => 64,
        }
    }

    /// The name OpenVPN uses.
    pub const fn name(self) -> &'static str {
        match self {
            Digest::Sha1 => "SHA1",
            Digest::Sha224 => "SHA224",
            Digest::Sha256 => "SHA256",
            Digest::Sha384 => "SHA384",
            Digest::Sha512 => "SHA512",
        }
    }

    /// The digest with that OpenVPN name, in any case: `SHA256`, or as OpenSSL also writes it, `SHA2-256`,
    /// `SHA-256` or `RSA-SHA256`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_uppercase();
        let name = name.strip_prefix("RSA-").unwrap_or(&name);
        let size = name.strip_prefix("SHA2-").or(name.strip_prefix("SHA-")).or(name.strip_prefix("SHA"))?;
        Self::ALL.into_iter().find(|digest| digest.name().strip_prefix("SHA") == Some(size))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The key of one direction of a session.
#[derive(Clone)]
pub struct DirectionKey {
    /// The cipher key, [`Cipher::key_len`] bytes; or an epoch's secret, see [`Framing::OpenVpnEpoch`].
    pub key: Zeroizing<Vec<u8>>,
    /// The constant part of an AEAD's nonce. OpenVPN: the last 8 bytes of the 12-byte nonce. WireGuard and
    /// ciphers that are no AEAD: unused.
    pub implicit_iv: [u8; 8],
    /// For a cipher that is no AEAD.
    pub mac: Option<MacKey>,
}

impl DirectionKey {
    /// The key of an AEAD.
    pub fn aead(key: Zeroizing<Vec<u8>>, implicit_iv: [u8; 8]) -> Self {
        DirectionKey { key, implicit_iv, mac: None }
    }
}

impl fmt::Debug for DirectionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirectionKey(..)")
    }
}

/// What a cipher that is no AEAD needs beside its key.
#[derive(Clone)]
pub struct MacKey {
    /// The digest of the HMAC.
    pub digest: Digest,
    /// The HMAC key, [`Digest::output_len`] bytes.
    pub key: Zeroizing<Vec<u8>>,
    /// Who seals makes each packet's IV with it: AES-128 of the packet's number. That is unpredictable to
    /// all who do not have this key, and never the same twice as long as no other session of the same
    /// cipher key has it. Who opens uses it in [`Framing::OpenVpnStatic`] alone, where it is the key that our
    /// own IVs are made with: what comes with such an IV is what we sent, thrown back at us.
    pub iv_key: Zeroizing<[u8; 16]>,
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MacKey({}, ..)", self.digest)
    }
}

/// How a sealed packet looks on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// OpenVPN DATA_V1 or DATA_V2. The cipher says which form follows the header.
    OpenVpn(OpenVpnFraming),
    /// OpenVPN `DATA_V2` in the epoch format, with an AEAD. The key of a direction is then the secret of its first
    /// epoch, 32 bytes for all ciphers.
    OpenVpnEpoch(OpenVpnFraming),
    /// OpenVPN with a static key (`secret`): no header, and packet ids in their long form. The cipher is no AEAD.
    /// A session that takes the place of another of the same id goes on with that one's replay window.
    OpenVpnStatic(StaticFraming),
    /// WireGuard transport data, message type 4.
    WireGuard {
        /// The receiver index that the peer chose; written into what we send.
        remote_index: u32,
        /// The tunnel's MTU in bytes, beyond which nothing is padded.
        mtu: u16,
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

/// The variable parts of OpenVPN's data framing with a static key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticFraming {
    /// When the session began, in seconds since 1970-01-01T00:00:00Z: a part of each packet id. Later for each
    /// session under the same keys.
    pub began: u32,
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
///
/// `C` is [`crate::Protocol::Codec`].
#[derive(Clone, Debug)]
pub struct Install<C = Framing> {
    /// Whose session.
    pub peer: PeerId,
    /// The id by which incoming datagrams name it.
    pub session: SessionId,
    /// The wire form.
    pub framing: C,
    /// The cipher.
    pub cipher: Cipher,
    /// Key for what we send.
    pub seal: DirectionKey,
    /// Key for what we receive.
    pub open: DirectionKey,
    /// How late packets may come.
    pub replay_window: ReplayWindow,
}

/// How late a packet may come and still be taken (OpenVPN's `replay-window`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayWindow {
    /// So many packets after it were taken before it, at most; at least 1.
    pub packets: u32,
    /// So long after packets that were sent after it, roughly. Zero: however long.
    pub time: Duration,
}

impl Default for ReplayWindow {
    /// OpenVPN's: 64 packets and 15 seconds.
    fn default() -> Self {
        ReplayWindow { packets: 64, time: Duration::from_secs(15) }
    }
}

/// What the data plane must know of a peer before its first session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// The peer.
    pub peer: PeerId,
    /// Where to send. `None`: not known yet; nothing is sent until [`crate::DataEvent::MovePeer`], or an authentic
    /// datagram if the peer roams, says where it is.
    pub path: Option<Path>,
    /// Inner addresses behind the peer: packets to them go to this peer, and packets from this peer must
    /// come from them. A client gives its server `0.0.0.0/0` and `::/0`. [`crate::DataEvent::AddRoute`] and
    /// [`crate::DataEvent::RemoveRoute`] change one of them.
    pub routes: Vec<IpNet>,
    /// Largest TCP MSS for IPv4 that may pass, from `mssfix`; 20 less holds for IPv6. `None`: leave alone.
    pub max_mss: Option<u16>,
    /// Whether the data plane may, by itself, send to the address that the peer's newest datagram came from: over
    /// UDP, and if no other peer is there. [`crate::Notice::Moved`] tells the protocol, whose
    /// [`crate::DataEvent::MovePeer`] confirms the move or takes it back.
    pub roams: bool,
    /// Whether packets wait in a short queue while there is no session to seal them with, or no path.
    /// [`crate::Notice::Wanted`] tells the protocol. Without it they are dropped.
    pub staging: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_in_any_case() {
        for cipher in Cipher::ALL {
            assert_eq!(Cipher::from_name(&cipher.name().to_ascii_lowercase()), Some(cipher));
        }
        for digest in Digest::ALL {
            assert_eq!(Digest::from_name(&digest.name().to_ascii_lowercase()), Some(digest));
        }
        assert_eq!((Cipher::from_name("BF-CBC"), Digest::from_name("MD5")), (None, None));
        for name in ["SHA2-512", "sha-512", "RSA-SHA512"] {
            assert_eq!(Digest::from_name(name), Some(Digest::Sha512));
        }
        assert_eq!((Digest::from_name("SHA512-256"), Digest::from_name("SHA")), (None, None));
    }

    #[test]
    fn keys_are_not_shown() {
        let mac = MacKey { digest: Digest::Sha256, key: vec![7; 32].into(), iv_key: Zeroizing::new([7; 16]) };
        assert_eq!(format!("{mac:?}"), "MacKey(SHA256, ..)");
        let key = DirectionKey { mac: Some(mac), ..DirectionKey::aead(vec![7; 16].into(), [7; 8]) };
        assert_eq!(format!("{key:?}"), "DirectionKey(..)");
    }
}
