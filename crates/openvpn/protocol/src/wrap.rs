//! The wrapping of control packets: none, tls-auth (an HMAC) or tls-crypt (encrypted and authenticated).
//!
//! - none: `op | sid | body`
//! - tls-auth: `op | sid | HMAC | id (4) | time (4) | body`, HMAC over `id | time | op | sid | body`
//! - tls-crypt: `op | sid | id (4) | time (4) | tag (32) | AES-256-CTR(body)`, tag = HMAC-SHA256 over
//!   `op | sid | id | time | body`, the counter starts at the tag's first 16 bytes
//! - tls-crypt-v2: the same with a key of the client's own, which it sends along, see [`v2`]
//! - dynamic tls-crypt: the same with a key of the control channel's own, see [`WrapConfig::dynamic`]
//!
//! Sources: OpenVPN ssl_pkt.c (`swap_hmac`), tls_crypt.c.

use std::sync::Arc;

use adit_core::{Rejected, UnixTime};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::Zeroizing;

/// The digest of tls-auth's HMAC (the `auth` option).
pub use adit_core::Digest as HmacDigest;

use crate::static_key::{Half, StaticKey};
use crate::wire::{HEADER_LEN, Header, Sid, TlsRole};

mod crypt_key;
mod replay;
pub mod v2;

use crypt_key::CryptKey;
pub use replay::WrapReplay;
use v2::ClientKey;

/// Length of the packet id with its time.
const ID_LEN: usize = 8;
/// Length of tls-crypt's tag.
const TAG_LEN: usize = 32;
/// Bytes that tls-crypt adds, with whatever key.
pub(crate) const CRYPT_OVERHEAD: usize = ID_LEN + TAG_LEN;

/// The HMAC of the parts, one after the other.
pub(crate) fn authenticate(digest: HmacDigest, key: &[u8], parts: [&[u8]; 3]) -> Vec<u8> {
    fn run<M: Mac + KeyInit>(key: &[u8], parts: [&[u8]; 3]) -> Vec<u8> {
        let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else {
            unreachable!("HMAC takes keys of any length");
        };
        parts.into_iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().to_vec()
    }
    match digest {
        HmacDigest::Sha1 => run::<Hmac<Sha1>>(key, parts),
        HmacDigest::Sha224 => run::<Hmac<Sha224>>(key, parts),
        HmacDigest::Sha256 => run::<Hmac<Sha256>>(key, parts),
        HmacDigest::Sha384 => run::<Hmac<Sha384>>(key, parts),
        HmacDigest::Sha512 => run::<Hmac<Sha512>>(key, parts),
    }
}
/// Which half of a static key `tls-auth` and `secret` use for which direction (the `key-direction` option).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyDirection {
    /// No direction given: both ends use the first half both ways.
    #[default]
    Bidirectional,
    /// `key-direction 0`, usual on servers: seal with the first half, open with the second.
    Normal,
    /// `key-direction 1`, usual on clients: seal with the second half, open with the first.
    Inverse,
}

impl KeyDirection {
    /// The half to seal with and the half to open with.
    pub(crate) const fn halves(self) -> (Half, Half) {
        match self {
            KeyDirection::Bidirectional => (Half::First, Half::First),
            KeyDirection::Normal => (Half::First, Half::Second),
            KeyDirection::Inverse => (Half::Second, Half::First),
        }
    }
}

/// Keys of tls-auth. Debug shows none of them.
pub struct AuthKeys {
    digest: HmacDigest,
    direction: KeyDirection,
    seal: Zeroizing<Vec<u8>>,
    open: Zeroizing<Vec<u8>>,
    whole: StaticKey,
}

/// Keys of tls-crypt. Debug shows none of them.
pub struct CryptKeys {
    seal: CryptKey,
    open: CryptKey,
    whole: StaticKey,
    bearer: Bearer,
}

/// Where the wrapped key of tls-crypt-v2 comes in.
enum Bearer {
    /// Nowhere: tls-crypt.
    None,
    /// We are the client and bring it.
    Us(Vec<u8>),
    /// We are the server and have it already: when it comes again, it is taken off unread.
    Peer,
}

impl std::fmt::Debug for AuthKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthKeys").field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for CryptKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CryptKeys").finish_non_exhaustive()
    }
}

/// How control packets are wrapped, without any state. Cloning shares the keys.
#[derive(Clone, Debug)]
pub enum WrapConfig {
    /// Not at all.
    Plain,
    /// An HMAC (`tls-auth`).
    TlsAuth(Arc<AuthKeys>),
    /// Encrypted and authenticated (`tls-crypt`).
    TlsCrypt(Arc<CryptKeys>),
}

impl WrapConfig {
    /// tls-auth with this key.
    pub fn tls_auth(key: &StaticKey, digest: HmacDigest, direction: KeyDirection) -> Self {
        let (seal, open) = direction.halves();
        let slot =
            |half| Zeroizing::new(key.hmac_slot(half).iter().copied().take(digest.output_len()).collect());
        WrapConfig::TlsAuth(Arc::new(AuthKeys {
            digest,
            direction,
            seal: slot(seal),
            open: slot(open),
            whole: key.clone(),
        }))
    }

    /// tls-crypt with this key. The server seals with the first half (OpenVPN tls_crypt.c; the data channel
    /// is the other way round).
    pub fn tls_crypt(key: &StaticKey, role: TlsRole) -> Self {
        Self::crypt(key, role, Bearer::None, CryptKey::made_ready)
    }

    /// tls-crypt-v2 as the client with this key has it.
    pub fn tls_crypt_v2(key: &ClientKey) -> Self {
        Self::crypt(key.key(), TlsRole::Client, Bearer::Us(key.wrapped().to_vec()), |key| key)
    }

    /// tls-crypt-v2 as the server has it with the client whose key that is.
    pub(crate) fn tls_crypt_v2_of_client(key: &StaticKey) -> Self {
        Self::crypt(key, TlsRole::Server, Bearer::Peer, |key| key)
    }

    /// Dynamic tls-crypt: the wrapping key of renegotiations is made of 256 bytes that the first exchange's TLS
    /// exports, XOR the configured key if there is one (OpenVPN tls_crypt.c
    /// `tls_session_generate_dynamic_tls_crypt_key`).
    #[must_use]
    pub fn dynamic(&self, exported: &StaticKey, role: TlsRole) -> Self {
        match self {
            WrapConfig::Plain => Self::tls_crypt_dynamic(exported, role),
            WrapConfig::TlsAuth(keys) => Self::tls_crypt_dynamic(&exported.xor(&keys.whole), role),
            WrapConfig::TlsCrypt(keys) => Self::tls_crypt_dynamic(&exported.xor(&keys.whole), role),
        }
    }

    /// Bytes that the wrapped key adds to a datagram that brings it; `None` unless we are a client with
    /// tls-crypt-v2.
    pub(crate) fn client_key_len(&self) -> Option<usize> {
        match self {
            WrapConfig::TlsCrypt(keys) => match &keys.bearer {
                Bearer::Us(wrapped) => Some(wrapped.len()),
                Bearer::None | Bearer::Peer => None,
            },
            _ => None,
        }
    }

    /// Which half of tls-auth's key is for which direction; other wrappings have no such statement.
    pub(crate) fn key_direction(&self) -> KeyDirection {
        match self {
            WrapConfig::TlsAuth(keys) => keys.direction,
            WrapConfig::Plain | WrapConfig::TlsCrypt(_) => KeyDirection::Bidirectional,
        }
    }

    /// tls-crypt with a key that one control channel alone uses.
    fn tls_crypt_dynamic(key: &StaticKey, role: TlsRole) -> Self {
        Self::crypt(key, role, Bearer::None, |key| key)
    }

    fn crypt(key: &StaticKey, role: TlsRole, bearer: Bearer, prepare: impl Fn(CryptKey) -> CryptKey) -> Self {
        let part = |half| prepare(CryptKey::new(key.cipher_slot(half), key.hmac_slot(half)));
        let (seal, open) = match role {
            TlsRole::Server => (Half::First, Half::Second),
            TlsRole::Client => (Half::Second, Half::First),
        };
        WrapConfig::TlsCrypt(Arc::new(CryptKeys {
            seal: part(seal),
            open: part(open),
            whole: key.clone(),
            bearer,
        }))
    }

    /// A sealer of its own whose packet ids carry `start` as their time. They start at 1, but a client with
    /// tls-crypt-v2 says by a higher start that it reads early negotiation.
    pub fn instantiate(&self, start: UnixTime) -> Wrap {
        let last = if self.client_key_len().is_some() { v2::EARLY_NEGOTIATION } else { 0 };
        self.instantiate_after(start, last)
    }

    /// A sealer whose packet ids start at `last + 1`: for a control channel that follows a stateless answer which
    /// used ids up to `last` with the same `start`.
    pub fn instantiate_after(&self, start: UnixTime, last: u32) -> Wrap {
        Wrap { config: self.clone(), last, time: start.0 as u32 }
    }

    /// Verifies a control datagram and takes its wrapping off. Keeps no state: the caller checks
    /// [`Opened::wrap_id`] against its own [`WrapReplay`].
    ///
    /// # Errors
    /// [`Rejected::Malformed`] for a datagram that is no control datagram or too short,
    /// [`Rejected::Unauthentic`] if the tag does not verify, [`Rejected::Unexpected`] for data, and for
    /// wrapped tls-crypt-v2 client keys where none is expected.
    pub fn open(&self, datagram: &[u8]) -> Result<Opened, Rejected> {
        let (head, rest) = datagram
            .split_first_chunk::<HEADER_LEN>()
            .ok_or(Rejected::Malformed("shorter than opcode and session id"))?;
        let [first, sid @ ..] = *head;
        let header = Header::from_byte(first).ok_or(Rejected::Malformed("unknown opcode"))?;
        if header.opcode.is_data() {
            return Err(Rejected::Unexpected("a data packet on the control channel"));
        }
        let rest = if header.opcode.carries_client_key() { self.without_client_key(rest)? } else { rest };
        let sid = Sid(sid);
        if !sid.is_defined() {
            return Err(Rejected::Malformed("the session id is zero"));
        }
        let (wrap_id, body) = match self {
            WrapConfig::Plain => (None, rest.to_vec()),
            WrapConfig::TlsAuth(keys) => keys.open(head, rest)?,
            WrapConfig::TlsCrypt(keys) => keys.open(head, rest)?,
        };
        Ok(Opened { header, sid, wrap_id, body })
    }

    /// The rest of a datagram without the wrapped client key at its end, which is not looked at: the control channel has
    /// its key.
    fn without_client_key<'a>(&self, rest: &'a [u8]) -> Result<&'a [u8], Rejected> {
        match self {
            WrapConfig::TlsCrypt(keys) if matches!(keys.bearer, Bearer::Peer) => {
                let (rest, _) = v2::wrapped_key_at_end(rest)
                    .ok_or(Rejected::Malformed("the length of the tls-crypt-v2 client key"))?;
                Ok(rest)
            }
            _ => Err(Rejected::Unexpected("a tls-crypt-v2 client key where none has a place")),
        }
    }

    /// Bytes that the wrapping adds to `op | sid | body`.
    pub fn overhead(&self) -> usize {
        match self {
            WrapConfig::Plain => 0,
            WrapConfig::TlsAuth(keys) => keys.digest.output_len() + ID_LEN,
            WrapConfig::TlsCrypt(_) => CRYPT_OVERHEAD,
        }
    }
}

impl AuthKeys {
    fn open(&self, head: &[u8], rest: &[u8]) -> Result<(Option<WrapId>, Vec<u8>), Rejected> {
        let (tag, rest) = rest
            .split_at_checked(self.digest.output_len())
            .ok_or(Rejected::Malformed("too short for tls-auth's HMAC"))?;
        let (id, body) =
            rest.split_first_chunk().ok_or(Rejected::Malformed("too short for tls-auth's packet id"))?;
        let expected = authenticate(self.digest, &self.open, [id, head, body]);
        if !bool::from(expected.ct_eq(tag)) {
            return Err(Rejected::Unauthentic(
                "tls-auth's HMAC does not verify; the ends differ in key, key-direction or auth, or it is forged",
            ));
        }
        Ok((Some(WrapId::from_wire(*id)), body.to_vec()))
    }

    fn seal(&self, head: &[u8], id: &[u8], body: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(head);
        out.extend_from_slice(&authenticate(self.digest, &self.seal, [id, head, body]));
        out.extend_from_slice(id);
        out.extend_from_slice(body);
    }
}

impl CryptKeys {
    fn open(&self, head: &[u8], rest: &[u8]) -> Result<(Option<WrapId>, Vec<u8>), Rejected> {
        let (id, rest) =
            rest.split_first_chunk().ok_or(Rejected::Malformed("too short for tls-crypt's packet id"))?;
        let (tag, ciphertext) = rest
            .split_first_chunk::<TAG_LEN>()
            .ok_or(Rejected::Malformed("too short for tls-crypt's tag"))?;
        let mut body = ciphertext.to_vec();
        self.open.apply_keystream(tag, &mut body);
        if !bool::from(self.open.tag([head, id, &body]).ct_eq(tag)) {
            return Err(Rejected::Unauthentic(
                "tls-crypt's tag does not verify; the ends differ in key, or it is forged",
            ));
        }
        Ok((Some(WrapId::from_wire(*id)), body))
    }

    fn seal(&self, head: &[u8], id: &[u8], body: &[u8], out: &mut Vec<u8>) {
        let tag = self.seal.tag([head, id, body]);
        out.extend_from_slice(head);
        out.extend_from_slice(id);
        out.extend_from_slice(&tag);
        let start = out.len();
        out.extend_from_slice(body);
        if let Some(body) = out.get_mut(start..) {
            self.seal.apply_keystream(&tag, body);
        }
    }
}

/// The packet id of tls-auth and tls-crypt: protects the wrapping against replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WrapId {
    /// Counts the sender's datagrams, from 1.
    pub id: u32,
    /// When the sender started to count, in seconds of Unix time modulo 2³².
    pub time: u32,
}

impl WrapId {
    fn from_wire([i0, i1, i2, i3, t0, t1, t2, t3]: [u8; ID_LEN]) -> Self {
        WrapId { id: u32::from_be_bytes([i0, i1, i2, i3]), time: u32::from_be_bytes([t0, t1, t2, t3]) }
    }

    fn to_wire(self) -> [u8; ID_LEN] {
        let mut bytes = [0; ID_LEN];
        bytes[..4].copy_from_slice(&self.id.to_be_bytes());
        bytes[4..].copy_from_slice(&self.time.to_be_bytes());
        bytes
    }
}

/// A control datagram whose wrapping verified and is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Opcode and key id.
    pub header: Header,
    /// The sender's session id; never zero.
    pub sid: Sid,
    /// The wrapping's packet id, still to be checked for replay. `None` without wrapping.
    pub wrap_id: Option<WrapId>,
    /// The content, for [`crate::wire::ControlBody::decode`].
    pub body: Vec<u8>,
}

/// A sealer has used up its 2³²−1 packet ids; the connection must start over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("all packet ids of the control channel's wrapping are used; the connection must start over")]
pub struct WrapExhausted;

/// Seals one connection's control packets: the keys of a [`WrapConfig`] and the next packet id. Not `Clone`,
/// so that no id is used twice.
#[derive(Debug)]
pub struct Wrap {
    config: WrapConfig,
    last: u32,
    time: u32,
}

impl Wrap {
    /// No wrapping.
    pub fn plain() -> Self {
        WrapConfig::Plain.instantiate(UnixTime(0))
    }

    /// See [`WrapConfig::tls_auth`] and [`WrapConfig::instantiate`].
    pub fn tls_auth(key: &StaticKey, digest: HmacDigest, direction: KeyDirection, start: UnixTime) -> Self {
        WrapConfig::tls_auth(key, digest, direction).instantiate(start)
    }

    /// See [`WrapConfig::tls_crypt`] and [`WrapConfig::instantiate`].
    pub fn tls_crypt(key: &StaticKey, role: TlsRole, start: UnixTime) -> Self {
        WrapConfig::tls_crypt(key, role).instantiate(start)
    }

    /// Appends the wrapped datagram to `out`, under the next packet id.
    ///
    /// # Errors
    /// When the packet ids are used up; `out` is then unchanged.
    pub fn seal(
        &mut self,
        header: Header,
        sid: Sid,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), WrapExhausted> {
        let mut head = [0; HEADER_LEN];
        head[0] = header.to_byte();
        head[1..].copy_from_slice(&sid.0);
        if let WrapConfig::Plain = self.config {
            out.extend_from_slice(&head);
            out.extend_from_slice(body);
            return Ok(());
        }
        self.last = self.last.checked_add(1).ok_or(WrapExhausted)?;
        let id = WrapId { id: self.last, time: self.time }.to_wire();
        match &self.config {
            WrapConfig::Plain => {}
            WrapConfig::TlsAuth(keys) => keys.seal(&head, &id, body, out),
            WrapConfig::TlsCrypt(keys) => {
                keys.seal(&head, &id, body, out);
                if let (true, Bearer::Us(wrapped)) = (header.opcode.carries_client_key(), &keys.bearer) {
                    out.extend_from_slice(wrapped);
                }
            }
        }
        Ok(())
    }

    /// The keys, without the state.
    pub(crate) fn config(&self) -> &WrapConfig {
        &self.config
    }

    /// See [`WrapConfig::open`].
    pub fn open(&self, datagram: &[u8]) -> Result<Opened, Rejected> {
        self.config.open(datagram)
    }

    /// See [`WrapConfig::overhead`].
    pub fn overhead(&self) -> usize {
        self.config.overhead()
    }
}

#[cfg(test)]
mod tests;
