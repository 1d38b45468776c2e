use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use crate::{DeviceId, Path, PeerId, Selector, SessionId};

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
    /// AES-128-CBC, for old peers. It does not authenticate: it needs an HMAC beside it, like the next two.
    Aes128Cbc,
    /// AES-192-CBC.
    Aes192Cbc,
    /// AES-256-CBC.
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

    /// Whether it authenticates the bytes that it encrypts. The others need an HMAC.
    pub const fn is_aead(self) -> bool {
        match self {
            Cipher::Aes128Gcm | Cipher::Aes192Gcm | Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => true,
            Cipher::Aes128Cbc | Cipher::Aes192Cbc | Cipher::Aes256Cbc => false,
        }
    }

    /// Its name, as OpenSSL writes it in capitals.
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

    /// The cipher with that name ([`Cipher::name`]), in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cipher| cipher.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The digest of an HMAC: beside a cipher that is no AEAD, or on a control channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Digest {
    /// SHA-1. Its HMAC is still sound.
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

    /// Its name, as OpenSSL writes it in capitals.
    pub const fn name(self) -> &'static str {
        match self {
            Digest::Sha1 => "SHA1",
            Digest::Sha224 => "SHA224",
            Digest::Sha256 => "SHA256",
            Digest::Sha384 => "SHA384",
            Digest::Sha512 => "SHA512",
        }
    }

    /// The digest with that name ([`Digest::name`]), in any case. OpenSSL's other names of `SHA256` are taken as well:
    /// `SHA2-256`, `SHA-256`, `RSA-SHA256`.
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

/// The change that the data plane makes when a session opens its first packet, before any answer to that packet is sealed. Then
/// it tells the protocol ([`crate::Notice::FirstOpened`]), whose orders would come too late for the answer.
///
/// If a session of the same series that was installed later than this one seals already, nothing changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFirstOpened {
    /// Nothing: the session seals once it is activated ([`crate::DataEvent::Activate`]).
    #[default]
    Nothing,
    /// The session seals from then on, as by [`crate::DataEvent::Activate`].
    Activate,
    /// No session of its series seals packets from then on, as by [`crate::DataEvent::Deactivate`].
    Deactivate,
}

/// A new session for the data plane: it opens from now on. It seals once it is activated, by an order or by the first packet
/// that it opens.
///
/// `C` is [`crate::Protocol::Codec`].
#[derive(Clone, Debug)]
pub struct Install<C> {
    /// The peer of the session.
    pub peer: PeerId,
    /// The id by which incoming datagrams name it.
    pub session: SessionId,
    /// The series of sessions that it belongs to. Of the sessions of a series one seals, the one that was activated last; a rekey
    /// installs the next session of the series, and the one before opens on until it is retired. Of several series whose sessions
    /// may carry a packet by their selectors, that with the lowest number carries it.
    pub series: u32,
    /// The change that its first opened packet makes.
    pub on_first_opened: OnFirstOpened,
    /// Its keys and its wire format.
    pub codec: C,
}

/// How late a packet may come and still be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayWindow {
    /// How many packets after it may be taken before it; at least 1.
    pub packets: u32,
    /// How long after packets that were sent after it it may come, roughly. Zero: however long.
    pub time: Duration,
}

impl Default for ReplayWindow {
    /// 64 packets and 15 seconds.
    fn default() -> Self {
        ReplayWindow { packets: 64, time: Duration::from_secs(15) }
    }
}

impl<C> Install<C> {
    /// A session of the first series, which seals once it is activated by [`crate::DataEvent::Activate`].
    pub fn new(peer: PeerId, session: SessionId, codec: C) -> Self {
        Install { peer, session, series: 0, on_first_opened: OnFirstOpened::Nothing, codec }
    }
}

/// A peer, as access rules name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its name: the one that it proved, or the one that stands for it. Empty: it has none.
    pub name: String,
    /// The groups that it is in by its certificate.
    pub groups: Vec<String>,
}

/// The data plane's settings of a peer, needed before its first session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// The peer.
    pub peer: PeerId,
    /// Where to send. `None`: not known yet; nothing is sent until [`crate::PeerOrder::Move`], or an authentic
    /// datagram if the peer roams, says where it is.
    pub path: Option<Path>,
    /// Inner addresses behind the peer: packets to them go to this peer, and packets from this peer must
    /// come from them. A client gives its server `0.0.0.0/0` and `::/0`. [`crate::PeerOrder::AddRoute`] and
    /// [`crate::PeerOrder::RemoveRoute`] change one of them.
    pub routes: Vec<IpNet>,
    /// The packets that are the peer's, of those between us and its routes; empty: all. A prefix that a peer without selectors has
    /// is its own; peers with selectors may share prefixes, and a packet goes to the first that selects it. A packet that no session
    /// of a peer with selectors may carry waits for one, where packets wait (`staging`).
    pub selectors: Arc<[Selector]>,
    /// The device that packets for the peer come from, and to which its packets go. A route leads to the peer from there alone:
    /// peers of other devices may have the same prefix.
    pub device: DeviceId,
    /// Largest TCP MSS for IPv4 that may pass, from `mssfix`; 20 less holds for IPv6. `None`: leave alone.
    pub max_mss: Option<u16>,
    /// Whether the data plane may, by itself, send to where the peer's newest datagram came from: over UDP, or by a TCP connection
    /// where the sockets' demultiplexer lets peers come by any, and if no other peer is there. [`crate::Notice::Moved`] tells the
    /// protocol, whose [`crate::PeerOrder::Move`] confirms the move or takes it back.
    pub roams: bool,
    /// Whether packets wait in a short queue while there is no session to seal them with, or no path.
    /// [`crate::Notice::Wanted`] tells the protocol. Without it they are dropped.
    pub staging: bool,
    /// Whether datagrams may name the peer by its UDP path alone. Of such peers one is at a path, and no other moves there by
    /// itself. The others may be anywhere, also several at one path; they never take a path from another peer.
    pub by_path: bool,
    /// The peer, as access rules name it.
    pub identity: Identity,
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
}
