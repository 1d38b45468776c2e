//! Payloads as old peers send them: compressed, or in parts (OpenVPN comp.c, fragment.c).
//!
//! A session's codec is wrapped in another one, as with selectors: the codec inside seals and opens the bytes that the
//! wrapper makes of payloads and takes apart again. A session without these options is not wrapped, and pays nothing.
//!
//! Inside the encryption there is, if the session has parts, the header of a part (4 bytes). Behind it there is the
//! payload, or a part of it, in the framing of compression: a payload is compressed before it is cut, and put together
//! before it is decompressed. Payloads that we send are never compressed.

mod decompress;
mod fragment;
mod open;
mod reassemble;
mod seal;
#[cfg(test)]
mod tests;

use adit_dataplane::codec::SessionCodec;
use adit_openvpn::codec::{Compression, DataFraming, Framing, Payloads, StaticFraming};

/// Whether payloads lie in their datagrams as any codec has them.
pub(super) fn is_plain(payloads: Payloads, framing: Framing) -> bool {
    let is_framed = split(framing).1 != Compression::None;
    !(payloads.decompress && is_framed) && payloads.fragment.is_none()
}

/// A framing without the bytes of compression, those bytes, and the number before that of the first payload that is
/// cut. A receiver that keeps parts from session to session takes the parts of the next session for other payloads than
/// it has parts of, as each session begins elsewhere.
pub(super) fn split(framing: Framing) -> (Framing, Compression, u8) {
    let compression = Compression::None;
    match framing {
        Framing::Data(data) => {
            let plain = DataFraming { compression, ..data };
            (Framing::Data(plain), data.compression, data.key_id << 5)
        }
        Framing::Epoch(data) => {
            let plain = DataFraming { compression, ..data };
            (Framing::Epoch(plain), data.compression, data.key_id << 5)
        }
        Framing::StaticKey(data) => {
            let plain = StaticFraming { compression, ..data };
            (Framing::StaticKey(plain), data.compression, data.began as u8)
        }
    }
}

/// The codec, which knows no framing of compression, for such payloads.
pub(super) fn wrap(
    codec: SessionCodec,
    compression: Compression,
    payloads: Payloads,
    sequence: u8,
) -> SessionCodec {
    SessionCodec {
        seal: Box::new(seal::Sealer::new(codec.seal, compression, payloads, sequence)),
        open: Box::new(open::Opener::new(codec.open, compression, payloads)),
        ..codec
    }
}
