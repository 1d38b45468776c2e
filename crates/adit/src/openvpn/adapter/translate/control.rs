//! The control channel: its wrapping, its times.

use adit_core::UnixTime;
use adit_openvpn::credentials::CredentialError;
use adit_openvpn::params::ControlParams;
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::v2::ClientKey;
use adit_openvpn::wrap::{KeyDirection, WrapConfig};
use adit_openvpn::{TlsConfig, TlsRole, UseLimits};
use adit_openvpn_config as file;
use adit_openvpn_config::Config;
use adit_pki::Revocations;

use super::peer::name_fields;

pub(super) fn control(
    config: &Config,
    tls: TlsConfig,
    role: TlsRole,
    revocations: Option<Revocations>,
    wall_at_origin: UnixTime,
) -> Result<ControlParams, CredentialError> {
    let mut params = ControlParams::new(wrap(config, role)?, tls, wall_at_origin);
    params.hand_window = config.rekey.handshake;
    params.reneg = config.rekey.after;
    params.reneg_use = UseLimits { bytes: config.rekey.bytes, packets: config.rekey.packets };
    params.tran_window = config.rekey.transition;
    params.retransmit = config.rekey.retransmit;
    if let Some(size) = config.socket.control_size {
        params.max_packet_size = usize::from(size);
    }
    params.revocations = revocations;
    params.name_fields = name_fields(config);
    Ok(params)
}

fn wrap(config: &Config, role: TlsRole) -> Result<WrapConfig, CredentialError> {
    Ok(match &config.wrap {
        file::Wrap::None => WrapConfig::Plain,
        file::Wrap::TlsAuth { key, direction } => {
            let key = StaticKey::from_bytes(key.bytes());
            WrapConfig::tls_auth(&key, config.data.auth, key_direction(*direction))
        }
        file::Wrap::TlsCrypt { key } => WrapConfig::tls_crypt(&StaticKey::from_bytes(key.bytes()), role),
        file::Wrap::TlsCryptV2 { key } => {
            let key = ClientKey::from_bytes(key.bytes()).map_err(|error| CredentialError::Pem {
                directive: "tls-crypt-v2",
                reason: error.to_string(),
            })?;
            WrapConfig::tls_crypt_v2(&key)
        }
    })
}

pub(crate) fn key_direction(direction: Option<file::KeyDirection>) -> KeyDirection {
    match direction {
        None => KeyDirection::Bidirectional,
        Some(file::KeyDirection::Normal) => KeyDirection::Normal,
        Some(file::KeyDirection::Inverse) => KeyDirection::Inverse,
    }
}
