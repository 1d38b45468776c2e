//! Codecs from the parameters that the core still has.

use adit_core::{
    CompressionFraming, DirectionKey, Framing, Install, OpenVpnFraming, OpenVpnHeader, StaticFraming,
};

use super::{SessionCodec, openvpn, wireguard};
use crate::aead::AeadError;

/// The codec that an order asks for.
pub(crate) fn session(install: &Install) -> Result<SessionCodec, AeadError> {
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

/// Whether what the peer sends bears the number that steering goes by ([`SessionCodec::steered`]).
pub fn is_steered(framing: &Framing) -> bool {
    match framing {
        Framing::OpenVpn(data) | Framing::OpenVpnEpoch(data) => data.header != OpenVpnHeader::V1,
        Framing::OpenVpnStatic(_) => false,
        Framing::WireGuard { .. } => true,
    }
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
