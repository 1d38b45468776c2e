//! Codecs from the parameters that the core still has.

use adit_core::{
    CompressionFraming, DirectionKey, Framing, Install, OpenVpnFraming, OpenVpnHeader, StaticFraming,
};

use super::{SessionCodec, openvpn, wireguard};
use crate::aead::AeadError;

/// The codec of a session whose parameters the core has.
///
/// # Errors
/// The keys do not fit the cipher, or the cipher or the header does not fit the framing.
pub fn session_codec(install: &Install) -> Result<SessionCodec, AeadError> {
    let (cipher, replay) = (install.cipher, install.replay_window);
    let framing = match install.framing {
        Framing::OpenVpn(framing) => openvpn::Framing::Data(data(framing)),
        Framing::OpenVpnEpoch(framing) => openvpn::Framing::Epoch(data(framing)),
        Framing::OpenVpnStatic(StaticFraming { began, compression }) => {
            openvpn::Framing::StaticKey(openvpn::StaticFraming { began, compression: byte(compression) })
        }
        Framing::WireGuard { remote_index, mtu } => {
            let keys = (&install.seal.key[..], &install.open.key[..]);
            return wireguard::session(remote_index, mtu, cipher, keys, replay);
        }
    };
    openvpn::session(framing, cipher, (&key(&install.seal), &key(&install.open)), replay)
}

fn data(framing: OpenVpnFraming) -> openvpn::DataFraming {
    openvpn::DataFraming {
        header: match framing.header {
            OpenVpnHeader::V1 => openvpn::DataHeader::V1,
            OpenVpnHeader::V2 { peer_id } => openvpn::DataHeader::V2 { peer_id },
        },
        key_id: framing.key_id,
        compression: byte(framing.compression),
    }
}

fn byte(compression: CompressionFraming) -> openvpn::Compression {
    match compression {
        CompressionFraming::None => openvpn::Compression::None,
        CompressionFraming::LzoNo => openvpn::Compression::LzoNo,
        CompressionFraming::Stub => openvpn::Compression::Stub,
        CompressionFraming::StubV2 => openvpn::Compression::StubV2,
    }
}

fn key(key: &DirectionKey) -> openvpn::Key {
    let mac = key.mac.as_ref().map(|mac| openvpn::MacKey {
        digest: mac.digest,
        key: mac.key.clone(),
        iv_key: mac.iv_key.clone(),
    });
    openvpn::Key { key: key.key.clone(), implicit_iv: key.implicit_iv, mac }
}
