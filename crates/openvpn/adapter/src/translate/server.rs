//! The parameters of a server, and of the listening end of a point-to-point tunnel.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use adit_core::{Dns, UnixTime};
use adit_openvpn::access::{AccessParams, PasswordScript, TokenParams};
use adit_openvpn::credentials::{CredentialError, Credentials, server_tls};
use adit_openvpn::params::{
    AdmissionParams, ControlParams, ExitNotify, PerClientParams, PointToPointParams, ServerParams,
};
use adit_openvpn::{TlsConfig, TlsRole};
use adit_openvpn_config as file;
use adit_openvpn_config::TokenSecret;
use adit_openvpn_config::{Config, PointToPointConfig, ServerConfig};
use adit_pki::Revocations;
use zeroize::Zeroizing;

use super::control::control;
use super::data::data;
use super::own_end::{point_to_point_settings, route_table};
use super::peer::{authorities, requirements};
use super::script_facts::said_to_scripts;
use crate::back_ends;
use crate::tls::environment;

/// The parameters of the listening end of a point-to-point tunnel.
pub(crate) fn point_to_point_params(
    config: &Config,
    point: &PointToPointConfig,
    credentials: &Credentials,
    revocations: Option<Revocations>,
    (wall, only_from): (UnixTime, Option<Vec<IpAddr>>),
) -> Result<ServerParams, CredentialError> {
    // Only what both kinds of server share is taken from here.
    let server = ServerConfig {
        listen: point.listen.clone(),
        ipv4: None,
        ipv6: None,
        push: Vec::new(),
        client_to_client: false,
        forward: Vec::new(),
        duplicate_cn: false,
        port_share: None,
        max_clients: 1,
        exit_notify: 0,
        per_client: file::PerClient::default(),
        admission: file::Admission { tls_crypt_v2: point.tls_crypt_v2.clone(), ..Default::default() },
        access: file::Access {
            tls_verify: config.scripts.tls_verify.clone(),
            env: config.scripts.env.clone(),
            ..file::Access::default()
        },
    };
    // There are no tokens to make.
    let no_secret = [0; 32];
    Ok(ServerParams {
        point_to_point: Some(PointToPointParams {
            local: point_to_point_settings(config, point),
            only_from,
            exit_notify: point.exit_notify > 0,
            single: point.single,
        }),
        ..server_params(config, &server, credentials, revocations, &no_secret, wall)?
    })
}

/// A server's parameters; `config` is a server's.
pub(crate) fn server_params(
    config: &Config,
    server: &ServerConfig,
    credentials: &Credentials,
    revocations: Option<Revocations>,
    secret: &[u8; 32],
    wall: UnixTime,
) -> Result<ServerParams, CredentialError> {
    let requirements = requirements(config, revocations.clone());
    let tls = server_tls(credentials, requirements, &environment(config))?;
    Ok(ServerParams {
        control: ControlParams {
            authorities: authorities(config, credentials),
            ..control(config, TlsConfig::Server(tls), TlsRole::Server, revocations, wall)
        },
        data: data(config),
        address4: server.ipv4.map(|v4| v4.address),
        pool4: server.ipv4.and_then(|v4| v4.pool),
        address6: server.ipv6.map(|v6| v6.address),
        pool6: server.ipv6.and_then(|v6| v6.pool),
        push: server.push.clone(),
        routes: config.routes.clone(),
        table: route_table(config),
        keepalive: config.liveness,
        limits: config.limits,
        client_to_client: server.client_to_client,
        duplicate_cn: server.duplicate_cn,
        max_clients: usize::try_from(server.max_clients).unwrap_or(usize::MAX),
        exit_notify: match server.exit_notify {
            0 => ExitNotify::Off,
            1 => ExitNotify::Restart,
            _ => ExitNotify::NextServer,
        },
        access: access(config, server, secret),
        per_client: PerClientParams { ask: server.per_client.directory.is_some(), remembered: Vec::new() },
        admission: admission(&server.admission),
        point_to_point: None,
        // Scripts about its clients get its routes, too.
        scripts: Some(Arc::new(said_to_scripts(config, None, &Dns::default()))),
    })
}

fn admission(admission: &file::Admission) -> AdmissionParams {
    AdmissionParams {
        v2: admission.tls_crypt_v2.clone(),
        answers: admission.connect_freq_initial.unwrap_or(AdmissionParams::default().answers),
        clients: admission.connect_freq,
    }
}

/// The conditions in a server's file for clients to be let in. `secret` makes tokens, unless the file has a
/// key for them.
fn access(config: &Config, server: &ServerConfig, secret: &[u8; 32]) -> AccessParams {
    let access = &server.access;
    let forever = Duration::from_secs(u64::from(u32::MAX));
    AccessParams {
        verify: access.verify.clone(),
        back_ends: back_ends::commands(access)
            .into_iter()
            .map(|argv| PasswordScript { argv, by_file: true })
            .collect(),
        management: access.management,
        optional: access.optional,
        username_as_name: access.username_as_name,
        tokens: access.tokens.map(|times| TokenParams {
            lifetime: times.lifetime,
            renewal: times.renewal.or(config.rekey.after).unwrap_or(forever),
            secret: Zeroizing::new(access.token_secret.as_ref().map_or(*secret, TokenSecret::hmac_key)),
            external: times.external,
        }),
        tls_verify: access.tls_verify.clone(),
        export_certificates: access.export_certificates,
        key_verify: access.key_verify.clone(),
        client_crresponse: access.client_crresponse.clone(),
        client_connect: access.client_connect.clone(),
        client_disconnect: access.client_disconnect.clone(),
        learn_address: access.learn_address.clone(),
        env: access.env.clone(),
    }
}
