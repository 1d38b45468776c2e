//! The data plane's codecs of the sessions that protocols install: one function a protocol.

use adit_dataplane::aead::AeadError;
use adit_dataplane::codec::{SessionCodec, openvpn};
use adit_dataplane::{OuterPolicy, TrafficClass};
use adit_openvpn::codec::{Codec, Compression, DataFraming, DataHeader, DirectionKey, Framing, Payloads};
use adit_openvpn::request::Install;

/// The codec of an OpenVPN session.
///
/// # Errors
/// As [`openvpn::session`].
pub(crate) fn openvpn(install: &Install) -> Result<SessionCodec, AeadError> {
    let Codec { framing, cipher, seal, open, replay_window, payloads } = &install.codec;
    let (framing, keys) = (self::framing(*framing), (&key(seal), &key(open)));
    let (provider, payloads) = (adit_io::aead::provider, self::payloads(*payloads));
    openvpn::session_with_payloads(provider, framing, *cipher, keys, *replay_window, payloads)
}

/// The codec of an OpenVPN session whose datagrams have the DSCP of the packets inside (`passtos`).
///
/// # Errors
/// As [`openvpn::session`].
pub(crate) fn openvpn_with_dscp(install: &Install) -> Result<SessionCodec, AeadError> {
    let outer = OuterPolicy { traffic_class: TrafficClass::Dscp, nested: None };
    Ok(SessionCodec { outer, ..openvpn(install)? })
}

fn framing(framing: Framing) -> openvpn::Framing {
    match framing {
        Framing::Data(framing) => openvpn::Framing::Data(data(framing)),
        Framing::Epoch(framing) => openvpn::Framing::Epoch(data(framing)),
        Framing::StaticKey(framing) => openvpn::Framing::StaticKey(openvpn::StaticFraming {
            began: framing.began,
            compression: compression(framing.compression),
        }),
    }
}

fn data(framing: DataFraming) -> openvpn::DataFraming {
    let header = match framing.header {
        DataHeader::V1 => openvpn::DataHeader::V1,
        DataHeader::V2 { peer_id } => openvpn::DataHeader::V2 { peer_id },
    };
    let compression = compression(framing.compression);
    openvpn::DataFraming { header, key_id: framing.key_id, compression }
}

fn compression(compression: Compression) -> openvpn::Compression {
    match compression {
        Compression::None => openvpn::Compression::None,
        Compression::LzoNo => openvpn::Compression::LzoNo,
        Compression::Stub => openvpn::Compression::Stub,
        Compression::StubV2 => openvpn::Compression::StubV2,
    }
}

fn payloads(payloads: Payloads) -> openvpn::Payloads {
    let Payloads { decompress, fragment, longest } = payloads;
    openvpn::Payloads { decompress, fragment, longest }
}

fn key(key: &DirectionKey) -> openvpn::Key {
    let mac = key.mac.as_ref().map(|mac| openvpn::MacKey {
        digest: mac.digest,
        key: mac.key.clone(),
        iv_key: mac.iv_key.clone(),
    });
    openvpn::Key { key: key.key.clone(), implicit_iv: key.implicit_iv, mac }
}

#[cfg(test)]
mod tests {
    use adit_openvpn::codec::StaticFraming;

    use super::*;

    /// Two ends that both take one framing for another would understand each other, and no other program.
    #[test]
    fn each_framing_is_the_one_of_its_name() {
        for compression in [Compression::None, Compression::LzoNo, Compression::Stub, Compression::StubV2] {
            for header in [DataHeader::V1, DataHeader::V2 { peer_id: 7 }] {
                let data = DataFraming { header, key_id: 3, compression };
                let fixed = StaticFraming { began: 9, compression };
                for each in [Framing::Data(data), Framing::Epoch(data), Framing::StaticKey(fixed)] {
                    assert_eq!(format!("{:?}", framing(each)), format!("{each:?}"));
                }
            }
        }
        let each = Payloads { decompress: true, fragment: Some(7), longest: 9 };
        assert_eq!(format!("{:?}", payloads(each)), format!("{each:?}"));
    }
}
