//! The data plane's codec of a child SA, with the AEADs that suit the processor.

use adit_core::Install;
use adit_dataplane::aead::AeadError;
use adit_dataplane::codec::SessionCodec;
use adit_ike::machine::Codec;

/// The codec of a child SA.
///
/// # Errors
/// As [`adit_ike_codec::session_with`].
pub(crate) fn session(install: &Install<Codec>) -> Result<SessionCodec, AeadError> {
    adit_ike_codec::session_with(adit_io::aead::provider, &install.codec)
}
