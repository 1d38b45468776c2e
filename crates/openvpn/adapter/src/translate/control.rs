//! The control channel: its wrapping, its times.

use adit_core::UnixTime;
use adit_openvpn::params::ControlParams;
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{TlsConfig, TlsRole};
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
) -> ControlParams {
    let mut params = ControlParams::new(wrap(config, role), tls, wall_at_origin);
    params.rekey = config.rekey;
    if let Some(size) = config.socket.control_size {
        params.max_packet_size = usize::from(size);
    }
    params.revocations = revocations;
    params.name_fields = name_fields(config);
    params
}

fn wrap(config: &Config, role: TlsRole) -> WrapConfig {
    match &config.wrap {
        file::Wrap::None => WrapConfig::Plain,
        file::Wrap::TlsAuth { key, direction } => WrapConfig::tls_auth(key, config.data.auth, *direction),
        file::Wrap::TlsCrypt { key } => WrapConfig::tls_crypt(key, role),
        file::Wrap::TlsCryptV2 { key } => WrapConfig::tls_crypt_v2(key),
    }
}
