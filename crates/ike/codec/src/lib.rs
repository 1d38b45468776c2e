//! ESP (RFC 4303) in tunnel mode, the wire form of the data of child SAs, for the data plane; and the demultiplexers of IKEv2's
//! sockets. ESP in UDP (RFC 3948) and ESP in IP are the same bytes.
//!
//! | part | bytes |
//! |---|---|
//! | SPI, which the receiver chose | 4 |
//! | sequence number, or the lower half of one of 64 bits | 4 |
//! | initialization vector | 8 with an AEAD, 16 with CBC |
//! | ciphertext: packet, padding, length of the padding (1), next header (1) | a multiple of 4, or of 16 with CBC |
//! | integrity check value | 16 with an AEAD; as the digest demands with CBC |
//!
//! The ciphers are AES-GCM (RFC 4106) and ChaCha20-Poly1305 (RFC 7634) with tags of 16 bytes, and AES-CBC (RFC 3602) with
//! HMAC-SHA1 (RFC 2404) or HMAC-SHA2 (RFC 4868).
#![forbid(unsafe_code)]

mod aead;
mod cbc;
mod demultiplexer;
mod sequence;
#[cfg(test)]
mod tests;
mod trailer;

use std::time::Duration;

use adit_core::{Install, ReplayWindow};
use adit_dataplane::aead::{AeadError, Provider, aws_lc};
use adit_dataplane::codec::{CountingSealer, Opener, Sealer, SessionCodec, UsageLimits, WindowedOpener};
use adit_dataplane::{OuterPolicy, TrafficClass};
use adit_ike::machine::Codec;

pub use self::demultiplexer::{EspSocket, IkeSocket, NatTraversalSocket};

/// How late packets may come, where the parameters say nothing else.
pub const REPLAY_WINDOW: ReplayWindow = ReplayWindow { packets: 2048, time: Duration::ZERO };
/// Bytes of a block, by which the data plane counts the use of a key.
const BLOCK: u64 = 16;

/// Bytes of an SPI.
const SPI: usize = 4;
/// Bytes of what is authenticated in front of the initialization vector: SPI and sequence number.
const HEADER: usize = SPI + 4;
/// The sequence number of the first packet (RFC 4303 section 2.2).
const FIRST: u64 = 1;

/// The codec of a child SA, with AEADs of AWS-LC.
///
/// # Errors
/// As [`session_with`].
pub fn session(install: &Install<Codec>) -> Result<SessionCodec, AeadError> {
    session_with(aws_lc, &install.codec)
}

/// The codec of a child SA with the AEADs of that provider. The session's id is the SPI of received packets. Payloads that are
/// no IP packets are sent as dummy packets, and an empty one comes out of a dummy packet (RFC 4303 section 2.6).
///
/// # Errors
/// The keys do not fit the cipher, or a cipher that is no AEAD has no digest.
pub fn session_with(provider: Provider, codec: &Codec) -> Result<SessionCodec, AeadError> {
    let (seal, open) =
        if codec.cipher.is_aead() { aead_halves(provider, codec)? } else { cbc_halves(codec)? };
    // An SPI has nothing to do with the number of a worker.
    let session = SessionCodec { outer: outer(codec), steered: false, ..SessionCodec::new(seal, open) };
    let selectors = codec.selectors.clone();
    Ok(if selectors.is_empty() { session } else { session.with_selectors(selectors) })
}

/// The header around packets: the ECN field as RFC 6040 has it, and the DSCP (RFC 4301 section 5.1.2.1).
fn outer(codec: &Codec) -> OuterPolicy {
    let traffic_class = match (codec.limits.copies_dscp, codec.limits.ignores_ecn) {
        (false, false) => TrafficClass::Ecn,
        (false, true) => TrafficClass::Plain,
        (true, false) => TrafficClass::Whole,
        (true, true) => TrafficClass::Dscp,
    };
    OuterPolicy { traffic_class, nested: None }
}

type Halves = (Box<dyn Sealer>, Box<dyn Opener>);

fn aead_halves(provider: Provider, codec: &Codec) -> Result<Halves, AeadError> {
    let sealer = aead::Sealer::new(provider, codec)?;
    let opener = aead::Opener::new(provider, codec)?;
    Ok((
        Box::new(CountingSealer::new(sealer, limits(codec))),
        Box::new(WindowedOpener::new(opener, window(codec))),
    ))
}

fn cbc_halves(codec: &Codec) -> Result<Halves, AeadError> {
    let (sealer, opener) = (cbc::Sealer::new(codec)?, cbc::Opener::new(codec)?);
    Ok((
        Box::new(CountingSealer::new(sealer, limits(codec))),
        Box::new(WindowedOpener::new(opener, window(codec))),
    ))
}

/// How late packets of a child SA may come.
fn window(codec: &Codec) -> ReplayWindow {
    let packets = codec.limits.replay_window.unwrap_or(REPLAY_WINDOW.packets).max(1);
    ReplayWindow { packets, ..REPLAY_WINDOW }
}

/// How far a child SA's key may be used. New keys are due at 7/8 of all sequence numbers, or where the parameters say so before.
fn limits(codec: &Codec) -> UsageLimits {
    let max = if codec.has_extended_sequence_numbers { u64::MAX } else { u32::MAX.into() };
    let (own, least) =
        (&codec.limits, |cipher: u64, own: Option<u64>| own.map_or(cipher, |own| own.min(cipher)));
    let blocks = |bytes: Option<u64>| bytes.map(|bytes| bytes.div_ceil(BLOCK));
    let of = UsageLimits::of(codec.cipher, FIRST, max / 8 * 7, max);
    UsageLimits {
        first: of.first,
        counter_warn: least(of.counter_warn, own.rekey_packets.map(|packets| packets.saturating_add(FIRST))),
        counter_max: least(of.counter_max, own.most_packets),
        blocks_warn: least(of.blocks_warn, blocks(own.rekey_bytes)),
        blocks_max: least(of.blocks_max, blocks(own.most_bytes)),
    }
}
