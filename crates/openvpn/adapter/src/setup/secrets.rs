//! The keys that hide the handshakes of a server's clients: tls-crypt-v2, or tls-crypt in older directories.

use std::path::Path;

use adit_core::UnixTime;
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::v2::{ClientKey, Metadata, ServerKey};
use adit_setup::{Secret, SetupError, files, random};
use time::OffsetDateTime;
use zeroize::Zeroizing;

/// The server's key for tls-crypt-v2, which makes each client a key that hides its handshake.
const SERVER_KEY: &str = "pki/tls-crypt-v2.key";

/// One tls-crypt key for all, in directories made before each client had its own.
const SHARED_KEY: &str = "pki/tls-crypt.key";

/// The key that hides a handshake, as a configuration says it.
pub(super) struct WrapKey {
    pub(super) directive: &'static str,
    pub(super) text: Zeroizing<String>,
}

/// A new server's key.
pub(super) fn new_server() -> Result<Secret, SetupError> {
    Ok(Secret { file: SERVER_KEY, text: ServerKey::from_bytes(&*random()?).to_text() })
}

/// The key that hides a new client's handshake: a key of its own, or the key of all in a directory made before clients had their own,
/// whose server knows no other.
pub(super) fn of_client(dir: &Path, now: OffsetDateTime) -> Result<WrapKey, SetupError> {
    let shared = dir.join(SHARED_KEY);
    if dir.join(SERVER_KEY).exists() || !shared.exists() {
        let text = new_client_key(dir, now)?.to_text();
        return Ok(WrapKey { directive: "tls-crypt-v2", text });
    }
    let key = StaticKey::parse(&files::read(&shared)?)
        .map_err(|why| SetupError::Certificate { what: "read pki/tls-crypt.key", why })?;
    Ok(WrapKey { directive: "tls-crypt", text: key.to_text() })
}

/// A client's key for tls-crypt-v2, which tells the server when it was made.
fn new_client_key(dir: &Path, now: OffsetDateTime) -> Result<ClientKey, SetupError> {
    let text = files::read(&dir.join(SERVER_KEY))?;
    let failed = |why| SetupError::Certificate { what: "read pki/tls-crypt-v2.key", why };
    let server = ServerKey::parse(&text).map_err(failed)?;
    let made = Metadata::Made(UnixTime(u64::try_from(now.unix_timestamp()).unwrap_or(0)));
    let key = StaticKey::from_bytes(&*random()?);
    server.wrap(&key, &made).map_err(|why| failed(why.to_string()))
}
