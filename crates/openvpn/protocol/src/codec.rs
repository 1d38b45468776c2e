//! The data plane's parameters of a session: its keys, its wire format, and the numbering of sessions.

use std::fmt;

use adit_core::{Cipher, Digest, PeerId, ReplayWindow, SessionId};
use zeroize::Zeroizing;

/// The longest payload that is always taken, in bytes: OpenVPN's buffers have at least this size (init.c,
/// `frame_finalize_options`).
pub(crate) const LONGEST_PAYLOAD: u16 = 1600;

/// The session of a peer with the 3-bit key id. Data datagrams name both.
pub const fn session_id(peer: PeerId, key_id: u8) -> SessionId {
    SessionId(((peer.0 as u64) << 3) | (key_id as u64 & 7))
}

/// The key id of a session that [`session_id`] numbered.
pub const fn key_id_of(session: SessionId) -> u8 {
    (session.0 & 7) as u8
}

/// A session's parameters: [`adit_core::Protocol::Codec`] of all machines.
#[derive(Clone, Debug)]
pub struct Codec {
    /// The wire format.
    pub framing: Framing,
    /// The cipher.
    pub cipher: Cipher,
    /// Key for sent datagrams.
    pub seal: DirectionKey,
    /// Key for received datagrams.
    pub open: DirectionKey,
    /// How late packets may come (`replay-window`).
    pub replay_window: ReplayWindow,
    /// The form of payloads besides, for old peers.
    pub payloads: Payloads,
}

/// The parts of the wire format besides the compression framing, for old peers. The default: nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payloads {
    /// Payloads that the peer compressed are decompressed: LZO with [`Compression::LzoNo`], LZ4 with
    /// [`Compression::Stub`] and [`Compression::StubV2`]. If not, they are dropped.
    pub decompress: bool,
    /// Both ends put the header of a part in front of each payload (`fragment`), and cut payloads that are longer than
    /// this, in bytes after the header.
    pub fragment: Option<u16>,
    /// The longest payload in bytes that is cut, put together or decompressed.
    pub longest: u16,
}

impl Default for Payloads {
    fn default() -> Self {
        Payloads { decompress: false, fragment: None, longest: LONGEST_PAYLOAD }
    }
}

/// How a sealed packet looks on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `DATA_V1` or `DATA_V2`. The cipher says which form follows the header.
    Data(DataFraming),
    /// `DATA_V2` in the epoch format, with an AEAD. The key of a direction is then the secret of its first epoch,
    /// 32 bytes for all ciphers.
    Epoch(DataFraming),
    /// With a static key (`secret`): no header, and packet ids in their long form. The cipher is no AEAD. A session
    /// that takes the place of another of the same id goes on with the replay window of the earlier session.
    StaticKey(StaticFraming),
}

/// The variable parts of the framing of `DATA_V1` and `DATA_V2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFraming {
    /// The header in front of the datagrams that we send. Both versions are accepted from the peer.
    pub header: DataHeader,
    /// Key id 0..=7.
    pub key_id: u8,
    /// The compression framing that both sides agreed on.
    pub compression: Compression,
}

/// The variable parts of the framing with a static key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticFraming {
    /// When the session began, in seconds since 1970-01-01T00:00:00Z: a part of each packet id. Later for each
    /// session under the same keys.
    pub began: u32,
    /// The compression framing that both sides agreed on.
    pub compression: Compression,
}

/// The data opcode as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataHeader {
    /// `DATA_V1`: opcode and key id.
    V1,
    /// `DATA_V2`: opcode, key id and the 24-bit peer-id.
    V2 {
        /// The peer-id to send.
        peer_id: u32,
    },
}

/// The compression framing: the bytes that `comp-lzo` and `compress` add to each payload. adit never compresses;
/// compressed payloads from the peer are dropped and counted, unless [`Payloads::decompress`] says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
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

/// The key of one direction of a session.
#[derive(Clone)]
pub struct DirectionKey {
    /// The cipher key, [`Cipher::key_len`] bytes; or an epoch's secret, see [`Framing::Epoch`].
    pub key: Zeroizing<Vec<u8>>,
    /// The last 8 bytes of an AEAD's 12-byte nonce. Unused with a cipher that is no AEAD.
    pub implicit_iv: [u8; 8],
    /// The key of the HMAC, for a cipher that is no AEAD.
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

/// The key of the HMAC that a cipher that is no AEAD needs beside its own.
#[derive(Clone)]
pub struct MacKey {
    /// The digest of the HMAC.
    pub digest: Digest,
    /// The HMAC key, [`Digest::output_len`] bytes.
    pub key: Zeroizing<Vec<u8>>,
    /// The sealing end makes each packet's IV with it: AES-128 of the packet's number. Without this key it cannot be
    /// predicted, and it never repeats as long as no other session of the same cipher key has it. The opening end uses
    /// it in [`Framing::StaticKey`] alone, where it is the key that our own IVs are made with: a datagram with such an
    /// IV is one that we sent, reflected to us.
    pub iv_key: Zeroizing<[u8; 16]>,
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MacKey({}, ..)", self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_has_peer_and_key_id() {
        let session = session_id(PeerId(0x00ff_fffe), 5);
        assert_eq!((session, key_id_of(session)), (SessionId(0x07ff_fff5), 5));
    }

    #[test]
    fn keys_are_not_shown() {
        let mac = MacKey { digest: Digest::Sha256, key: vec![7; 32].into(), iv_key: [7; 16].into() };
        assert_eq!(format!("{mac:?}"), "MacKey(SHA256, ..)");
        let key = DirectionKey { mac: Some(mac), ..DirectionKey::aead(vec![7; 16].into(), [7; 8]) };
        let compression = Compression::None;
        let codec = Codec {
            framing: Framing::StaticKey(StaticFraming { began: 1, compression }),
            cipher: Cipher::Aes128Cbc,
            seal: key.clone(),
            open: key,
            replay_window: ReplayWindow::default(),
            payloads: Payloads::default(),
        };
        let shown = format!("{codec:?}");
        assert!(shown.contains("seal: DirectionKey(..), open: DirectionKey(..)") && !shown.contains("7, 7"));
    }
}
