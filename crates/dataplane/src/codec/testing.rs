//! Codecs for the tests of the data plane, which do not care which format it is.

use std::sync::Arc;

use adit_core::{Cipher, Digest, ReplayWindow};

use super::openvpn::{self, DataFraming, MacKey, StaticFraming, StaticKey};
pub(crate) use super::openvpn::{Compression, DataHeader, Framing, Key, session_id};
use super::{Demultiplexer, SessionCodec, wireguard};
pub(crate) use crate::codec::openvpn::testing::{sealer_in_epoch, worn_opener, worn_sealer};

/// The demultiplexer of an end with one peer.
pub(crate) fn client() -> Arc<dyn Demultiplexer> {
    Arc::new(openvpn::Client)
}

/// The demultiplexer of an end with many peers.
pub(crate) fn server() -> Arc<dyn Demultiplexer> {
    Arc::new(openvpn::Server)
}

/// A demultiplexer for which all is data of one session.
pub(crate) fn all_data() -> Arc<dyn Demultiplexer> {
    Arc::new(StaticKey)
}

/// A demultiplexer that goes by an index in front.
pub(crate) fn indexed() -> Arc<dyn Demultiplexer> {
    Arc::new(wireguard::Sockets)
}

/// The codec of a session with an index, whose outer headers have to do with its packets.
pub(crate) fn with_outer_headers(index: u32, mtu: u16) -> Option<SessionCodec> {
    let cipher = Cipher::ChaCha20Poly1305;
    let key = vec![1; cipher.key_len()];
    wireguard::session(index, mtu, cipher, (&key, &key), ReplayWindow::default()).ok()
}

/// A direction's key made of one byte. What is no AEAD gets HMAC-SHA256.
pub(crate) fn key(cipher: Cipher, seed: u8) -> Key {
    let digest = Digest::Sha256;
    let mac = MacKey { digest, key: vec![!seed; digest.output_len()].into(), iv_key: [seed; 16].into() };
    Key {
        mac: (!cipher.is_aead()).then_some(mac),
        ..Key::aead(vec![seed; cipher.key_len()].into(), [seed ^ 0x5a; 8])
    }
}

/// The header that names the peer.
pub(crate) fn v2(peer_id: u32, key_id: u8) -> Framing {
    framing(DataHeader::V2 { peer_id }, key_id, Compression::None)
}

pub(crate) fn framing(header: DataHeader, key_id: u8, compression: Compression) -> Framing {
    Framing::Data(DataFraming { header, key_id, compression })
}

/// That framing, with epochs.
pub(crate) fn with_epochs(framing: Framing) -> Framing {
    match framing {
        Framing::Data(framing) => Framing::Epoch(framing),
        other => other,
    }
}

pub(crate) fn static_key(began: u32) -> Framing {
    Framing::StaticKey(StaticFraming { began, compression: Compression::None })
}

/// Seals with key `seal`, opens with key `open`. `None` if the cipher does not fit the framing.
pub(crate) fn session(
    framing: Framing,
    cipher: Cipher,
    (seal, open): (u8, u8),
    replay: ReplayWindow,
) -> Option<SessionCodec> {
    let key = |seed| match framing {
        // A secret, of which the keys are made.
        Framing::Epoch(_) => Key::aead(vec![seed; 32].into(), [0; 8]),
        _ => key(cipher, seed),
    };
    openvpn::session(framing, cipher, (&key(seal), &key(open)), replay).ok()
}
