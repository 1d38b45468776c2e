//! The data plane's codec of an OpenVPN session, with the AEADs that suit the processor.

use adit_dataplane::aead::AeadError;
use adit_dataplane::codec::SessionCodec;
use adit_dataplane::{OuterPolicy, TrafficClass};
use adit_openvpn::request::Install;

/// The codec of an OpenVPN session.
///
/// # Errors
/// As [`adit_openvpn_codec::session_with`].
pub(crate) fn openvpn(install: &Install) -> Result<SessionCodec, AeadError> {
    adit_openvpn_codec::session_with(adit_io::aead::provider, &install.codec)
}

/// The codec of an OpenVPN session whose datagrams have the DSCP of the packets inside (`passtos`).
///
/// # Errors
/// As [`adit_openvpn_codec::session_with`].
pub(crate) fn openvpn_with_dscp(install: &Install) -> Result<SessionCodec, AeadError> {
    let outer = OuterPolicy { traffic_class: TrafficClass::Dscp, nested: None };
    Ok(SessionCodec { outer, ..openvpn(install)? })
}
