//! OpenVPN's data channel on the wire, for the data plane: `DATA_V1` and `DATA_V2` with an AEAD or with a block cipher and an
//! HMAC, the epoch format, and the format of a static key. A session's parameters are the protocol's own
//! ([`adit_openvpn::codec`]).
#![forbid(unsafe_code)]

mod aead;
mod cbc;
mod compression;
mod demultiplexer;
mod epoch;
mod payload;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use adit_core::{Cipher, Install, ReplayWindow};
use adit_dataplane::aead::{AeadError, Provider, aws_lc};
use adit_dataplane::codec::{CountingSealer, Opener, Sealer, SessionCodec, UsageLimits, WindowedOpener};
use adit_openvpn::codec::{Codec, DataHeader, DirectionKey, Framing};
use adit_openvpn::data_message::PING;

pub use self::demultiplexer::{Client, Server, StaticKey};

fn is_keepalive(payload: &[u8]) -> bool {
    payload.is_empty() || payload == PING
}

/// The codec of a session, with AEADs of AWS-LC.
///
/// # Errors
/// As [`session_with`].
pub fn session(install: &Install<Codec>) -> Result<SessionCodec, AeadError> {
    session_with(aws_lc, &install.codec)
}

/// The codec of a session with the AEADs of that provider, but in the epoch format.
///
/// # Errors
/// The keys do not fit the cipher, or the cipher or the header does not fit the framing.
pub fn session_with(provider: Provider, codec: &Codec) -> Result<SessionCodec, AeadError> {
    let Codec { framing, payloads, .. } = codec;
    if payload::is_plain(*payloads, *framing) {
        return plain(provider, *framing, codec);
    }
    let (framing, compression, sequence) = payload::split(*framing);
    let inner = plain(provider, framing, codec)?;
    Ok(payload::wrap(inner, compression, *payloads, sequence))
}

/// The codec of a session in that framing, whose payloads lie whole in their datagrams.
fn plain(provider: Provider, framing: Framing, codec: &Codec) -> Result<SessionCodec, AeadError> {
    let Codec { cipher, seal, open, replay_window, .. } = codec;
    let steered = match framing {
        Framing::Data(data) | Framing::Epoch(data) => data.header != DataHeader::V1,
        Framing::StaticKey(_) => false,
    };
    if let Framing::Epoch(data) = framing {
        let opener = epoch::Opener::new(data, *cipher, open, *replay_window)?;
        let mut sealer = epoch::Sealer::new(data, *cipher, seal)?;
        sealer.follow(&opener);
        let codec = SessionCodec::new(Box::new(sealer), Box::new(opener));
        return Ok(SessionCodec { is_keepalive, steered, ..codec });
    }
    let codec = SessionCodec::new(
        sealer(provider, framing, *cipher, seal)?,
        opener(provider, framing, *cipher, open, *replay_window)?,
    );
    Ok(SessionCodec { is_keepalive, steered, ..codec })
}

/// The sealing half alone. In the epoch format it does not follow any opening half.
fn sealer(
    provider: Provider,
    framing: Framing,
    cipher: Cipher,
    key: &DirectionKey,
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
    key: &DirectionKey,
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
