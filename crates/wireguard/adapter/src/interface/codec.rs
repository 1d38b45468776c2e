//! The data plane's codec of a session, with the AEADs that suit the processor.

use adit_core::Install;
use adit_dataplane::aead::AeadError;
use adit_dataplane::codec::SessionCodec;
use adit_wireguard::Codec;

/// The codec of a WireGuard session.
///
/// # Errors
/// As [`adit_wireguard_codec::session_with`].
pub(super) fn session(install: &Install<Codec>) -> Result<SessionCodec, AeadError> {
    adit_wireguard_codec::session_with(adit_io::aead::provider, &install.codec)
}
