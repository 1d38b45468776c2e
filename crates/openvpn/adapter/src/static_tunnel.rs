//! From a file with `secret` to what the protocol takes.

use std::net::IpAddr;
use std::time::Duration;

use adit_core::UnixTime;
use adit_openvpn::params::{DataParams, StaticParams};
use adit_openvpn_config::{Config, Role, SharedSecret};

use super::translate::{data, local_settings, point_to_point_settings, remote_params};

/// The parameters of a tunnel with a static key.
pub(crate) fn params(
    config: &Config,
    secret: &SharedSecret,
    resolve_timeout: Option<Duration>,
    (wall_at_origin, only_from): (UnixTime, Option<Vec<IpAddr>>),
) -> StaticParams {
    let DataParams {
        digest,
        compression,
        decompress,
        fragment,
        replay_window,
        tun_mtu,
        told_mtu,
        mssfix,
        ..
    } = data(config);
    let waiting = StaticParams {
        digest,
        compression,
        decompress,
        fragment,
        replay_window,
        tun_mtu,
        told_mtu,
        mssfix,
        keepalive: config.liveness,
        limits: config.limits,
        float: config.socket.float,
        resolve_timeout,
        ..StaticParams::new(secret.key.clone(), secret.direction, secret.cipher, wall_at_origin)
    };
    match &config.role {
        Role::Client(client) => StaticParams {
            local: local_settings(config, client),
            remotes: client.remotes.iter().map(remote_params).collect(),
            retry: (client.connect_retry, client.connect_retry_longest),
            retry_max: client.connect_retry_max,
            ..waiting
        },
        Role::PointToPoint(point) => StaticParams {
            local: point_to_point_settings(config, point),
            only_from,
            exit_notify: point.exit_notify > 0,
            ..waiting
        },
        // No file makes a server of many with a static key.
        Role::Server(_) => waiting,
    }
}
