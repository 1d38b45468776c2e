//! Control datagrams in each wrapping: what is forged is refused, what is sealed opens again.
#![no_main]

use std::sync::LazyLock;

use adit_core::{Instant, UnixTime};
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wire::{ControlBody, Header, Sid, TlsRole};
use adit_openvpn::wrap::{HmacDigest, KeyDirection, WrapConfig, WrapReplay};
use libfuzzer_sys::fuzz_target;

/// The two ends of each wrapping.
static PAIRS: LazyLock<Vec<(WrapConfig, WrapConfig)>> = LazyLock::new(|| {
    let key = StaticKey::from_bytes(&std::array::from_fn(|index| index as u8));
    let auth = |digest, direction| WrapConfig::tls_auth(&key, digest, direction);
    vec![
        (WrapConfig::Plain, WrapConfig::Plain),
        (WrapConfig::tls_crypt(&key, TlsRole::Client), WrapConfig::tls_crypt(&key, TlsRole::Server)),
        (auth(HmacDigest::Sha1, KeyDirection::Inverse), auth(HmacDigest::Sha1, KeyDirection::Normal)),
        (
            auth(HmacDigest::Sha512, KeyDirection::Bidirectional),
            auth(HmacDigest::Sha512, KeyDirection::Bidirectional),
        ),
    ]
});

fuzz_target!(|data: &[u8]| {
    // As it comes from the network.
    for (_, server) in PAIRS.iter() {
        let Ok(opened) = server.open(data) else { continue };
        assert!(opened.sid.is_defined());
        if let Some(id) = opened.wrap_id {
            let mut replay = WrapReplay::new();
            assert_eq!(replay.check(Instant::ORIGIN, id).is_ok(), id.id != 0);
            assert!(replay.check(Instant::ORIGIN, id).is_err());
        }
        let _ = ControlBody::decode(opened.header.opcode, &opened.body);
    }
    // As a peer with the right key sends it.
    let Some((&[first, sid @ ..], body)) = data.split_first_chunk::<9>() else { return };
    let Some(header) = Header::from_byte(first) else { return };
    if header.opcode.is_data() || header.opcode.carries_client_key() || !Sid(sid).is_defined() {
        return;
    }
    for (client, server) in PAIRS.iter() {
        let mut sealed = Vec::new();
        client.instantiate(UnixTime(9)).seal(header, Sid(sid), body, &mut sealed).unwrap();
        let opened = server.open(&sealed).unwrap();
        assert_eq!((opened.header, opened.sid, opened.body.as_slice()), (header, Sid(sid), body));
    }
    if let Ok(decoded) = ControlBody::decode(header.opcode, body) {
        let mut again = Vec::new();
        decoded.encode(&mut again);
        assert!(body.starts_with(&again));
    }
});
