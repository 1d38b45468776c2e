//! The key method 2 message of each side.

use adit_core::{Cipher, Path};
use zeroize::Zeroizing;

use crate::codec::Compression;
use crate::key_method::KeyMethod2;
use crate::keys::KeySource;
use crate::negotiate::{iv_proto, known_proto, point_to_point_proto};
use crate::occ::{OccParams, OccPointToPoint, options_string};
use crate::params::{ClientParams, DataParams, PushedCompression, ServerParams};
use crate::peer_info::PeerVariables;
use crate::wire::TlsRole;
use crate::wrap::WrapConfig;

/// A client's key method 2; its random numbers are filled in for each exchange.
pub(crate) fn client_hello(params: &ClientParams, path: Path) -> KeyMethod2 {
    if !params.pull {
        let (wrap, info) = (&params.control.wrap, point_to_point_info(&params.data));
        return message(TlsRole::Client, &params.data, wrap, Some((&params.local).into()), path, info);
    }
    let mut info = PeerVariables::new();
    info.push("IV_VER", concat!("adit_", env!("CARGO_PKG_VERSION")));
    info.push("IV_PLAT", "linux");
    info.push("IV_TCPNL", "1");
    info.push("IV_MTU", &params.max_pushed_mtu.to_string());
    info.push("IV_NCP", "2");
    info.push("IV_CIPHERS", &cipher_list(&params.data.ciphers));
    let proto = iv_proto::DATA_V2
        | iv_proto::REQUEST_PUSH
        | iv_proto::TLS_KEY_EXPORT
        | iv_proto::AUTH_PENDING_KW
        | iv_proto::CC_EXIT
        | iv_proto::AUTH_FAIL_TEMP
        | iv_proto::DYNAMIC_TLS_CRYPT
        | iv_proto::DATA_EPOCH
        | iv_proto::DNS_OPTION
        | iv_proto::PUSH_UPDATE;
    info.push("IV_PROTO", &known_proto(&params.data, proto).to_string());
    for ability in compression_abilities(&params.data) {
        info.push(ability, "1");
    }
    for (name, value) in &params.peer_info {
        info.push(name, value);
    }
    message(TlsRole::Client, &params.data, &params.control.wrap, None, path, info.to_string())
}

/// The compression that a client announces (OpenVPN comp.c, `comp_generate_peer_info_string`): algorithms where its
/// file lets the server use them, and otherwise framings alone.
fn compression_abilities(data: &DataParams) -> &'static [&'static str] {
    let is_asked =
        data.compression == Compression::None && data.pushed_compression == PushedCompression::Decompressed;
    match data.decompress || is_asked {
        true => &["IV_LZ4", "IV_LZ4v2", "IV_LZO", "IV_COMP_STUB", "IV_COMP_STUBv2"],
        false => &["IV_LZO_STUB", "IV_COMP_STUB", "IV_COMP_STUBv2"],
    }
}

/// A server's key method 2. To a client that `migrates` off compression it names compression, as the client does:
/// otherwise the client would warn of a difference (OpenVPN ssl_util.c, `options_string_compat_lzo`).
pub(crate) fn server_hello(params: &ServerParams, path: Path, migrates: bool) -> KeyMethod2 {
    let info = params.point_to_point.as_ref().map(|_| point_to_point_info(&params.data)).unwrap_or_default();
    let point_to_point = params.point_to_point.as_ref().map(|point| OccPointToPoint::from(&point.local));
    let wrap = &params.control.wrap;
    if migrates {
        let data = DataParams { compression: Compression::LzoNo, ..params.data.clone() };
        return message(TlsRole::Server, &data, wrap, point_to_point, path, info);
    }
    message(TlsRole::Server, &params.data, wrap, point_to_point, path, info)
}

/// The peer info of an end of a point-to-point tunnel: no more than the agreement needs.
fn point_to_point_info(data: &DataParams) -> String {
    let mut info = PeerVariables::new();
    info.push("IV_CIPHERS", &cipher_list(&data.ciphers));
    info.push("IV_PROTO", &point_to_point_proto(data).to_string());
    info.to_string()
}

fn message(
    role: TlsRole,
    data: &DataParams,
    wrap: &WrapConfig,
    point_to_point: Option<OccPointToPoint>,
    path: Path,
    peer_info: String,
) -> KeyMethod2 {
    let cipher = data.fallback.or(data.cipher);
    let options = options_string(&OccParams {
        role,
        transport: path.transport(),
        tun_mtu: data.tun_mtu,
        told_mtu: data.told_mtu,
        cipher,
        allowed: cipher.is_some_and(|cipher| data.ciphers.contains(&cipher)),
        digest: data.digest,
        compression: data.compression,
        fragment: data.fragment_over(path.transport()).is_some(),
        tls_auth: matches!(wrap, WrapConfig::TlsAuth { .. }),
        key_direction: wrap.key_direction(),
        point_to_point,
        secret: false,
    });
    KeyMethod2 {
        source: KeySource { pre_master: None, random1: [0; 32], random2: [0; 32] },
        options,
        username: String::new(),
        password: Zeroizing::default(),
        peer_info,
    }
}

/// The peer info without the abilities that need exported keys.
pub(crate) fn without_exports(peer_info: &str) -> String {
    let mut kept = PeerVariables::new();
    for (name, value) in PeerVariables::parse(peer_info).iter() {
        match (name, value.parse::<u32>()) {
            ("IV_PROTO", Ok(proto)) => kept.push(name, &(proto & !iv_proto::EXPORTS).to_string()),
            _ => kept.push(name, value),
        }
    }
    kept.to_string()
}

fn cipher_list(ciphers: &[Cipher]) -> String {
    ciphers.iter().map(|cipher| cipher.name()).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use adit_core::Digest;

    use super::*;
    use crate::static_key::StaticKey;
    use crate::wrap::KeyDirection;

    #[test]
    fn abilities_that_need_exported_keys_are_left_out() {
        let params = DataParams::default();
        let info = point_to_point_info(&params);
        let kept = without_exports(&info);
        let proto = |info: &str| crate::negotiate::PeerAbilities::parse(info).proto;
        assert_eq!(proto(&kept), proto(&info) & !iv_proto::EXPORTS);
        assert_ne!(proto(&kept), proto(&info));
        assert_eq!(kept.lines().next(), info.lines().next(), "the ciphers stay");
    }

    #[test]
    fn algorithms_are_named_where_the_file_lets_them_be_used() {
        let with = |compression, decompress, pushed_compression| {
            let data = DataParams { compression, decompress, pushed_compression, ..DataParams::default() };
            compression_abilities(&data).contains(&"IV_LZ4")
        };
        let (alone, decompressed) = (PushedCompression::FramingAlone, PushedCompression::Decompressed);
        assert!(!with(Compression::None, false, alone));
        assert!(!with(Compression::LzoNo, false, alone));
        assert!(!with(Compression::Stub, false, decompressed), "`compress`");
        assert!(with(Compression::None, false, decompressed), "`allow-compression asym`");
        assert!(with(Compression::LzoNo, true, decompressed), "`comp-lzo`");
    }

    // As OpenVPN 2.6.14 logs it (`Local Options String`) for `tls-auth FILE 1`.
    #[test]
    fn the_options_tell_of_tls_auth_and_its_direction() {
        let key = StaticKey::from_bytes(&[7; 256]);
        let wrap = WrapConfig::tls_auth(&key, Digest::Sha1, KeyDirection::Inverse);
        let path = Path::Udp { socket: 0, remote: ([192, 0, 2, 1], 1194).into() };
        let hello = message(TlsRole::Client, &DataParams::default(), &wrap, None, path, String::new());
        assert_eq!(
            hello.options,
            "V4,dev-type tun,link-mtu 1541,tun-mtu 1500,proto UDPv4,keydir 1,auth SHA1,keysize 128,\
             tls-auth,key-method 2,tls-client"
        );
    }
}
