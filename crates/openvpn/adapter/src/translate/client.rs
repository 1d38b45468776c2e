//! A client's parameters.

use std::time::Duration;

use adit_core::{Transport, UnixTime};
use adit_openvpn::credentials::{CredentialError, Credentials, client_tls, client_tls_with_external_key};
use adit_openvpn::params::{ClientParams, ControlParams, RemoteParams};
use adit_openvpn::{TlsConfig, TlsRole};
use adit_openvpn_config as file;
use adit_openvpn_config::{ClientConfig, Config};
use adit_pki::Revocations;

use super::client_options;
use super::control::control;
use super::data::data;
use super::own_end::local_settings;
use super::peer::{authorities, requirements};
use crate::external_key::ExternalKey;
use crate::tls::environment;

/// A client's parameters; `config` is a client's. The key of `credentials` may be held elsewhere.
pub(crate) fn client_params(
    config: &Config,
    client: &ClientConfig,
    (credentials, key): (&Credentials, Option<&ExternalKey>),
    resolve_timeout: Option<Duration>,
    revocations: Option<Revocations>,
    wall: UnixTime,
) -> Result<ClientParams, CredentialError> {
    let requirements = requirements(config, revocations.clone());
    let environment = environment(config);
    let tls = match key {
        None => client_tls(credentials, requirements, &environment)?,
        Some(key) => {
            client_tls_with_external_key(credentials, key.holder.clone(), requirements, &environment)?
        }
    };
    Ok(ClientParams {
        control: ControlParams {
            authorities: authorities(config, credentials),
            holds_hello: config.scripts.tls_verify.is_some(),
            signs_outside: key.is_some(),
            ..control(config, TlsConfig::Client(tls), TlsRole::Client, revocations, wall)
        },
        data: data(config),
        remotes: client.remotes.iter().map(remote_params).collect(),
        keepalive: config.liveness,
        limits: config.limits,
        retry: (client.connect_retry, client.connect_retry_longest),
        retry_max: client.connect_retry_max,
        resolve_timeout,
        float: config.socket.float,
        route_nopull: client.route_nopull,
        pull_filters: client.pull_filters.clone(),
        local: local_settings(config, client),
        peer_info: client.peer_info.clone(),
        tls_exit: client.tls_exit,
        ends_when_lost: client.ends_when_lost,
        max_pushed_mtu: client.max_pushed_mtu,
        auth: client.auth.as_ref().map(client_options::user_auth),
        pull: client.pull,
        asks_to_go_on: false,
        asks_for_remote: false,
        asks_for_proxy_credentials: false,
    })
}

pub(crate) fn remote_params(remote: &file::Remote) -> RemoteParams {
    RemoteParams {
        name: format!("{}:{} ({})", remote.host, remote.port, transport_name(remote.transport)),
        host: remote.host.clone(),
        port: remote.port,
        protocol: client_options::protocol(remote.transport, remote.family),
        transport: remote.transport,
        poll_timeout: remote.connect_timeout,
        exit_notify: remote.exit_notify > 0,
    }
}

fn transport_name(transport: Transport) -> &'static str {
    match transport {
        Transport::Udp | Transport::Ip(_) => "udp",
        Transport::Tcp => "tcp",
    }
}
