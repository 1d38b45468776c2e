//! From a parsed configuration to what the protocol and the driver take.

mod client_options;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use adit_config::TokenSecret;
use adit_config::openvpn as file;
use adit_config::openvpn::{ClientConfig, Config, PointToPointConfig, ServerConfig};
use adit_core::{Dns, IpNet, Ipv4Net, Ipv6Net, RouteTable, Transport, UnixTime};
use adit_dataplane as dataplane;
use adit_dataplane::codec::{Demultiplexer, openvpn as openvpn_codec};
use adit_io::{
    Buffers, DriverConfig, Execution, Family, Listen, OffloadSwitches, PortShare, Remote, SocketRouting,
    StreamOptions, TunConfig,
};
use adit_openvpn::access::{AccessParams, PasswordScript, TokenParams};
use adit_openvpn::codec::Compression;
use adit_openvpn::credentials::{
    self, CredentialError, Credentials, client_tls, client_tls_with_external_key, server_tls,
};
use adit_openvpn::params::{
    AdmissionParams, ClientParams, ControlParams, DataParams, ExitNotify, Fragment, Keepalive, LocalSettings,
    MssFix, PerClientParams, PointToPointParams, PullAction, PushedCompression, Rate, RemoteParams,
    ScriptParams, ServerParams, TlsCryptV2,
};
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::v2::{ClientKey, ServerKey};
use adit_openvpn::wrap::{KeyDirection, WrapConfig};
use adit_openvpn::{TlsConfig, TlsRole, UseLimits};
use adit_pki::{CertificateDemand, NameCheck, NameField, NameFields, PeerRequirements, Purpose, Revocations};
use rustls_pki_types::CertificateDer;
use zeroize::Zeroizing;

use super::back_ends;
use super::external_key::ExternalKey;
use super::proxies;
use super::scripts;
use super::tls::environment;

/// OpenVPN's own default would be 100, which drops packets of fast senders.
const TXQUEUELEN: u32 = 1000;

/// The default of `mssfix`, 1492, less what a relay puts before each datagram to an IPv6 address (RFC 1928 §7).
const RELAYED_MTU: u16 = 1492 - 22;

/// What the driver needs for `config`.
pub(super) fn driver_config(config: &Config, offloads: OffloadSwitches, workers: usize) -> DriverConfig {
    let (client_to_client, listen, remotes) = match &config.role {
        file::Role::Client(client) => (false, Vec::new(), remotes(client)),
        file::Role::Server(server) => {
            (server.client_to_client, server.listen.iter().map(listen).collect(), Vec::new())
        }
        file::Role::PointToPoint(point) => (false, point.listen.iter().map(listen).collect(), Vec::new()),
    };
    DriverConfig {
        tun: TunConfig {
            name: config.device.name.clone(),
            is_null: config.device.is_null,
            txqueuelen: txqueuelen(config),
            offloads,
            ..TunConfig::default()
        },
        single_peer: matches!(config.role, file::Role::Client(_)),
        changes_routing: matches!(config.role, file::Role::Client(_)) && !config.device.is_null,
        listen,
        multihome: config.socket.multihome,
        remotes,
        buffers: Buffers {
            sndbuf: config.socket.sndbuf.and_then(|size| usize::try_from(size).ok()),
            rcvbuf: config.socket.rcvbuf.and_then(|size| usize::try_from(size).ok()),
        },
        port_share: port_share(&config.role),
        socket_routing: SocketRouting { mark: config.socket.mark, device: config.socket.device },
        // One peer is served by one worker.
        max_connections: max_connections(&config.role),
        workers: if matches!(config.role, file::Role::PointToPoint(_)) { 1 } else { workers },
        resolv_conf: None,
        kill_switch: false,
        dataplane: dataplane::Config { client_to_client, ..dataplane::Config::of(demultiplexer(config)) },
        execution: execution(config),
        demultiplexers: BTreeMap::new(),
        streams: StreamOptions::default(),
    }
}

/// What is left to scripts, and whether they are asked first.
fn execution(config: &Config) -> Execution {
    let scripts = &config.scripts;
    Execution {
        leaves_device: scripts.leaves_device,
        leaves_routes: scripts.leaves_routes,
        leaves_names: scripts.leaves_names(),
        in_stages: scripts.commands().next().is_some() || scripts.route_delay.is_some(),
    }
}

/// What the protocol says for scripts, if there are any, or a program at the management socket hears of the same.
fn script_params(config: &Config, peer_ipv6: Option<Ipv6Addr>, dns: &Dns) -> Option<Arc<ScriptParams>> {
    let is_told = config.process.management.as_ref().is_some_and(|management| management.up_down);
    if config.scripts.commands().next().is_none() && !is_told {
        return None;
    }
    Some(Arc::new(said_to_scripts(config, peer_ipv6, dns)))
}

fn said_to_scripts(config: &Config, peer_ipv6: Option<Ipv6Addr>, dns: &Dns) -> ScriptParams {
    let scripts = &config.scripts;
    let servers = dns.servers.iter().map(|server| format!("DNS {server}"));
    let search = dns.search.iter().map(|domain| format!("DOMAIN {domain}"));
    let only_for = dns.only_for.iter().map(|domain| format!("DOMAIN-ROUTE {domain}"));
    ScriptParams {
        env: Vec::new(),
        dhcp_options: servers.chain(search).chain(only_for).collect(),
        gateway: scripts.gateway,
        peer_ipv6,
        tls_verify: scripts.tls_verify.clone(),
    }
}

/// `port-share`.
fn port_share(role: &file::Role) -> Option<PortShare> {
    let file::Role::Server(server) = role else { return None };
    server.port_share.as_ref().map(|share| PortShare {
        host: share.host.clone(),
        port: share.port,
        journal: share.journal.clone(),
    })
}

/// Packets that may wait in the device.
pub(super) fn txqueuelen(config: &Config) -> u32 {
    config.device.txqueuelen.unwrap_or(TXQUEUELEN)
}

/// How the data plane tells apart what arrives at the sockets.
fn demultiplexer(config: &Config) -> Arc<dyn Demultiplexer> {
    match (&config.secret, &config.role) {
        (Some(_), _) => Arc::new(openvpn_codec::StaticKey),
        (None, file::Role::Server(_)) => Arc::new(openvpn_codec::Server),
        // One peer, whatever peer-id it sends.
        (None, file::Role::Client(_) | file::Role::PointToPoint(_)) => Arc::new(openvpn_codec::Client),
    }
}

/// More than the protocol lets there be: clients that are in, that wait for a person, that are in their handshake, and
/// connections without a session (adit-openvpn's `server/limits.rs`).
fn max_connections(role: &file::Role) -> usize {
    const UNAUTHENTICATED: usize = 4096;
    let clients = match role {
        file::Role::Server(server) => usize::try_from(server.max_clients).unwrap_or(usize::MAX),
        file::Role::Client(_) | file::Role::PointToPoint(_) => 1,
    };
    clients.saturating_mul(2).saturating_add(UNAUTHENTICATED)
}

fn listen(listen: &file::Listen) -> Listen {
    let any = match listen.family {
        file::Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        file::Family::Any | file::Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    Listen {
        transport: listen.transport,
        address: SocketAddr::new(listen.address.unwrap_or(any), listen.port),
    }
}

/// The remotes, as the helper and the driver reach them.
pub(super) fn remotes(client: &ClientConfig) -> Vec<Remote> {
    let remote = |remote: &file::Remote| Remote {
        host: remote.host.clone(),
        random_hostname: client.remote_random_hostname,
        port: remote.port,
        transport: remote.transport,
        family: family(remote.family),
        bind: remote.bind.and_then(|bind| local_end(bind, remote.family)),
        connect_timeout: remote.connect_timeout,
        proxy: remote.proxy.as_ref().map(proxies::proxy),
        mark: None,
    };
    client.remotes.iter().map(remote).collect()
}

/// Where the client binds; nothing if the system chooses (`nobind`, or `lport 0`). An unspecified address takes the family of the server's.
fn local_end(bind: file::Bind, family: file::Family) -> Option<SocketAddr> {
    let any = match family {
        file::Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        file::Family::Any | file::Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    match bind {
        file::Bind { address: None, port: 0 } => None,
        file::Bind { address, port } => Some(SocketAddr::new(address.unwrap_or(any), port)),
    }
}

fn family(family: file::Family) -> Family {
    match family {
        file::Family::Any => Family::Any,
        file::Family::V4 => Family::V4,
        file::Family::V6 => Family::V6,
    }
}

/// A client's parameters; `config` is a client's. The key of `credentials` may be held elsewhere.
pub(super) fn client_params(
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
            ..control(config, TlsConfig::Client(tls), TlsRole::Client, revocations, wall)?
        },
        data: data(config),
        remotes: client.remotes.iter().map(remote_params).collect(),
        keepalive: keepalive(config),
        limits: config.limits,
        retry: (client.connect_retry, client.connect_retry_longest),
        retry_max: client.connect_retry_max,
        resolve_timeout,
        float: config.socket.float,
        route_nopull: client.route_nopull,
        pull_filters: client.pull_filters.iter().map(pull_filter).collect(),
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

pub(super) fn remote_params(remote: &file::Remote) -> RemoteParams {
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

fn pull_filter(filter: &file::PullFilter) -> (PullAction, String) {
    let action = match filter.action {
        file::PullAction::Accept => PullAction::Accept,
        file::PullAction::Ignore => PullAction::Ignore,
        file::PullAction::Reject => PullAction::Reject,
    };
    (action, filter.prefix.clone())
}

/// What the file itself says of the client's end of the tunnel.
pub(super) fn local_settings(config: &Config, client: &ClientConfig) -> LocalSettings {
    let (addresses, peer_address) = own_addresses(client.ipv4, client.ipv6);
    LocalSettings {
        routes: config.routes.clone(),
        table: route_table(config),
        redirect: client.redirect_gateway.map(client_options::redirect),
        block_ipv6: client.block_ipv6,
        dns: client.dns.clone(),
        addresses,
        peer_address,
        route_metric: client.route_metric,
        untold: config.device.ifconfig_nowarn,
        scripts: script_params(config, client.ipv6.map(|(_, peer)| peer), &client.dns),
    }
}

/// `route-table`.
fn route_table(config: &Config) -> RouteTable {
    /// linux/rtnetlink.h `RT_TABLE_MAIN`.
    const MAIN: u32 = 254;
    config.device.route_table.filter(|table| *table != MAIN).map_or(RouteTable::Main, RouteTable::Number)
}

/// Our addresses, and the other end's, as `ifconfig` and `ifconfig-ipv6` say.
fn own_addresses(
    ipv4: Option<file::StaticIpv4>,
    ipv6: Option<(Ipv6Net, Ipv6Addr)>,
) -> (Vec<IpNet>, Option<IpAddr>) {
    let (address4, peer_address) = match ipv4 {
        None => (None, None),
        Some(file::StaticIpv4::Subnet(network)) => (Some(network), None),
        Some(file::StaticIpv4::PointToPoint { local, peer }) => {
            (Ipv4Net::new(local, 32).ok(), Some(IpAddr::V4(peer)))
        }
    };
    let address6 = ipv6.map(|(network, _)| IpNet::V6(network));
    (address4.map(IpNet::V4).into_iter().chain(address6).collect(), peer_address)
}

/// The parameters of the listening end of a point-to-point tunnel.
pub(super) fn point_to_point_params(
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

/// What the file says of the waiting end of a point-to-point tunnel.
pub(super) fn point_to_point_settings(config: &Config, point: &PointToPointConfig) -> LocalSettings {
    let (addresses, peer_address) = own_addresses(point.ipv4, point.ipv6);
    LocalSettings {
        routes: config.routes.clone(),
        table: route_table(config),
        addresses,
        peer_address,
        untold: config.device.ifconfig_nowarn,
        scripts: script_params(config, point.ipv6.map(|(_, peer)| peer), &Dns::default()),
        ..LocalSettings::default()
    }
}

/// A server's parameters; `config` is a server's.
pub(super) fn server_params(
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
            ..control(config, TlsConfig::Server(tls), TlsRole::Server, revocations, wall)?
        },
        data: data(config),
        address4: server.ipv4.map(|v4| v4.address),
        pool4: server.ipv4.and_then(|v4| v4.pool),
        address6: server.ipv6.map(|v6| v6.address),
        pool6: server.ipv6.and_then(|v6| v6.pool),
        push: server.push.clone(),
        routes: config.routes.clone(),
        table: route_table(config),
        keepalive: keepalive(config),
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
        // Scripts about its clients are told of its routes, too.
        scripts: Some(Arc::new(said_to_scripts(config, None, &Dns::default()))),
    })
}

fn admission(admission: &file::Admission) -> AdmissionParams {
    let rate = |frequency: file::Frequency| Rate { count: frequency.count, period: frequency.period };
    let v2 = admission.tls_crypt_v2.as_ref().and_then(|v2| {
        let key = v2.key.bytes().try_into().ok()?;
        Some(TlsCryptV2 {
            key: Arc::new(ServerKey::from_bytes(key)),
            force_cookie: v2.force_cookie,
            max_age: v2.max_age,
        })
    });
    AdmissionParams {
        v2,
        answers: admission.connect_freq_initial.map_or(AdmissionParams::default().answers, rate),
        clients: admission.connect_freq.map(rate),
    }
}

fn transport_name(transport: Transport) -> &'static str {
    match transport {
        Transport::Udp => "udp",
        Transport::Tcp => "tcp",
    }
}

/// What a server's file says on who is let in. `secret` makes tokens, unless the file has a key for them.
fn access(config: &Config, server: &ServerConfig, secret: &[u8; 32]) -> AccessParams {
    let access = &server.access;
    let forever = Duration::from_secs(u64::from(u32::MAX));
    AccessParams {
        verify: access
            .verify
            .as_ref()
            .map(|script| PasswordScript { argv: script.argv.clone(), by_file: script.by_file }),
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

/// Certificates in `ca` and revocation lists that have no effect, for the log.
pub(super) fn warnings(
    config: &Config,
    credentials: &Credentials,
    lists: Option<&Revocations>,
) -> Vec<String> {
    let purpose = match &config.role {
        file::Role::Client(_) => Purpose::Server,
        file::Role::Server(_) | file::Role::PointToPoint(_) => Purpose::Client,
    };
    let now = rustls_pki_types::UnixTime::since_unix_epoch(Duration::from_secs(adit_io::unix_now().0));
    credentials::warnings(credentials, purpose, now, lists)
}

/// The authorities that scripts are told of: where there are some, they may be told who issued a certificate.
fn authorities(config: &Config, credentials: &Credentials) -> Vec<CertificateDer<'static>> {
    let by_server = matches!(&config.role, file::Role::Server(server) if scripts::any(&server.access) || server.access.management);
    match by_server || config.scripts.commands().next().is_some() {
        true => credentials.authorities(),
        false => Vec::new(),
    }
}

fn demand(config: &Config) -> CertificateDemand {
    match &config.role {
        file::Role::Client(_) | file::Role::PointToPoint(_) => CertificateDemand::Require,
        file::Role::Server(server) => match server.access.certificates {
            file::ClientCertificates::Require => CertificateDemand::Require,
            file::ClientCertificates::Optional => CertificateDemand::Optional,
            file::ClientCertificates::None => CertificateDemand::None,
        },
    }
}

fn requirements(config: &Config, revocations: Option<Revocations>) -> PeerRequirements {
    let peer = &config.tls.peer;
    let name = peer.name.as_ref().map(|check| match check.kind {
        file::NameKind::Subject => NameCheck::Subject(check.value.clone()),
        file::NameKind::Name => NameCheck::CommonName(check.value.clone()),
        file::NameKind::NamePrefix => NameCheck::CommonNamePrefix(check.value.clone()),
    });
    PeerRequirements {
        require_usage: peer.usage,
        key_usages: peer.key_usages.clone(),
        extended_usage: peer.extended_usage.clone(),
        fingerprints: peer.fingerprints.clone(),
        issuer_fingerprints: peer.issuer_fingerprints.clone(),
        name,
        name_fields: name_fields(config),
        demand: demand(config),
        revocations,
    }
}

fn name_fields(config: &Config) -> NameFields {
    let field = |field: &file::NameField| match field {
        file::NameField::Subject(oid) => NameField::Subject(oid.clone()),
        file::NameField::Serial => NameField::Serial,
        file::NameField::SubjectEmail => NameField::SubjectEmail,
        file::NameField::IssuerEmail => NameField::IssuerEmail,
    };
    NameFields::new(config.tls.peer.name_fields.iter().map(field).collect())
}

fn control(
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

pub(super) fn key_direction(direction: Option<file::KeyDirection>) -> KeyDirection {
    match direction {
        None => KeyDirection::Bidirectional,
        Some(file::KeyDirection::Normal) => KeyDirection::Normal,
        Some(file::KeyDirection::Inverse) => KeyDirection::Inverse,
    }
}

pub(super) fn data(config: &Config) -> DataParams {
    DataParams {
        ciphers: config.data.ciphers.clone(),
        fallback: config.data.fallback,
        cipher: config.data.cipher,
        digest: config.data.auth,
        compression: compression(config.data.compression),
        decompress: config.data.decompression == file::Decompression::Named,
        pushed_compression: match config.data.decompression {
            file::Decompression::Unasked => PushedCompression::FramingAlone,
            file::Decompression::Pushed | file::Decompression::Named => PushedCompression::Decompressed,
            file::Decompression::Refused => PushedCompression::Refused,
        },
        fragment: config.data.fragment.map(|fragment| match fragment {
            file::Fragment::Payload(size) => Fragment::Payload(size),
            file::Fragment::Outer(size) => Fragment::Mtu(size),
        }),
        migrate: config.data.migrate,
        before_2_6: config.data.before_2_6,
        before_2_7: config.data.before_2_7,
        tun_mtu: config.device.mtu,
        told_mtu: config.device.told_mtu,
        mssfix: match config.data.mssfix {
            file::Mssfix::Default
                if config.device.mtu == 1500 && config.data.fragment.is_none() && has_relay(config) =>
            {
                MssFix::Mtu(RELAYED_MTU)
            }
            file::Mssfix::Default => MssFix::Default,
            file::Mssfix::Off => MssFix::Off,
            file::Mssfix::Payload(size) => MssFix::Payload(size),
            file::Mssfix::Outer(size) => MssFix::Mtu(size),
            file::Mssfix::Fixed(size) => MssFix::Fixed(size),
        },
        replay_window: config.data.replay_window,
    }
}

/// Whether a server is reached over UDP by a proxy.
fn has_relay(config: &Config) -> bool {
    let file::Role::Client(client) = &config.role else { return false };
    client.remotes.iter().any(|remote| remote.transport == Transport::Udp && remote.proxy.is_some())
}

fn compression(compression: file::Compression) -> Compression {
    match compression {
        file::Compression::None => Compression::None,
        file::Compression::LzoNo => Compression::LzoNo,
        file::Compression::Stub => Compression::Stub,
        file::Compression::StubV2 => Compression::StubV2,
    }
}

pub(super) fn keepalive(config: &Config) -> Keepalive {
    Keepalive {
        ping: config.liveness.ping,
        timeout: config.liveness.timeout,
        exit: config.liveness.on_timeout == file::OnTimeout::Exit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a pulling client with these lines binds.
    fn bound(lines: &str) -> Option<SocketAddr> {
        let text = format!("client\ndev tun\nremote vpn.example\nca ca.crt\nauth-user-pass\n{lines}\n");
        let certificate = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let parsed = adit_config::openvpn::parse("test.ovpn", text.as_bytes(), &|_| Ok(certificate.to_vec()));
        let file::Role::Client(client) = parsed.expect("a configuration").config.role else {
            panic!("not a client")
        };
        remotes(&client)[0].bind
    }

    #[test]
    fn a_pulling_client_binds_where_its_file_says() {
        assert_eq!(bound(""), None, "two clients on one machine are usual");
        assert_eq!(bound("nobind"), None);
        assert_eq!(bound("lport 0"), None);
        assert_eq!(bound("lport 4000"), Some(([0, 0, 0, 0], 4000).into()));
        assert_eq!(bound("bind"), Some(([0, 0, 0, 0], 1194).into()));
        assert_eq!(bound("local 192.0.2.9"), Some(([192, 0, 2, 9], 1194).into()));
    }
}
