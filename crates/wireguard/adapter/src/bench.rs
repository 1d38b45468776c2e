//! WireGuard's rows of `adit bench`.

use std::sync::Arc;

use adit_core::{Cipher, Instant, SessionId, Transport};
use adit_dataplane::OuterPolicy;
use adit_dataplane::aead::AeadError;
use adit_dataplane::codec::SessionCodec;
use adit_host::bench::{End, Input, LENGTH, Row};
use adit_wireguard::Codec;

use crate::interface::MTU;

/// The receiver index of the session at both ends.
const INDEX: u32 = 7;
/// The key for both directions. It protects nothing.
const KEY: [u8; 32] = [0x5a; 32];

/// The rows, in the order in which they are shown.
pub(crate) fn rows() -> Vec<Row> {
    let end =
        End { session: SessionId(INDEX.into()), demultiplexer: || Arc::new(adit_wireguard_codec::Sockets) };
    let row = Row {
        load: "wireguard",
        label: "UDP packets, WireGuard, ECN",
        input: Input::Packets,
        cipher: Cipher::ChaCha20Poly1305,
        bytes: LENGTH,
        transport: Transport::Udp,
        client: end,
        server: end,
        codec: session,
    };
    let plain = Row { load: "wireguard-plain", label: "UDP packets, WireGuard, no ECN", codec: plain, ..row };
    vec![row, plain]
}

/// The codec, with its work on the headers around packets (RFC 6040, loops). WireGuard has one cipher.
fn session(_: Cipher) -> Result<SessionCodec, AeadError> {
    let (seal, open) = (KEY.into(), KEY.into());
    let expires = Instant::from_nanos(u64::MAX);
    let codec = Codec { remote_index: INDEX, mtu: MTU, seal, open, expires };
    adit_wireguard_codec::session_with(adit_io::aead::provider, &codec)
}

/// The codec, with headers around packets that do not depend on the packets.
fn plain(cipher: Cipher) -> Result<SessionCodec, AeadError> {
    Ok(SessionCodec { outer: OuterPolicy::default(), ..session(cipher)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_session() {
        let loads: Vec<&str> = rows().iter().map(|row| row.load).collect();
        assert_eq!(loads, ["wireguard", "wireguard-plain"]);
        for row in rows() {
            assert!((row.codec)(row.cipher).is_ok(), "{}", row.load);
        }
    }
}
