//! tls-crypt-v2: each client has a key of its own, and brings it along, wrapped by the server's key.
//!
//! `WKc = tag (32) | AES-256-CTR(Kc (256) | metadata) | length (2)`, tag = HMAC-SHA256 over
//! `length | Kc | metadata`, the counter starts at the tag's first 16 bytes, the length counts all of it.
//! Source: OpenVPN doc/tls-crypt-v2.txt, tls_crypt.c.

mod text;

use std::fmt;

use adit_core::{Rejected, UnixTime};
use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::Zeroizing;

use super::TAG_LEN;
use super::crypt_key::CryptKey;
use crate::static_key::{STATIC_KEY_LEN, StaticKey};

/// Length of a server's key in bytes.
pub const SERVER_KEY_LEN: usize = 128;
/// The longest wrapped client key (OpenVPN tls_crypt.h `TLS_CRYPT_V2_MAX_WKC_LEN`).
pub const MAX_WRAPPED_LEN: usize = 1024;
/// The longest metadata with its type.
pub const MAX_METADATA_LEN: usize = MAX_WRAPPED_LEN - TAG_LEN - STATIC_KEY_LEN - LENGTH_LEN;
/// The shortest wrapped client key: one without metadata.
const MIN_WRAPPED_LEN: usize = TAG_LEN + STATIC_KEY_LEN + LENGTH_LEN;
const LENGTH_LEN: usize = 2;

/// A packet id with this as its upper byte says that the client reads early negotiation in the server's reset
/// (OpenVPN ssl_pkt.h `EARLY_NEG_START`).
pub(crate) const EARLY_NEGOTIATION: u32 = 0x0f00_0000;
const EARLY_NEGOTIATION_MASK: u32 = 0xff00_0000;

/// Whether a client whose first packet has this id reads early negotiation.
pub(crate) const fn negotiates_early(packet_id: u32) -> bool {
    packet_id & EARLY_NEGOTIATION_MASK == EARLY_NEGOTIATION
}

/// Type of the early negotiation's flags (OpenVPN ssl_pkt.h `TLV_TYPE_EARLY_NEG_FLAGS`).
const FLAGS_TYPE: u16 = 1;
/// The client shall send its wrapped key again with its next packet.
const RESEND_WRAPPED_KEY: u16 = 1;

/// The payload of a server's reset that asks for the wrapped key once more.
pub(crate) const ASK_FOR_WRAPPED_KEY: [u8; 6] = [0, FLAGS_TYPE as u8, 0, 2, 0, RESEND_WRAPPED_KEY as u8];

/// Whether the payload of a server's reset (type, length and value, again and again) asks for the wrapped key. Unknown
/// values are skipped; a malformed payload asks for nothing.
pub(crate) fn asks_for_wrapped_key(mut payload: &[u8]) -> bool {
    let mut asked = false;
    while let Some(([t0, t1, l0, l1], rest)) = payload.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*l0, *l1]));
        let Some((value, rest)) = rest.split_at_checked(length) else { return false };
        if u16::from_be_bytes([*t0, *t1]) == FLAGS_TYPE {
            let &[high, low] = value else { return false };
            asked |= u16::from_be_bytes([high, low]) & RESEND_WRAPPED_KEY != 0;
        }
        payload = rest;
    }
    asked && payload.is_empty()
}

/// The metadata of a client's key; the server alone can read and change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// Whatever the person who made the key wrote.
    User(Vec<u8>),
    /// When the key was made.
    Made(UnixTime),
    /// Metadata of a type that is not known, or none at all.
    Other(Vec<u8>),
}

impl Metadata {
    const USER: u8 = 0;
    const TIMESTAMP: u8 = 1;

    fn decode(bytes: &[u8]) -> Self {
        match bytes {
            [Self::USER, text @ ..] => Metadata::User(text.to_vec()),
            [Self::TIMESTAMP, time @ ..] => match time.first_chunk() {
                Some(time) => Metadata::Made(UnixTime(u64::from_be_bytes(*time))),
                None => Metadata::Other(bytes.to_vec()),
            },
            _ => Metadata::Other(bytes.to_vec()),
        }
    }

    /// Its type, and the bytes after that. `None`: there is nothing at all.
    pub(crate) fn parts(&self) -> Option<(u8, Vec<u8>)> {
        let bytes = self.encode();
        let (kind, rest) = bytes.split_first()?;
        Some((*kind, rest.to_vec()))
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Metadata::User(text) => [&[Self::USER][..], text].concat(),
            Metadata::Made(time) => [&[Self::TIMESTAMP][..], &time.0.to_be_bytes()].concat(),
            Metadata::Other(bytes) => bytes.clone(),
        }
    }
}

/// A key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClientKeyError {
    /// The key's file does not hold what it should.
    #[error(
        "a tls-crypt-v2 client key is 256 bytes and a wrapped key of 290 to 1024 bytes; this one has {0} bytes in all"
    )]
    Length(usize),
    /// The wrapped part does not end with its own length.
    #[error("the wrapped part of the tls-crypt-v2 client key is damaged: it does not end with its length")]
    Damaged,
    /// There is more metadata than fits.
    #[error("the metadata of a tls-crypt-v2 client key takes at most {MAX_METADATA_LEN} bytes with its type")]
    Metadata,
}

/// A client's key, and the same wrapped for the server. Debug shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientKey {
    key: StaticKey,
    wrapped: Vec<u8>,
}

impl ClientKey {
    /// The key in the bytes that a client's file holds: the key, and behind it the wrapped key.
    ///
    /// # Errors
    /// When the lengths are wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ClientKeyError> {
        let length = ClientKeyError::Length(bytes.len());
        let (key, wrapped) = bytes.split_first_chunk::<STATIC_KEY_LEN>().ok_or(length)?;
        if !(MIN_WRAPPED_LEN..=MAX_WRAPPED_LEN).contains(&wrapped.len()) {
            return Err(length);
        }
        if wrapped_key_at_end(wrapped) != Some((&[], wrapped)) {
            return Err(ClientKeyError::Damaged);
        }
        Ok(ClientKey { key: StaticKey::from_bytes(key), wrapped: wrapped.to_vec() })
    }

    /// The bytes that [`ClientKey::from_bytes`] reads. Secret.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(STATIC_KEY_LEN + self.wrapped.len()));
        bytes.extend_from_slice(self.key.as_bytes());
        bytes.extend_from_slice(&self.wrapped);
        bytes
    }

    pub(super) fn key(&self) -> &StaticKey {
        &self.key
    }

    pub(super) fn wrapped(&self) -> &[u8] {
        &self.wrapped
    }
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientKey(..)")
    }
}

/// The server's key, which wraps and unwraps clients' keys. Debug shows nothing of it.
pub struct ServerKey {
    bytes: Zeroizing<[u8; SERVER_KEY_LEN]>,
    crypt: CryptKey,
}

impl ServerKey {
    /// The key made of these bytes: a cipher slot and an HMAC slot.
    pub fn from_bytes(bytes: &[u8; SERVER_KEY_LEN]) -> Self {
        let (cipher_slot, hmac_slot) = bytes.split_at(SERVER_KEY_LEN / 2);
        let crypt = CryptKey::new(cipher_slot, hmac_slot).made_ready();
        ServerKey { bytes: Zeroizing::new(*bytes), crypt }
    }

    /// Wraps a client's key.
    ///
    /// # Errors
    /// [`ClientKeyError::Metadata`] if there is too much of it.
    pub fn wrap(&self, key: &StaticKey, metadata: &Metadata) -> Result<ClientKey, ClientKeyError> {
        let metadata = metadata.encode();
        if metadata.len() > MAX_METADATA_LEN {
            return Err(ClientKeyError::Metadata);
        }
        let length = ((MIN_WRAPPED_LEN + metadata.len()) as u16).to_be_bytes();
        let tag = self.crypt.tag([&length, key.as_bytes(), &metadata]);
        let mut wrapped = tag.to_vec();
        wrapped.extend_from_slice(key.as_bytes());
        wrapped.extend_from_slice(&metadata);
        if let Some(body) = wrapped.get_mut(TAG_LEN..) {
            self.crypt.apply_keystream(&tag, body);
        }
        wrapped.extend_from_slice(&length);
        Ok(ClientKey { key: key.clone(), wrapped })
    }

    /// The client's key in `wrapped`, and its metadata.
    ///
    /// # Errors
    /// [`Rejected::Malformed`] if it is too short, too long, or says another length than it has;
    /// [`Rejected::Unauthentic`] if this server's key did not wrap it.
    pub fn unwrap(&self, wrapped: &[u8]) -> Result<(StaticKey, Metadata), Rejected> {
        if !(MIN_WRAPPED_LEN..=MAX_WRAPPED_LEN).contains(&wrapped.len())
            || wrapped_key_at_end(wrapped) != Some((&[], wrapped))
        {
            return Err(Rejected::Malformed("the length of the tls-crypt-v2 client key"));
        }
        let parts = wrapped.split_first_chunk::<TAG_LEN>().and_then(|(tag, rest)| {
            let (body, length) = rest.split_last_chunk::<LENGTH_LEN>()?;
            Some((tag, body, length))
        });
        let Some((tag, body, length)) = parts else {
            return Err(Rejected::Malformed("the length of the tls-crypt-v2 client key"));
        };
        let mut plain = Zeroizing::new(body.to_vec());
        self.crypt.apply_keystream(tag, &mut plain);
        if !bool::from(self.crypt.tag([length, &plain, &[]]).ct_eq(tag)) {
            return Err(Rejected::Unauthentic(
                "this server's key did not wrap the tls-crypt-v2 client key; it is another server's, or forged",
            ));
        }
        let (key, metadata) = plain
            .split_first_chunk::<STATIC_KEY_LEN>()
            .ok_or(Rejected::Malformed("the length of the tls-crypt-v2 client key"))?;
        Ok((StaticKey::from_bytes(key), Metadata::decode(metadata)))
    }
}

impl PartialEq for ServerKey {
    /// Compares in constant time.
    fn eq(&self, other: &Self) -> bool {
        self.bytes.as_slice().ct_eq(other.bytes.as_slice()).into()
    }
}

impl Eq for ServerKey {}

impl fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerKey(..)")
    }
}

/// Splits a datagram into the bytes before the wrapped client key at its end, and that key. `None` if the
/// length that it ends with is impossible.
pub(crate) fn wrapped_key_at_end(datagram: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, length) = datagram.split_last_chunk::<LENGTH_LEN>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    if !(MIN_WRAPPED_LEN..=MAX_WRAPPED_LEN).contains(&length) {
        return None;
    }
    datagram.split_at_checked(datagram.len().checked_sub(length)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // The server's key and two clients' keys of OpenVPN's tests/unit_tests/openvpn/test_tls_crypt.c: the server's
    // bytes count from 0 to 127, the clients' from 0 to 255. Here stand the wrapped parts.
    const TIMESTAMPED: &str = "\
        177da5c074a94619b16be4acb71f1a6ccf24f33c6bbaf498459d5f06c369d4952c78396efd93c2598f4771e0\
        68cafca3d2d387d87151392b1f74b43df29137072ca3ceae6bf741153c97b0cf6d8386b0ddd4baa201fd0246\
        93fa44510e035c29691009bc2624ad8995f9171c1c1b02d9a7efc02436e868e90085a8276a19a6f7ce1daf85\
        e16a18c3dd1a9ba46c5ad3deb70edd52f151e1be45dcd788c4c2a494a8bc504fd650e46306093e7cfa75a121\
        8f44f3277055aeef56dc2a68b5d36deeed3d927c407e90b18edacfdec7a6b037b0fe04c1b5c7d0fcea131721\
        479cde64459faad7b482e276dadcfa7cfc5b34fa149bbf6b49a33a03f1212516aed221626c7224d887cabc7f\
        9c90c6376de16c6efd9e70b4f080674b4ece3e08b5323bedf04e6114df11acb31e012b\
    ";
    const WITH_METADATA: &str = "\
        69eda75582aa170b8c9418fe28248cdb7761bea2d277aa1647eb3a9d94083733e91489b4f2d96ef38e2941e4\
        daac313d852c1429f3fc8595ebf6622d1ada6f35294bca123751d2e8feeaa8076b1ca81f8554c76ac7527f65\
        1d3133c2ec70609cff4b97416128dd21eef4b36dbb7b40cef01fd9abd5e71cfccb744985b6969c0068939b60\
        64f293a8538169b483f30baf0a2b2eb7b34ea507059cd5b2ef8b0f2a8b58ad65cc935deba32e34eb06038605\
        7db0ac0e1f27dc7f82c3593960d0590d86093ad55480159785e3babe0a0e9aa0dd234740437855a3d0c4f929\
        0216381f978158db22c487d655659ae5d5e0f53b087f5f5efc0a41eb049625f4b3504b24042a50c65b004b43\
        fa58deab6372daf7a55eb630f41d068fb595cb230c2255400e9753296d6ace0129\
    ";

    fn bytes(hex: &str) -> Vec<u8> {
        let pairs = hex.as_bytes().chunks(2);
        pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    fn server_key() -> ServerKey {
        ServerKey::from_bytes(&std::array::from_fn(|index| index as u8))
    }

    fn client_key() -> StaticKey {
        StaticKey::from_bytes(&std::array::from_fn(|index| index as u8))
    }

    #[test]
    fn unwraps_and_wraps_what_openvpn_wrapped() {
        for (wrapped, metadata) in [
            (TIMESTAMPED, Metadata::Made(UnixTime(0))),
            (WITH_METADATA, Metadata::User(vec![0x00, 0x00, 0x41, 0x08, 0x20, 0xc3])),
        ] {
            let wrapped = bytes(wrapped);
            let (key, found) = server_key().unwrap(&wrapped).unwrap();
            assert_eq!(key, client_key());
            assert_eq!(found, metadata);
            assert_eq!(server_key().wrap(&key, &found).unwrap().wrapped(), wrapped);
        }
    }

    #[test]
    fn a_clients_file_reads_back() {
        let made = server_key().wrap(&client_key(), &Metadata::Made(UnixTime(1_700_000_000))).unwrap();
        assert_eq!(ClientKey::from_bytes(&made.to_bytes()), Ok(made.clone()));
        let bytes = made.to_bytes();
        assert_eq!(ClientKey::from_bytes(&bytes[..300]), Err(ClientKeyError::Length(300)));
        assert_eq!(ClientKey::from_bytes(&bytes[..bytes.len() - 1]), Err(ClientKeyError::Damaged));
        assert_eq!(format!("{made:?} {:?}", server_key()), "ClientKey(..) ServerKey(..)");
    }

    #[test]
    fn metadata_is_bounded() {
        let wrap = |length| server_key().wrap(&client_key(), &Metadata::User(vec![1; length]));
        assert_eq!(wrap(MAX_METADATA_LEN - 1).unwrap().wrapped().len(), MAX_WRAPPED_LEN);
        assert_eq!(wrap(MAX_METADATA_LEN), Err(ClientKeyError::Metadata));
        assert_eq!(MAX_METADATA_LEN, 734);
    }

    #[test]
    fn early_negotiation_reads_what_it_knows() {
        assert!(asks_for_wrapped_key(&ASK_FOR_WRAPPED_KEY));
        assert!(asks_for_wrapped_key(&[0, 9, 0, 1, 7, 0, 1, 0, 2, 0, 3]), "another type first");
        assert!(!asks_for_wrapped_key(&[]));
        assert!(!asks_for_wrapped_key(&[0, 1, 0, 2, 0, 2]));
        assert!(!asks_for_wrapped_key(&[0, 1, 0, 3, 0, 0, 1]));
        assert!(!asks_for_wrapped_key(&[0, 1, 0, 2, 0, 1, 0]), "something is left over");
        assert!(!asks_for_wrapped_key(&[0, 1, 0xff, 0xff, 0, 1]));
        assert!(
            negotiates_early(EARLY_NEGOTIATION + 1) && !negotiates_early(1) && !negotiates_early(0x1f00_0001)
        );
    }

    proptest! {
        #[test]
        fn no_changed_key_unwraps(at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut wrapped = bytes(WITH_METADATA);
            let at = at.index(wrapped.len());
            wrapped[at] ^= 1 << bit;
            prop_assert!(server_key().unwrap(&wrapped).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_unwrap(bytes in prop::collection::vec(any::<u8>(), 0..1200)) {
            prop_assert!(server_key().unwrap(&bytes).is_err());
            let _ = ClientKey::from_bytes(&bytes);
            let _ = wrapped_key_at_end(&bytes);
            let _ = asks_for_wrapped_key(&bytes);
        }

        #[test]
        fn unwrap_undoes_wrap(text in prop::collection::vec(any::<u8>(), 0..=733)) {
            let metadata = Metadata::User(text);
            let made = server_key().wrap(&client_key(), &metadata).unwrap();
            prop_assert_eq!(server_key().unwrap(made.wrapped()).unwrap(), (client_key(), metadata));
        }
    }
}
