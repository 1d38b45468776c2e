//! Wrapping tests. The datagrams and their key are those of OpenVPN's
//! tests/unit_tests/openvpn/test_pkt.c.

use super::*;
use crate::static_key::tests::test_pkt_key;
use crate::wire::{ControlBody, Opcode};
use proptest::prelude::*;

const RESET_PLAIN: &str = "386891923fa31034370000000000";

const RESET_TLS_AUTH: &str =
    "38de694c5c7bfba27493537c1ded4e781529ae7cfe4b8c6d6b2b51f05a0000000161d3bf6c0000000000";

const RESET_TLS_CRYPT: &str = "38f419cb12d1f9e48f0000000161d3f8e1330206f56802be44fbed905064e3db43416bec5e526719462b7eb90c96defc\
    9b05c44879f7";

const CONTROL_TLS_AUTH: &str = "2014014ebc80c6142b7bc876fbc52e27b1c507355bb6006bae71ba4e380000000361d3ff530000000001160301010c01\
    00010803038caaac3a1a07bde7b750069b940c344b5a35cac479bdc909b07bd9eebb7de725203938e2183336149f34f0\
    4459968d0ed24776648859e9380397969845fbf5ff230032130213031301c02cc030009fcca9cca8ccaac02bc02f009e\
    c024c028006bc023c0270067c00ac0140039c009c013003300ff0100008d000b000403000102000a000c000a001d0017\
    001e001900180016000000170000000d0030002e040305030603080708080809080a080b080408050806040105010601\
    030302030301020103020202040205020602002b00050403040303002d00020101003300260024001d00200ec97aff58\
    db56f640d1eddb9181d6ef83868ab23d88923fd8519cd62656336b";

const ACK_PLAIN: &str = "28aeb9afe1f01d79c80100000000dd85db535623b02e";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn key() -> StaticKey {
    test_pkt_key()
}

fn auth(direction: KeyDirection) -> WrapConfig {
    WrapConfig::tls_auth(&key(), HmacDigest::Sha1, direction)
}

fn crypt(role: TlsRole) -> WrapConfig {
    WrapConfig::tls_crypt(&key(), role)
}

fn reset_body() -> ControlBody {
    ControlBody { packet_id: Some(0), ..ControlBody::default() }
}

#[test]
fn plain_vectors() {
    let opened = WrapConfig::Plain.open(&bytes(RESET_PLAIN)).unwrap();
    assert_eq!(opened.header, Header { opcode: Opcode::HardResetClientV2, key_id: 0 });
    assert_eq!(opened.sid, Sid([0x68, 0x91, 0x92, 0x3f, 0xa3, 0x10, 0x34, 0x37]));
    assert_eq!(opened.wrap_id, None);
    assert_eq!(ControlBody::decode(opened.header.opcode, &opened.body), Ok(reset_body()));

    let opened = WrapConfig::Plain.open(&bytes(ACK_PLAIN)).unwrap();
    assert_eq!(opened.header.opcode, Opcode::Ack);
    let body = ControlBody::decode(opened.header.opcode, &opened.body).unwrap();
    assert_eq!(body.acks, [0]);
    assert_eq!(body.peer_sid, Some(Sid([0xdd, 0x85, 0xdb, 0x53, 0x56, 0x23, 0xb0, 0x2e])));
}

#[test]
fn tls_auth_vectors() {
    let server = auth(KeyDirection::Normal);
    let opened = server.open(&bytes(RESET_TLS_AUTH)).unwrap();
    assert_eq!(opened.wrap_id, Some(WrapId { id: 1, time: 0x61d3_bf6c }));
    assert_eq!(ControlBody::decode(opened.header.opcode, &opened.body), Ok(reset_body()));

    let opened = server.open(&bytes(CONTROL_TLS_AUTH)).unwrap();
    assert_eq!(opened.header.opcode, Opcode::Control);
    let body = ControlBody::decode(opened.header.opcode, &opened.body).unwrap();
    assert_eq!((body.acks.len(), body.packet_id), (0, Some(1)));
    assert_eq!(body.payload[..3], [0x16, 3, 1]);

    assert!(matches!(server.open(&bytes(RESET_PLAIN)), Err(Rejected::Malformed(_))));
    assert!(matches!(server.open(&bytes(RESET_TLS_CRYPT)), Err(Rejected::Unauthentic(_))));
    let wrong_direction = auth(KeyDirection::Inverse);
    assert!(matches!(wrong_direction.open(&bytes(RESET_TLS_AUTH)), Err(Rejected::Unauthentic(_))));
}

#[test]
fn tls_auth_seals_the_vector() {
    let mut client = auth(KeyDirection::Inverse).instantiate(UnixTime(0x61d3_bf6c));
    let sid = Sid([0xde, 0x69, 0x4c, 0x5c, 0x7b, 0xfb, 0xa2, 0x74]);
    let header = Header { opcode: Opcode::HardResetClientV2, key_id: 0 };
    let mut body = Vec::new();
    reset_body().encode(&mut body);
    let mut out = Vec::new();
    client.seal(header, sid, &body, &mut out).unwrap();
    assert_eq!(out, bytes(RESET_TLS_AUTH));
}

#[test]
fn tls_crypt_opens_and_seals_the_vector() {
    let vector = bytes(RESET_TLS_CRYPT);
    let opened = crypt(TlsRole::Server).open(&vector).unwrap();
    assert_eq!(opened.wrap_id, Some(WrapId { id: 1, time: 0x61d3_f8e1 }));
    assert_eq!(ControlBody::decode(opened.header.opcode, &opened.body), Ok(reset_body()));

    let mut client = crypt(TlsRole::Client).instantiate(UnixTime(0x61d3_f8e1));
    let mut out = Vec::new();
    client.seal(opened.header, opened.sid, &opened.body, &mut out).unwrap();
    assert_eq!(out, vector);

    assert!(matches!(crypt(TlsRole::Client).open(&vector), Err(Rejected::Unauthentic(_))));
    assert!(matches!(crypt(TlsRole::Server).open(&bytes(RESET_TLS_AUTH)), Err(Rejected::Malformed(_))));
    assert!(matches!(crypt(TlsRole::Server).open(&bytes(RESET_PLAIN)), Err(Rejected::Malformed(_))));
}

// Values from OpenVPN's tests/unit_tests/openvpn/test_tls_crypt.c (`test_tls_crypt_secure_reneg_key`): exported
// keying material of 0xba bytes, and no opcode and session id in front.
#[test]
fn dynamic_tls_crypt_vector() {
    let expected = bytes(
        "0000000100000000e319277f1c8d6e6a7796a855337b9cfb56e1f13a870e6647dfa195c92c17a015ba4967a11d55ea1a06a7",
    );
    let exported = StaticKey::from_bytes(&[0xba; 256]);
    let seal = |key: &StaticKey| {
        let WrapConfig::TlsCrypt(keys) = WrapConfig::tls_crypt(key, TlsRole::Client) else { unreachable!() };
        let mut out = Vec::new();
        keys.seal(&[], &WrapId { id: 1, time: 0 }.to_wire(), b"1234567890", &mut out);
        out
    };
    assert_eq!(seal(&exported), expected);
    assert_eq!(seal(&exported.xor(&StaticKey::from_bytes(&[0; 256]))), expected);
    assert_ne!(seal(&exported.xor(&StaticKey::from_bytes(&[0x42; 256]))), expected);
}

// First packets of OpenVPN 2.6.14 clients with the same key and other digests, as captured.
#[test]
fn captured_from_openvpn_2_6() {
    let auth = |digest, direction| WrapConfig::tls_auth(&key(), digest, direction);
    let cases = [
        (
            auth(HmacDigest::Sha256, KeyDirection::Normal),
            auth(HmacDigest::Sha256, KeyDirection::Inverse),
            "380d43c37ab0f16daefb8ab149ef9767a925e10e7b2aa44152c3e6002bb23b41bf946cb97484bb9b6a\
             000000016b0162f70000000000",
        ),
        (
            auth(HmacDigest::Sha384, KeyDirection::Inverse),
            auth(HmacDigest::Sha384, KeyDirection::Normal),
            "38df3d92a51fd5de264067a6e7ca3bf072d144efdca3135f5593e216c013f0b45ca430d7d66050eb43\
             59bf41661ca357513da89d09e46cf9e5000000016b0162f70000000000",
        ),
        (
            auth(HmacDigest::Sha512, KeyDirection::Bidirectional),
            auth(HmacDigest::Sha512, KeyDirection::Bidirectional),
            "38a5ee67483dfa2e87d02c143db0c28a41e617fd740a6b1f384a1d6ddbd3f19897883c3de1ee4b5b4a\
             436bdc3a1ffe859e9b49a1f84b00e4dcac7372fa177d41cfb6887f56151dba5f000000016b0162f70000000000",
        ),
        (
            crypt(TlsRole::Server),
            crypt(TlsRole::Client),
            "38ec9341b70a457e4d000000016b0162f7cf2e38a52e59d3d30b517d226c2a0eb61c0de09ddd849546\
             b94e90eb8447c0a3ee8813cc96",
        ),
    ];
    for (server, client, captured) in cases {
        let opened = server.open(&bytes(captured)).unwrap();
        assert_eq!(opened.wrap_id, Some(WrapId { id: 1, time: 0x6b01_62f7 }));
        assert_eq!(ControlBody::decode(opened.header.opcode, &opened.body), Ok(reset_body()));
        let mut again = Vec::new();
        let mut wrap = client.instantiate(UnixTime(0x6b01_62f7));
        wrap.seal(opened.header, opened.sid, &opened.body, &mut again).unwrap();
        assert_eq!(again, bytes(captured));
    }
}

#[test]
fn any_changed_byte_is_refused() {
    for (config, vector) in
        [(auth(KeyDirection::Normal), RESET_TLS_AUTH), (crypt(TlsRole::Server), RESET_TLS_CRYPT)]
    {
        for at in 0..vector.len() / 2 {
            let mut datagram = bytes(vector);
            datagram[at] ^= 0x23;
            assert!(config.open(&datagram).is_err(), "byte {at}");
        }
    }
}

#[test]
fn client_keys_zero_sids_and_data_are_refused() {
    let mut datagram = bytes(RESET_PLAIN);
    for (opcode, unexpected) in [(6, true), (9, true), (10, true), (11, true), (1, false), (31, false)] {
        datagram[0] = opcode << 3;
        assert_eq!(
            matches!(WrapConfig::Plain.open(&datagram), Err(Rejected::Unexpected(_))),
            unexpected,
            "opcode {opcode}"
        );
        assert!(WrapConfig::Plain.open(&datagram).is_err());
    }
    datagram = bytes(RESET_PLAIN);
    datagram[1..9].fill(0);
    assert_eq!(WrapConfig::Plain.open(&datagram), Err(Rejected::Malformed("the session id is zero")));
}

#[test]
fn ids_count_up_and_run_out() {
    let config = crypt(TlsRole::Client);
    let header = Header { opcode: Opcode::Control, key_id: 3 };
    let mut wrap = config.instantiate_after(UnixTime(5), u32::MAX - 1);
    let mut out = Vec::new();
    wrap.seal(header, Sid([1; 8]), b"body", &mut out).unwrap();
    let opened = crypt(TlsRole::Server).open(&out).unwrap();
    assert_eq!(opened.wrap_id, Some(WrapId { id: u32::MAX, time: 5 }));
    let sealed = out.clone();
    assert_eq!(wrap.seal(header, Sid([1; 8]), b"body", &mut out), Err(WrapExhausted));
    assert_eq!(out, sealed);
}

#[test]
fn debug_hides_keys() {
    let text = format!("{:?} {:?}", auth(KeyDirection::Normal), crypt(TlsRole::Client));
    assert_eq!(text, "TlsAuth(AuthKeys { digest: Sha1, .. }) TlsCrypt(CryptKeys { .. })");
}

fn pairs() -> Vec<(WrapConfig, WrapConfig)> {
    let mut pairs =
        vec![(WrapConfig::Plain, WrapConfig::Plain), (crypt(TlsRole::Client), crypt(TlsRole::Server))];
    for digest in HmacDigest::ALL {
        let with = |direction| WrapConfig::tls_auth(&key(), digest, direction);
        pairs.push((with(KeyDirection::Bidirectional), with(KeyDirection::Bidirectional)));
        pairs.push((with(KeyDirection::Normal), with(KeyDirection::Inverse)));
    }
    pairs
}

proptest! {
    #[test]
    fn open_undoes_seal(key_id in 0u8..8, sid in 1u64.., body in prop::collection::vec(any::<u8>(), 0..200)) {
        let header = Header { opcode: Opcode::Control, key_id };
        let sid = Sid(sid.to_be_bytes());
        for (a, b) in pairs() {
            for (from, to) in [(&a, &b), (&b, &a)] {
                let mut out = Vec::new();
                from.instantiate(UnixTime(77)).seal(header, sid, &body, &mut out).unwrap();
                prop_assert_eq!(out.len(), 9 + from.overhead() + body.len());
                let opened = to.open(&out).unwrap();
                prop_assert_eq!((opened.header, opened.sid, &opened.body), (header, sid, &body));
            }
        }
    }

    #[test]
    fn open_never_panics(datagram in prop::collection::vec(any::<u8>(), 0..120)) {
        for (config, _) in pairs() {
            let _ = config.open(&datagram);
        }
    }
}
