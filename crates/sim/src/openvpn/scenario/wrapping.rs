//! How the control channel is wrapped, with keys that follow from a client's number.

use std::sync::Arc;
use std::time::Duration;

use adit_core::UnixTime;
use adit_openvpn::TlsRole;
use adit_openvpn::params::TlsCryptV2;
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::v2::{Metadata, ServerKey};
use adit_openvpn::wrap::{HmacDigest, KeyDirection, WrapConfig};

use crate::openvpn::crypto::WALL_AT_ORIGIN;
use crate::openvpn::identity::client_name;

/// How the control channel is wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapping {
    Plain,
    TlsAuth(HmacDigest),
    TlsCrypt,
    /// Each client with a key of its own.
    TlsCryptV2 {
        /// The server takes only keys that say when they were made.
        dated: bool,
        /// `force-cookie`: clients that do not repeat their key are refused.
        force_cookie: bool,
    },
    /// Clients with odd numbers have a key of their own, the others share one.
    TlsCryptBoth,
}

/// How old a dated key may be. Clocks go wrong by less.
const MAX_AGE: Duration = Duration::from_secs(2 * 365 * 86_400);

/// Bytes that stand for a key.
fn key_bytes<const N: usize>(number: usize) -> [u8; N] {
    std::array::from_fn(|index| index as u8 ^ 0x5a ^ number as u8)
}

impl Wrapping {
    /// The wrapping as client number `number` has it.
    ///
    /// # Errors
    /// When a key cannot be made, as text.
    pub(crate) fn client(self, number: usize) -> Result<WrapConfig, String> {
        let key = StaticKey::from_bytes(&key_bytes(0));
        match self {
            Wrapping::Plain => Ok(WrapConfig::Plain),
            Wrapping::TlsAuth(digest) => Ok(WrapConfig::tls_auth(&key, digest, KeyDirection::Inverse)),
            Wrapping::TlsCryptV2 { dated: true, .. } => {
                own_key(number, &Metadata::Made(UnixTime(WALL_AT_ORIGIN - 86_400)))
            }
            Wrapping::TlsCryptV2 { .. } => own_key(number, &Metadata::User(client_name(number).into_bytes())),
            Wrapping::TlsCryptBoth if number % 2 == 1 => own_key(number, &Metadata::Other(Vec::new())),
            Wrapping::TlsCrypt | Wrapping::TlsCryptBoth => Ok(WrapConfig::tls_crypt(&key, TlsRole::Client)),
        }
    }

    /// The wrapping as the server has it: for all, and for each client of its own.
    pub(crate) fn server(self) -> (WrapConfig, Option<TlsCryptV2>) {
        let key = StaticKey::from_bytes(&key_bytes(0));
        let v2 = |force_cookie, max_age| {
            let key = Arc::new(ServerKey::from_bytes(&key_bytes(0)));
            Some(TlsCryptV2 { key, force_cookie, max_age })
        };
        match self {
            Wrapping::Plain => (WrapConfig::Plain, None),
            Wrapping::TlsAuth(digest) => (WrapConfig::tls_auth(&key, digest, KeyDirection::Normal), None),
            Wrapping::TlsCrypt => (WrapConfig::tls_crypt(&key, TlsRole::Server), None),
            Wrapping::TlsCryptV2 { dated, force_cookie } => {
                (WrapConfig::Plain, v2(force_cookie, dated.then_some(MAX_AGE)))
            }
            Wrapping::TlsCryptBoth => (WrapConfig::tls_crypt(&key, TlsRole::Server), v2(false, None)),
        }
    }
}

/// The wrapping of a client that has a key of its own.
fn own_key(number: usize, metadata: &Metadata) -> Result<WrapConfig, String> {
    let key = StaticKey::from_bytes(&key_bytes(number));
    let key = ServerKey::from_bytes(&key_bytes(0)).wrap(&key, metadata);
    Ok(WrapConfig::tls_crypt_v2(&key.map_err(|error| error.to_string())?))
}
