//! How a client wraps its control channel, from the text of its key.

use adit_load::LoadError;
use adit_openvpn::TlsRole;
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::v2::ClientKey;
use adit_openvpn::wrap::{HmacDigest, KeyDirection, WrapConfig};

/// The wrapping, with the text of the client's key file.
#[derive(Clone)]
pub enum Wrapping {
    /// No wrapping.
    None,
    /// `tls-auth` with `key-direction 1` and `auth SHA256`.
    TlsAuth(String),
    /// `tls-crypt`.
    TlsCrypt(String),
    /// `tls-crypt-v2`.
    TlsCryptV2(String),
}

impl Wrapping {
    /// The wrapping as a client uses it.
    ///
    /// # Errors
    /// When the key is not one.
    pub fn client(&self) -> Result<WrapConfig, LoadError> {
        let key = |text: &str| StaticKey::parse(text).map_err(LoadError::key("the static key"));
        Ok(match self {
            Wrapping::None => WrapConfig::Plain,
            Wrapping::TlsAuth(text) => {
                WrapConfig::tls_auth(&key(text)?, HmacDigest::Sha256, KeyDirection::Inverse)
            }
            Wrapping::TlsCrypt(text) => WrapConfig::tls_crypt(&key(text)?, TlsRole::Client),
            Wrapping::TlsCryptV2(text) => {
                let key = ClientKey::parse(text).map_err(LoadError::key("the tls-crypt-v2 key"))?;
                WrapConfig::tls_crypt_v2(&key)
            }
        })
    }
}
