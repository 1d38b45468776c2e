//! The rows of `adit bench`: sessions of protocols that the command measures in memory.

use std::fmt;
use std::sync::Arc;

use adit_core::{Cipher, Digest, PeerId, SessionId, Transport};
use adit_dataplane::aead::AeadError;
use adit_dataplane::codec::{Demultiplexer, SessionCodec};

/// The peer by which the server knows the client. The client knows the server as [`PeerId::SERVER`].
pub const CLIENT: PeerId = PeerId(1);
/// The digest of ciphers that are no AEAD.
pub const DIGEST: Digest = Digest::Sha256;

/// The length of packets in bytes, inner headers included, where a row has no reason for another length.
pub const LENGTH: usize = 1400;
/// The lengths of the packets of [`CIPHERS`], in bytes.
pub const LENGTHS: [usize; 5] = [64, 256, 1024, LENGTH, 8192];
/// The ciphers that are measured at every length; the others at one length.
pub const CIPHERS: [Cipher; 3] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

/// The data that the client seals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// IPv4/UDP packets, one a call, as from a device without offloads; nothing is merged.
    Packets,
    /// A TCP flow: super-packets that are cut and given checksums while they are sealed, and that are checked and merged after they
    /// were opened.
    Flow,
    /// Zero bytes, which are no IP packet: messages of a protocol, sealed by an order each, and handed to the protocol in a copy.
    Messages,
}

/// A row: a client that seals and a server that opens.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The load in a word.
    pub load: &'static str,
    /// The load in words.
    pub label: &'static str,
    /// The data that the client seals.
    pub input: Input,
    /// The cipher; one that is no AEAD goes with [`DIGEST`].
    pub cipher: Cipher,
    /// The length of each payload that is sealed.
    pub bytes: usize,
    /// The transport of the datagrams.
    pub transport: Transport,
    /// The end that seals. Its peer is [`PeerId::SERVER`].
    pub client: End,
    /// The end that opens. Its peer is [`CLIENT`].
    pub server: End,
    /// The codec of the session at both ends, with any key: it protects nothing.
    pub codec: fn(Cipher) -> Result<SessionCodec, AeadError>,
}

/// An end of a row's session.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The session.
    pub session: SessionId,
    /// The demultiplexer of the end's socket.
    pub demultiplexer: fn() -> Arc<dyn Demultiplexer>,
}

/// The driver sends sealed datagrams after as many bytes, or packets, whichever comes first.
const BATCH_BYTES: usize = 48 * 1024;
const BATCH_PACKETS: usize = 64;
/// As many full segments as one super-packet of less than 64 KiB has and one GSO batch takes.
const FLOW_SEGMENTS: usize = 44;

impl Row {
    /// Datagrams a batch: as many as the driver puts into one system call.
    pub fn batch(&self) -> usize {
        match self.input {
            Input::Flow => FLOW_SEGMENTS,
            Input::Packets | Input::Messages => (BATCH_BYTES / self.bytes).clamp(1, BATCH_PACKETS),
        }
    }

    /// The name of the row: load, cipher and length.
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.load, self.cipher_name(), self.bytes)
    }

    /// The name of the cipher, with the digest's if it needs one.
    pub fn cipher_name(&self) -> String {
        if self.cipher.is_aead() { self.cipher.to_string() } else { format!("{}+{DIGEST}", self.cipher) }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes, {}", self.label, self.bytes, self.cipher_name())
    }
}
