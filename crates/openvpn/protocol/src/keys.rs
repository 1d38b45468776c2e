//! The way from the key exchange to data keys: OpenVPN's own derivation and the split into directions.
//!
//! Peers of 2.6 and later take the 256 bytes from the TLS exporter; 2.4 and 2.5 use the TLS 1.0 PRF over
//! random numbers that both sides send, even on top of TLS 1.3. Sources: OpenVPN ssl.c
//! (`generate_key_expansion_openvpn_prf`, `init_key_contexts`), RFC 2246 §5. (The RFC draft's description of
//! the PRF differs from the wire.)

use adit_core::{Cipher, Digest};
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::codec::{DirectionKey, MacKey};
use crate::static_key::{Half, STATIC_KEY_LEN, StaticKey};
use crate::wire::{Sid, TlsRole};
use crate::wrap::KeyDirection;

/// Length of the pre-master secret in bytes.
pub const PRE_MASTER_LEN: usize = 48;
/// Length of each random number in bytes.
pub const RANDOM_LEN: usize = 32;
/// Length of all data keys of a session in bytes.
pub const KEY_MATERIAL_LEN: usize = STATIC_KEY_LEN;

/// Length in bytes of an epoch's secret.
const EPOCH_SECRET_LEN: usize = 32;

/// One side's random numbers, as key method 2 carries them.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct KeySource {
    /// Sent by the client only.
    pub pre_master: Option<[u8; PRE_MASTER_LEN]>,
    /// Seeds the master secret.
    pub random1: [u8; RANDOM_LEN],
    /// Seeds the data keys.
    pub random2: [u8; RANDOM_LEN],
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeySource(..)")
    }
}

/// The 256 bytes that hold both directions' data keys.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyMaterial(StaticKey);

impl std::fmt::Debug for KeyMaterial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyMaterial(..)")
    }
}

impl KeyMaterial {
    /// Keys from the bytes of the TLS exporter.
    pub fn from_bytes(bytes: &[u8; KEY_MATERIAL_LEN]) -> Self {
        KeyMaterial(StaticKey::from_bytes(bytes))
    }

    /// The key to seal with and the key to open with: the cipher key is the start of the direction's cipher
    /// slot. An AEAD's implicit IV is the first 8 bytes of the HMAC slot; another cipher's HMAC key, with
    /// that digest, is the start of it. On the data channel the client seals with the first half. (In
    /// tls-crypt the server does.)
    pub fn directions(&self, role: TlsRole, cipher: Cipher, digest: Digest) -> (DirectionKey, DirectionKey) {
        let key = |half| {
            let mut implicit_iv = [0; 8];
            for (byte, from) in implicit_iv.iter_mut().zip(self.0.hmac_slot(half)) {
                *byte = *from;
            }
            let mac = (!cipher.is_aead()).then(|| mac_key(&self.0, half, digest, self.iv_key(half)));
            DirectionKey { key: cipher_key(&self.0, half, cipher), implicit_iv, mac }
        };
        match role {
            TlsRole::Client => (key(Half::First), key(Half::Second)),
            TlsRole::Server => (key(Half::Second), key(Half::First)),
        }
    }

    /// The secrets of the first epoch, to seal and to open with: the start of the direction's cipher slot
    /// (OpenVPN ssl.c, `init_epoch_keys`).
    pub fn epoch_directions(&self, role: TlsRole) -> (DirectionKey, DirectionKey) {
        let secret = |half| {
            let secret = self.0.cipher_slot(half).iter().copied().take(EPOCH_SECRET_LEN).collect();
            DirectionKey::aead(Zeroizing::new(secret), [0; 8])
        };
        match role {
            TlsRole::Client => (secret(Half::First), secret(Half::Second)),
            TlsRole::Server => (secret(Half::Second), secret(Half::First)),
        }
    }

    /// The key that makes the IVs of a direction: as secret and as much this session's own as the material
    /// is, and good for nothing else.
    fn iv_key(&self, half: Half) -> Zeroizing<[u8; 16]> {
        let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(self.0.as_bytes()) else {
            unreachable!("HMAC takes keys of any length");
        };
        mac.update(b"adit: initialization vectors");
        mac.update(&[half as u8]);
        let mut key = Zeroizing::new([0; 16]);
        for (byte, from) in key.iter_mut().zip(mac.finalize().into_bytes()) {
            *byte = from;
        }
        key
    }
}

/// The key to seal with and the key to open with where a static key is all there is (`secret`; OpenVPN crypto.c,
/// `crypto_read_openvpn_key`). The cipher is no AEAD. The key for IVs must be random, and another at each start, as
/// the other keys are not.
pub fn static_directions(
    key: &StaticKey,
    direction: KeyDirection,
    cipher: Cipher,
    digest: Digest,
    iv_key: &Zeroizing<[u8; 16]>,
) -> (DirectionKey, DirectionKey) {
    let of = |half| DirectionKey {
        mac: Some(mac_key(key, half, digest, iv_key.clone())),
        ..DirectionKey::aead(cipher_key(key, half, cipher), [0; 8])
    };
    let (seal, open) = direction.halves();
    (of(seal), of(open))
}

/// The start of a half's cipher slot.
fn cipher_key(key: &StaticKey, half: Half, cipher: Cipher) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(key.cipher_slot(half).iter().copied().take(cipher.key_len()).collect())
}

/// The start of a half's HMAC slot, and the key of IVs.
fn mac_key(key: &StaticKey, half: Half, digest: Digest, iv_key: Zeroizing<[u8; 16]>) -> MacKey {
    let slot = key.hmac_slot(half).iter().copied().take(digest.output_len()).collect();
    MacKey { digest, key: Zeroizing::new(slot), iv_key }
}

/// Derives the data keys for peers without the TLS exporter. `None` if `client` has no pre-master secret,
/// which [`crate::key_method::KeyMethod2::decode`] never lets through.
pub fn derive_prf(
    client: &KeySource,
    server: &KeySource,
    client_sid: Sid,
    server_sid: Sid,
) -> Option<KeyMaterial> {
    let pre_master = Zeroizing::new(client.pre_master?);
    let mut master = Zeroizing::new([0; 48]);
    let seed = Zeroizing::new([client.random1, server.random1].concat());
    tls1_prf(pre_master.as_slice(), b"OpenVPN master secret", &seed, master.as_mut_slice());

    let mut seed = Zeroizing::new([client.random2, server.random2].concat());
    seed.extend_from_slice(&client_sid.0);
    seed.extend_from_slice(&server_sid.0);
    let mut keys = Zeroizing::new([0; KEY_MATERIAL_LEN]);
    tls1_prf(master.as_slice(), b"OpenVPN key expansion", &seed, keys.as_mut_slice());
    Some(KeyMaterial::from_bytes(&keys))
}

/// The PRF of TLS 1.0 and 1.1 (RFC 2246 §5): fills `out` with P_MD5 of the secret's first half XOR P_SHA-1
/// of its second half. Halves of an odd length share the middle byte.
pub fn tls1_prf(secret: &[u8], label: &[u8], seed: &[u8], out: &mut [u8]) {
    let half = secret.len().div_ceil(2);
    let (first, _) = secret.split_at(half);
    let (_, second) = secret.split_at(secret.len() - half);
    out.fill(0);
    xor_p_hash::<Hmac<Md5>>(first, label, seed, out);
    xor_p_hash::<Hmac<Sha1>>(second, label, seed, out);
}

/// XORs P_hash(secret, label + seed) into `out`.
fn xor_p_hash<M: Mac + KeyInit>(secret: &[u8], label: &[u8], seed: &[u8], out: &mut [u8]) {
    let hmac = |parts: &[&[u8]]| {
        let Ok(mut mac) = <M as KeyInit>::new_from_slice(secret) else {
            unreachable!("HMAC takes keys of any length");
        };
        parts.iter().for_each(|part| mac.update(part));
        Zeroizing::new(mac.finalize().into_bytes().to_vec())
    };
    let mut a = hmac(&[label, seed]);
    let mut rest = out;
    while !rest.is_empty() {
        let block = hmac(&[a.as_slice(), label, seed]);
        let (now, later) = rest.split_at_mut(block.len().min(rest.len()));
        for (byte, with) in now.iter_mut().zip(block.iter()) {
            *byte ^= with;
        }
        rest = later;
        a = hmac(&[a.as_slice()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Values from OpenVPN's tests/unit_tests/openvpn/test_crypto.c (`crypto_test_tls_prf`).
    #[test]
    fn tls1_prf_vector() {
        let secret = b"Lorem ipsum dolor sit amet, consectetur adipisici elit, sed eiusmod tempor incidunt \
                       ut labore et dolore magna aliqua.";
        let seed = b"Quis aute iure reprehenderit in voluptate velit esse cillum dolore";
        let expected = [
            0xd9, 0x8c, 0x85, 0x18, 0xc8, 0x5e, 0x94, 0x69, 0x27, 0x91, 0x6a, 0xcf, 0xc2, 0xd5, 0x92,
            0xfb, //
            0xb1, 0x56, 0x7e, 0x4b, 0x4b, 0x14, 0x59, 0xe6, 0xa9, 0x04, 0xac, 0x2d, 0xda, 0xb7, 0x2d, 0x67,
        ];
        let mut out = [0xff; 32];
        tls1_prf(secret, b"", seed, &mut out);
        assert_eq!(out, expected);
        // The label is a part of the seed, and a shorter output is a prefix.
        let mut out = [0; 21];
        tls1_prf(secret, b"Quis ", &seed[5..], &mut out);
        assert_eq!(out, expected[..21]);
    }

    #[test]
    fn odd_and_empty_secrets() {
        let mut out = [0; 40];
        tls1_prf(b"", b"", b"", &mut out);
        tls1_prf(b"abc", b"", b"", &mut out);
        let mut other = [0; 40];
        tls1_prf(b"abd", b"", b"", &mut other);
        assert_ne!(out, other);
    }

    fn material() -> KeyMaterial {
        let mut bytes = [0; KEY_MATERIAL_LEN];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = index as u8;
        }
        KeyMaterial::from_bytes(&bytes)
    }

    #[test]
    fn a_static_key_has_a_half_for_each_direction_or_one_for_both() {
        let key = material().0;
        let keys = |direction| {
            let (cipher, digest) = (Cipher::Aes128Cbc, Digest::Sha1);
            let (seal, open) = static_directions(&key, direction, cipher, digest, &Zeroizing::new([7; 16]));
            [seal, open].map(|key| {
                let mac = key.mac.unwrap();
                assert_eq!((key.key.len(), mac.key.len(), *mac.iv_key), (16, 20, [7; 16]));
                (key.key[0], mac.key[0])
            })
        };
        assert_eq!(keys(KeyDirection::Bidirectional), [(0, 64), (0, 64)]);
        assert_eq!(keys(KeyDirection::Normal), [(0, 64), (128, 192)]);
        assert_eq!(keys(KeyDirection::Inverse), [(128, 192), (0, 64)]);
    }

    #[test]
    fn the_client_seals_with_the_first_half() {
        let (seal, open) = material().directions(TlsRole::Client, Cipher::Aes128Gcm, Digest::Sha1);
        assert_eq!(*seal.key, (0..16).collect::<Vec<u8>>());
        assert_eq!(seal.implicit_iv, [64, 65, 66, 67, 68, 69, 70, 71]);
        assert_eq!(*open.key, (128..144).collect::<Vec<u8>>());
        assert_eq!(open.implicit_iv, [192, 193, 194, 195, 196, 197, 198, 199]);
        for cipher in Cipher::ALL {
            let digest = Digest::Sha512;
            let (client_seal, client_open) = material().directions(TlsRole::Client, cipher, digest);
            let (server_seal, server_open) = material().directions(TlsRole::Server, cipher, digest);
            assert_eq!(client_seal.key, server_open.key);
            assert_eq!(client_seal.implicit_iv, server_open.implicit_iv);
            assert_eq!(client_open.key, server_seal.key);
            assert_eq!(client_open.implicit_iv, server_seal.implicit_iv);
            assert_eq!(client_seal.key.len(), cipher.key_len());
            assert_eq!(client_seal.mac.is_some(), !cipher.is_aead());
        }
    }

    #[test]
    fn epochs_begin_with_the_cipher_slots() {
        let (seal, open) = material().epoch_directions(TlsRole::Client);
        assert_eq!(*seal.key, (0..32).collect::<Vec<u8>>());
        assert_eq!(*open.key, (128..160).collect::<Vec<u8>>());
        let (server_seal, server_open) = material().epoch_directions(TlsRole::Server);
        assert_eq!((server_seal.key, server_open.key), (open.key, seal.key));
    }

    #[test]
    fn hmac_keys_come_from_the_hmac_slots() {
        let (seal, open) = material().directions(TlsRole::Client, Cipher::Aes192Cbc, Digest::Sha224);
        let (seal_mac, open_mac) = (seal.mac.unwrap(), open.mac.unwrap());
        assert_eq!(*seal.key, (0..24).collect::<Vec<u8>>());
        assert_eq!(*seal_mac.key, (64..92).collect::<Vec<u8>>());
        assert_eq!(*open_mac.key, (192..220).collect::<Vec<u8>>());
        assert_eq!(seal_mac.digest, Digest::Sha224);
        assert_ne!(seal_mac.iv_key, open_mac.iv_key, "each direction has its own IVs");
        let (again, _) = KeyMaterial::from_bytes(&[1; KEY_MATERIAL_LEN]).directions(
            TlsRole::Client,
            Cipher::Aes192Cbc,
            Digest::Sha224,
        );
        assert_ne!(again.mac.unwrap().iv_key, seal_mac.iv_key, "and each session");
    }

    // Expected values computed with another implementation of HMAC, from ssl.c's order of the inputs; an
    // OpenVPN 2.6.14 server and adit's client agree on keys made this way.
    #[test]
    fn derivation_vector() {
        let client = KeySource { pre_master: Some([7; 48]), random1: [1; 32], random2: [2; 32] };
        let server = KeySource { pre_master: None, random1: [3; 32], random2: [4; 32] };
        let keys = derive_prf(&client, &server, Sid([5; 8]), Sid([6; 8])).unwrap();
        let (seal, open) = keys.directions(TlsRole::Client, Cipher::Aes128Gcm, Digest::Sha1);
        assert_eq!(u128::from_be_bytes(seal.key[..].try_into().unwrap()), 0x25a9d7411c8ddd77ed5dc49c28901fab);
        assert_eq!(u64::from_be_bytes(seal.implicit_iv), 0x3123b6b3bff8a6f8);
        assert_eq!(u128::from_be_bytes(open.key[..].try_into().unwrap()), 0x423b478cd4da8e1c2d108d7a1f5a6f5b);
        assert_eq!(u64::from_be_bytes(open.implicit_iv), 0x5a98f27eae5b51aa);
    }

    #[test]
    fn every_input_reaches_the_keys() {
        let source =
            |byte: u8, pre_master| KeySource { pre_master, random1: [byte; 32], random2: [byte + 1; 32] };
        let client = source(1, Some([7; 48]));
        let server = source(3, None);
        let derive = |client: &KeySource, server: &KeySource, a: u8, b: u8| {
            derive_prf(client, server, Sid([a; 8]), Sid([b; 8])).unwrap()
        };
        let keys = derive(&client, &server, 5, 6);
        assert_eq!(keys, derive(&client, &server, 5, 6));
        let mut others = vec![derive(&client, &server, 6, 5), derive(&client, &source(9, None), 5, 6)];
        for change in 0..3 {
            let mut client = client.clone();
            match change {
                0 => client.pre_master = Some([8; 48]),
                1 => client.random1[31] ^= 1,
                _ => client.random2[0] ^= 1,
            }
            others.push(derive(&client, &server, 5, 6));
        }
        assert!(others.iter().all(|other| *other != keys));
        assert_eq!(derive_prf(&server, &client, Sid([5; 8]), Sid([6; 8])), None);
    }

    #[test]
    fn debug_hides_secrets() {
        let source = KeySource { pre_master: Some([7; 48]), random1: [1; 32], random2: [2; 32] };
        assert_eq!(format!("{source:?} {:?}", material()), "KeySource(..) KeyMaterial(..)");
    }
}
