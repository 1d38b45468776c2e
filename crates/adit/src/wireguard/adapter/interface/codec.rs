//! The data plane's codec of a session.

use adit_core::{Cipher, Install};
use adit_dataplane::aead::AeadError;
use adit_dataplane::codec::{SessionCodec, wireguard};
use adit_wireguard::Codec;

/// The codec of a WireGuard session.
///
/// # Errors
/// As [`wireguard::session_with`].
pub(super) fn session(install: &Install<Codec>) -> Result<SessionCodec, AeadError> {
    let Codec { remote_index, mtu, seal, open, expires } = &install.codec;
    let keys = (&seal[..], &open[..]);
    let codec = wireguard::session_with(
        adit_io::aead::provider,
        *remote_index,
        *mtu,
        Cipher::ChaCha20Poly1305,
        keys,
        Codec::REPLAY_WINDOW,
    )?;
    Ok(SessionCodec { expires: Some(*expires), ..codec })
}
