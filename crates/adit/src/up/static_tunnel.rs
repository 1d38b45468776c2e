//! From a file with `secret` to what the protocol takes.

use std::time::Duration;

use adit_config::openvpn::{Config, Role, SharedSecret};
use adit_core::UnixTime;
use adit_openvpn::params::{DataParams, LocalSettings, StaticParams};
use adit_openvpn::static_key::StaticKey;

use super::translate::{
    data, keepalive, key_direction, local_settings, only_from, point_settings, remote_params,
};

/// The parameters of a tunnel with a static key.
pub(super) fn params(
    config: &Config,
    secret: &SharedSecret,
    resolve_patience: Option<Duration>,
    wall_at_origin: UnixTime,
) -> StaticParams {
    let DataParams { digest, compression, replay_window, tun_mtu, mssfix, .. } = data(config);
    let waiting = StaticParams {
        key: StaticKey::from_bytes(secret.key.bytes()),
        direction: key_direction(secret.direction),
        cipher: secret.cipher,
        digest,
        compression,
        replay_window,
        tun_mtu,
        mssfix,
        keepalive: keepalive(config),
        limits: config.limits,
        local: LocalSettings::default(),
        remotes: Vec::new(),
        float: config.socket.float,
        only_from: Vec::new(),
        exit_notify: false,
        retry: (Duration::from_secs(1), Duration::from_secs(300)),
        retry_max: None,
        resolve_patience,
        wall_at_origin,
    };
    match &config.role {
        Role::Client(client) => StaticParams {
            local: local_settings(config, client),
            remotes: client.remotes.iter().map(remote_params).collect(),
            retry: (client.connect_retry, client.connect_retry_longest),
            retry_max: client.connect_retry_max,
            ..waiting
        },
        Role::Point(point) => StaticParams {
            local: point_settings(config, point),
            only_from: only_from(config, point),
            exit_notify: point.exit_notify > 0,
            ..waiting
        },
        // No file makes a server of many with a static key.
        Role::Server(_) => waiting,
    }
}
