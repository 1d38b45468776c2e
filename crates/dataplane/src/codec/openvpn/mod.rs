//! OpenVPN's data channel: `DATA_V1` and `DATA_V2` with an AEAD or with a block cipher and an HMAC, the epoch format,
//! and the format of a static key.

mod aead;
mod cbc;
mod compression;
mod demultiplexer;
mod epoch;
mod payload;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::fmt;

use adit_core::{Cipher, Digest, ReplayWindow};
use zeroize::Zeroizing;

pub use self::demultiplexer::{Client, Server, StaticKey, session_id};
pub use self::payload::Payloads;
use super::{CountingSealer, Opener, Sealer, SessionCodec, UsageLimits, WindowedOpener};
use crate::aead::{AeadError, Provider, aws_lc};

/// How a sealed packet looks on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `DATA_V1` or `DATA_V2`. The cipher says which form follows the header.
    Data(DataFraming),
    /// `DATA_V2` in the epoch format, with an AEAD. The key of a direction is then the secret of its first epoch,
    /// 32 bytes for all ciphers.
    Epoch(DataFraming),
    /// With a static key (`secret`): no header, and packet ids in their long form. The cipher is no AEAD. A session
    /// that takes the place of another of the same id goes on with that one's replay window.
    StaticKey(StaticFraming),
}

/// The variable parts of the framing of `DATA_V1` and `DATA_V2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFraming {
    /// What to put in front of what we send. Both versions are accepted from the peer.
    pub header: DataHeader,
    /// Key id 0..=7.
    pub key_id: u8,
    /// The compression byte that both sides agreed to carry.
    pub compression: Compression,
}

/// The variable parts of the framing with a static key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticFraming {
    /// When the session began, in seconds since 1970-01-01T00:00:00Z: a part of each packet id. Later for each
    /// session under the same keys.
    pub began: u32,
    /// The compression byte that both sides agreed to carry.
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

/// The byte that OpenVPN's compression framings add to each payload. adit never compresses; compressed
/// payloads from the peer are dropped and counted, unless [`Payloads::decompress`] says otherwise.
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

/// The key of one direction.
#[derive(Clone)]
pub struct Key {
    /// The cipher key, [`Cipher::key_len`] bytes; or an epoch's secret, see [`Framing::Epoch`].
    pub key: Zeroizing<Vec<u8>>,
    /// The last 8 bytes of an AEAD's 12-byte nonce. Unused with a cipher that is no AEAD.
    pub implicit_iv: [u8; 8],
    /// For a cipher that is no AEAD.
    pub mac: Option<MacKey>,
}

impl Key {
    /// The key of an AEAD.
    pub fn aead(key: Zeroizing<Vec<u8>>, implicit_iv: [u8; 8]) -> Self {
        Key { key, implicit_iv, mac: None }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// What a cipher that is no AEAD needs beside its key.
#[derive(Clone)]
pub struct MacKey {
    /// The digest of the HMAC.
    pub digest: Digest,
    /// The HMAC key, [`Digest::output_len`] bytes.
    pub key: Zeroizing<Vec<u8>>,
    /// The sealing half makes each packet's IV with it: AES-128 of the packet's number. Without this key it cannot be
    /// predicted, and it never repeats as long as no other session of the same cipher key has it. The opening half
    /// uses it in [`Framing::StaticKey`] alone, where it is the key that our own IVs are made with: a datagram with
    /// such an IV is one that we sent, reflected to us.
    pub iv_key: Zeroizing<[u8; 16]>,
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MacKey({}, ..)", self.digest)
    }
}

/// OpenVPN's ping (ping.c, `ping_string`).
const PING: [u8; 16] =
    [0x2a, 0x18, 0x7b, 0xf3, 0x64, 0x1e, 0xb4, 0xcb, 0x07, 0xed, 0x2d, 0x0a, 0x98, 0x1f, 0xc7, 0x48];

fn is_keepalive(payload: &[u8]) -> bool {
    payload.is_empty() || payload == PING
}

/// The codec of a session: seals with the one key, opens with the other.
///
/// # Errors
/// The keys do not fit the cipher, or the cipher or the header does not fit the framing.
pub fn session(
    framing: Framing,
    cipher: Cipher,
    (seal, open): (&Key, &Key),
    replay: ReplayWindow,
) -> Result<SessionCodec, AeadError> {
    session_with(aws_lc, framing, cipher, (seal, open), replay)
}

/// The same with the AEADs of that provider, but in the epoch format.
///
/// # Errors
/// As [`session`].
pub fn session_with(
    provider: Provider,
    framing: Framing,
    cipher: Cipher,
    (seal, open): (&Key, &Key),
    replay: ReplayWindow,
) -> Result<SessionCodec, AeadError> {
    let steered = match framing {
        Framing::Data(data) | Framing::Epoch(data) => data.header != DataHeader::V1,
        Framing::StaticKey(_) => false,
    };
    if let Framing::Epoch(data) = framing {
        let opener = epoch::Opener::new(data, cipher, open, replay)?;
        let mut sealer = epoch::Sealer::new(data, cipher, seal)?;
        sealer.follow(&opener);
        let codec = SessionCodec::new(Box::new(sealer), Box::new(opener));
        return Ok(SessionCodec { is_keepalive, steered, ..codec });
    }
    let codec = SessionCodec::new(
        sealer(provider, framing, cipher, seal)?,
        opener(provider, framing, cipher, open, replay)?,
    );
    Ok(SessionCodec { is_keepalive, steered, ..codec })
}

/// The same for a peer with such payloads.
///
/// # Errors
/// As [`session`].
pub fn session_with_payloads(
    provider: Provider,
    framing: Framing,
    cipher: Cipher,
    keys: (&Key, &Key),
    replay: ReplayWindow,
    payloads: Payloads,
) -> Result<SessionCodec, AeadError> {
    if payloads.is_plain(framing) {
        return session_with(provider, framing, cipher, keys, replay);
    }
    let (plain, compression, sequence) = payload::split(framing);
    let codec = session_with(provider, plain, cipher, keys, replay)?;
    Ok(payload::wrap(codec, compression, payloads, sequence))
}

/// The sealing half alone. In the epoch format it does not follow any opening half.
fn sealer(
    provider: Provider,
    framing: Framing,
    cipher: Cipher,
    key: &Key,
) -> Result<Box<dyn Sealer>, AeadError> {
    let limits = UsageLimits::of(cipher, 1, aead::COUNTER_WARN, aead::COUNTER_MAX);
    Ok(match framing {
        Framing::Data(data) if cipher.is_aead() => {
            let cipher = provider(cipher, &key.key)?;
            Box::new(CountingSealer::new(aead::Sealer::new(data, cipher, key.implicit_iv), limits))
        }
        Framing::Data(data) => Box::new(CountingSealer::new(cbc::Sealer::new(data, cipher, key)?, limits)),
        Framing::StaticKey(data) => {
            Box::new(CountingSealer::new(cbc::Sealer::new(data, cipher, key)?, limits))
        }
        Framing::Epoch(data) => Box::new(epoch::Sealer::new(data, cipher, key)?),
    })
}

/// The opening half alone.
fn opener(
    provider: Provider,
    framing: Framing,
    cipher: Cipher,
    key: &Key,
    replay: ReplayWindow,
) -> Result<Box<dyn Opener>, AeadError> {
    Ok(match framing {
        Framing::Data(data) if cipher.is_aead() => {
            let cipher = provider(cipher, &key.key)?;
            Box::new(WindowedOpener::new(aead::Opener::new(data, cipher, key.implicit_iv), replay))
        }
        Framing::Data(data) => Box::new(WindowedOpener::new(cbc::Opener::new(data, cipher, key)?, replay)),
        Framing::StaticKey(data) => {
            let opener = cbc::StaticOpener(cbc::Opener::new(data, cipher, key)?);
            Box::new(WindowedOpener::new(opener, replay))
        }
        Framing::Epoch(data) => Box::new(epoch::Opener::new(data, cipher, key, replay)?),
    })
}
