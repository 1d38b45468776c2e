//! From what a file said to a configuration: defaults, and checks that need the whole file.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use adit_core::{Ipv4Net, Ipv6Net, RouteVia, Transport};

use super::Parser;
use super::args::prefix_of;
use super::data::DEFAULT_CIPHERS;
use super::draft::{DeviceDraft, Draft, LocalDraft, RemoteDraft, Scope};
use super::lexer::MAX_WORD;
use super::model::*;
use super::{management, point, secret};
use crate::Problem;

/// OpenVPN's port (IANA).
const PORT: u16 = 1194;

/// The configuration, or `None` after telling why there is none.
pub(super) fn finish(mut draft: Draft, file: &str, parser: &mut Parser<'_>) -> Option<Config> {
    let secret = secret::secret(&draft, parser);
    let has_secret = draft.tls.secret.is_some();
    let side = if has_secret && !draft.sides.are_said() {
        secret::side(&draft)
    } else {
        side(&draft, file, parser)?
    };
    let is_server = side != Side::Client;
    check_sides(side, parser);
    keepalive(&mut draft, side == Side::Server, file, parser);
    check_usage(&draft, is_server, parser);
    let wrap = parser.wrap(&draft, is_server);
    let tls_crypt_v2 = if is_server { parser.tls_crypt_v2(&draft) } else { None };
    let device = device(&draft, parser);
    let tls = if has_secret { Some(Tls::default()) } else { parser.tls(&mut draft, file) };
    let metric = draft.client.route_metric;
    for route in draft.routes.iter_mut().filter(|route| route.via != RouteVia::SystemGateway) {
        route.metric = route.metric.or(metric);
    }
    for route in draft.named_routes.iter_mut().filter(|route| route.via != RouteVia::SystemGateway) {
        route.metric = route.metric.or(metric);
    }
    let role = match side {
        Side::Server => {
            server(&mut draft, tls_crypt_v2, file, parser).map(|server| Role::Server(Box::new(server)))
        }
        Side::Client => client(&mut draft, file, parser).map(|client| Role::Client(Box::new(client))),
        Side::Point => {
            point::point(&mut draft, tls_crypt_v2, file, parser).map(|point| Role::Point(Box::new(point)))
        }
    };
    if let (Some(size), Mssfix::Default) = (draft.socket.control_size, draft.data.mssfix) {
        draft.data.mssfix = Mssfix::Outer(size.max(576));
    }
    let data = data_channel(&mut draft, parser);
    let (role, tls) = (role?, tls?);
    if matches!(role, Role::Client(_)) && !has_secret && !tls.peer.tells_apart() {
        parser.warnings.push(Problem {
            file: file.into(),
            line: None,
            text: "any certificate of the authority passes for the server's, a client's too: write \
                   `remote-cert-tls server`"
                .into(),
        });
    }
    Some(Config {
        role,
        device: device?,
        tls,
        secret,
        wrap: wrap?,
        data,
        liveness: draft.liveness,
        limits: draft.limits,
        rekey: draft.rekey,
        socket: draft.socket,
        routes: std::mem::take(&mut draft.routes),
        named_routes: std::mem::take(&mut draft.named_routes),
        process: process(draft, file, parser),
    })
}

fn data_channel(draft: &mut Draft, parser: &mut Parser<'_>) -> DataChannel {
    let draft = &mut draft.data;
    let before = |version: u32| draft.compat.is_some_and(|compat| compat < version);
    let [before_2_5, before_2_6, before_2_7] = [2_05_00, 2_06_00, 2_07_00].map(before);
    let mut ciphers = draft.ciphers.take().unwrap_or_else(|| DEFAULT_CIPHERS.to_vec());
    // As OpenVPN (options.c): until 2.5, `cipher` was among the ciphers to negotiate.
    if let Some(cipher) = draft.cipher.filter(|cipher| before_2_5 && !ciphers.contains(cipher)) {
        ciphers.push(cipher);
    }
    let data = DataChannel {
        ciphers,
        cipher: draft.cipher,
        fallback: draft.fallback,
        auth: draft.auth,
        compression: draft.compression,
        migrate: draft.migrate,
        before_2_6,
        before_2_7,
        replay_window: draft.replay_window.unwrap_or_default(),
        mssfix: draft.mssfix,
    };
    let open = data.ciphers.iter().chain(&data.fallback).find(|cipher| !cipher.is_aead());
    if let (Some(cipher), Some(at)) = (open, &draft.no_auth) {
        parser.problems.push(at.problem(format!(
            "`auth none` would let anybody change packets under {cipher}; remove one of the two, or write \
             the digest that the other side has, `auth SHA256`"
        )));
    }
    data
}

/// What a file is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
    /// The listening end of a point-to-point tunnel.
    Point,
}

/// Which side this is; `None` after telling that it is none or two.
fn side(draft: &Draft, file: &str, parser: &mut Parser<'_>) -> Option<Side> {
    let sides = &draft.sides;
    let client = sides.client.as_ref().or(sides.tls_client.as_ref());
    match (client, &sides.server) {
        (Some(client), Some(server)) => {
            let text = format!(
                "this makes it a server, but line {} made it a client; one file is one side",
                client.line
            );
            parser.problems.push(server.problem(text));
            None
        }
        (Some(client), None) => {
            if sides.tls_server.is_some() {
                parser.problems.push(client.problem("`tls-server` stands in a client's file; remove it"));
            }
            Some(Side::Client)
        }
        (None, Some(_)) => Some(Side::Server),
        (None, None) if sides.tls_server.is_some() => Some(Side::Point),
        (None, None) => {
            match () {
                () if draft.client.remotes.is_empty() => parser.problem_in(
                    file,
                    "neither a client nor a server: write `client` and `remote HOST`, or `server NETWORK NETMASK`",
                ),
                () => parser.problem_in(file, "`client` is missing: a file with `remote` is a client's"),
            }
            None
        }
    }
}

/// Directives of the other side are mistakes.
fn check_sides(side: Side, parser: &mut Parser<'_>) {
    use super::table::{self, find};
    use crate::Kind;

    let (wrong, theirs, ours) = match side {
        Side::Server => (&[table::Side::Client][..], "a client's", "a server's"),
        Side::Client => (&[table::Side::Server][..], "a server's", "a client's"),
        Side::Point => (
            &[table::Side::Client, table::Side::Server][..],
            "a client's or a server's",
            "the listening end of a point-to-point tunnel",
        ),
    };
    for entry in parser.report.iter().filter(|entry| entry.kind != Kind::Refused) {
        // A point may say where the other is.
        let is_remote = side == Side::Point && matches!(entry.directive.as_str(), "remote" | "connection");
        if !is_remote && find(&entry.directive).is_some_and(|directive| wrong.contains(&directive.side)) {
            parser.problems.push(Problem {
                file: entry.file.clone(),
                line: Some(entry.line),
                text: format!(
                    "`{}` belongs into {theirs} file, and this is {ours}; remove it",
                    entry.directive
                ),
            });
        }
    }
}

/// A client's peer is a server and the other way round; anything else would never connect.
fn check_usage(draft: &Draft, is_server: bool, parser: &mut Parser<'_>) {
    if let Some((wants_server, at)) = &draft.tls.wants_server
        && *wants_server == is_server
    {
        let right = if is_server { "client" } else { "server" };
        parser.problems.push(at.problem(format!(
            "this asks for a certificate of our own role; the other side is the {right}: write `remote-cert-tls {right}`"
        )));
    }
}

/// Expands `keepalive` as OpenVPN does (helper.c): a server waits twice as long as it tells its clients to.
fn keepalive(draft: &mut Draft, is_server: bool, file: &str, parser: &mut Parser<'_>) {
    let Some((ping, timeout)) = draft.keepalive else { return };
    if draft.liveness != Liveness::default() {
        parser.problem_in(
            file,
            "`keepalive` sets `ping` and `ping-restart` itself; remove those, or `keepalive`",
        );
        return;
    }
    let wait = if is_server { timeout.saturating_mul(2) } else { timeout };
    draft.liveness = Liveness {
        ping: Some(ping).filter(|ping| !ping.is_zero()),
        timeout: Some(wait).filter(|wait| !wait.is_zero()),
        on_timeout: OnTimeout::Restart,
    };
    if is_server {
        push_once(draft, format!("ping {}", ping.as_secs()));
        push_once(draft, format!("ping-restart {}", timeout.as_secs()));
    }
}

fn push_once(draft: &mut Draft, option: String) {
    if !draft.server.push.contains(&option) {
        draft.server.push.push(option);
    }
}

fn device(draft: &Draft, parser: &mut Parser<'_>) -> Option<Device> {
    let name = match &draft.device.name {
        None => None,
        Some((name, _)) if name == "tun" => None,
        Some((name, at)) => {
            if !draft.device.is_tun && !name.starts_with("tun") {
                parser
                    .problems
                    .push(at.problem(format!("`dev {name}`: write `dev-type tun` too, to say what it is")));
                return None;
            }
            Some(name.clone())
        }
    };
    let DeviceDraft { mtu, told_mtu, ifconfig_nowarn, txqueuelen, .. } = draft.device;
    Some(Device { name, mtu: mtu.unwrap_or(1500), told_mtu, ifconfig_nowarn, txqueuelen })
}

fn client(draft: &mut Draft, file: &str, parser: &mut Parser<'_>) -> Option<ClientConfig> {
    let before = parser.problems.len();
    if draft.client.remotes.is_empty() {
        parser.problem_in(file, "`remote` is missing: write `remote HOST [PORT] [PROTOCOL]`");
    }
    let mut remotes = Vec::new();
    for (remote, block) in std::mem::take(&mut draft.client.remotes) {
        remotes.push(settle(remote, &block.unwrap_or_default(), &draft.general, draft.sides.pull));
    }
    let ipv4 = point::static_ipv4(draft, parser);
    if !draft.sides.pull {
        point::check_tcp_end(draft, false, parser);
    }
    if !draft.sides.pull && ipv4.is_none() && draft.device.ifconfig_ipv6.is_none() {
        let text = match draft.tls.secret {
            None => "nothing gives this side an address: write `client` to ask the server for one",
            Some(_) => "nothing gives this end an address: write `ifconfig OURS THEIRS`",
        };
        parser.problem_in(file, text);
    }
    let retry = draft.client.retry.unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(0xFFFF));
    let mut client = std::mem::take(&mut draft.client);
    // OpenVPN ssl.c `push_peer_info`.
    let told = |name: &str| {
        matches!(name, "IV_GUI_VER" | "IV_SSO") || (client.push_peer_info && name.starts_with("UV_"))
    };
    let peer_info = draft.access.env.iter().filter(|(name, _)| told(name)).cloned().collect();
    let by_dhcp = std::mem::take(&mut client.dns);
    client.dns_options.settle(&mut client.dns, &by_dhcp);
    let config = ClientConfig {
        remotes,
        remote_random: client.random,
        remote_random_hostname: client.random_hostname,
        resolve_retry: client.resolve_retry,
        connect_retry: retry,
        connect_retry_longest: client.retry_longest.unwrap_or(Duration::from_secs(300)).max(retry),
        connect_retry_max: client.retry_max,
        pull: draft.sides.pull,
        route_nopull: client.route_nopull,
        pull_filters: client.pull_filters,
        route_metric: client.route_metric,
        redirect_gateway: client.redirect_gateway,
        block_ipv6: client.block_ipv6,
        dns: client.dns,
        ipv4,
        ipv6: draft.device.ifconfig_ipv6,
        auth: client.auth.map(|source| UserAuth {
            source: match source {
                UserPass::File(path) => UserPass::File(draft.directory.join(path)),
                other => other,
            },
            retry: client.auth_retry,
            nocache: client.auth_nocache,
            challenge: client.auth_challenge,
        }),
        peer_info,
        tls_exit: client.tls_exit,
        max_pushed_mtu: client.max_pushed_mtu.unwrap_or(1600),
    };
    (parser.problems.len() == before).then_some(config)
}

/// One remote with what its block says, then what the file says, then defaults.
fn settle(remote: RemoteDraft, block: &Scope, general: &Scope, pull: bool) -> Remote {
    let (transport, family) =
        remote.proto.or(block.proto).or(general.proto).unwrap_or((Transport::Udp, Family::Any));
    let local = block.locals.last().or(general.locals.last());
    let local_port = local.and_then(|local| local.port).or(block.local_port).or(general.local_port);
    let nobind = block.nobind.or(general.nobind);
    // The other point may go by our port.
    let says_where = !pull || nobind.is_some() || local.is_some() || local_port.is_some();
    let binds = nobind != Some(true) && says_where;
    Remote {
        host: remote.host,
        port: remote.port.or(block.remote_port).or(general.remote_port).unwrap_or(PORT),
        transport,
        family,
        bind: binds.then(|| Bind {
            address: local.and_then(|local| local.address),
            port: local_port.unwrap_or(PORT),
        }),
        connect_timeout: block
            .connect_timeout
            .or(general.connect_timeout)
            .unwrap_or(Duration::from_secs(120)),
        exit_notify: match transport {
            Transport::Udp => block.exit_notify.or(general.exit_notify).unwrap_or(0),
            Transport::Tcp => 0,
        },
    }
}

fn server(
    draft: &mut Draft,
    tls_crypt_v2: Option<TlsCryptV2>,
    file: &str,
    parser: &mut Parser<'_>,
) -> Option<ServerConfig> {
    let before = parser.problems.len();
    if let (Some(false), Some(at)) = (draft.device.subnet, &draft.device.topology_at) {
        parser.warnings.push(at.problem(
            "`topology`: clients are told `topology subnet`, which every client since 2009 knows, instead; write \
             `topology subnet` to say so",
        ));
    }
    let listen = listen(&draft.general, file, parser);
    let ipv4 = server_ipv4(draft, parser);
    let ipv6 = server_ipv6(draft, parser);
    if ipv4.is_none() && ipv6.is_none() && parser.problems.len() == before {
        parser.problem_in(
            file,
            "no inner network: write `server NETWORK NETMASK` or `server-ipv6 NETWORK/BITS`",
        );
    }
    if draft.server.push_nodelay {
        push_once(draft, "socket-flags TCP_NODELAY".into());
    }
    super::access::check(draft, &mut parser.problems);
    let token_secret = match draft.token_secret.take() {
        None => None,
        Some(material) => parser.token_secret(&material, draft),
    };
    let server = std::mem::take(&mut draft.server);
    if let (Some(at), None) = (&server.ccd_exclusive, &server.client_files) {
        parser.problems.push(at.problem("`ccd-exclusive` needs `client-config-dir DIRECTORY`"));
    }
    let per_client = {
        let mut from = |path: PathBuf| placed(&draft.directory, path, file, parser);
        PerClient {
            exclusive: server.ccd_exclusive.is_some(),
            directory: server.client_files.map(&mut from),
            pool_file: server.pool_file.map(|(path, every)| PoolFile {
                path: from(path),
                every: Some(every).filter(|every| !every.is_zero()),
            }),
        }
    };
    (parser.problems.len() == before).then_some(ServerConfig {
        listen,
        ipv4,
        ipv6,
        push: server.push,
        client_to_client: server.client_to_client,
        duplicate_cn: server.duplicate_cn,
        max_clients: server.max_clients.unwrap_or(1024),
        admission: Admission {
            tls_crypt_v2,
            connect_freq: server.connect_freq,
            connect_freq_initial: server.connect_freq_initial,
        },
        exit_notify: draft.general.exit_notify.unwrap_or(0),
        per_client,
        access: Access { token_secret, ..std::mem::take(&mut draft.access) },
    })
}

pub(super) fn listen(general: &Scope, file: &str, parser: &mut Parser<'_>) -> Vec<Listen> {
    if general.nobind == Some(true) {
        parser.problem_in(file, "`nobind`: a server listens on a port; remove it");
    }
    let everywhere = [LocalDraft { address: None, port: None, proto: None }];
    let locals = if general.locals.is_empty() { &everywhere[..] } else { &general.locals };
    let mut listen = Vec::new();
    for local in locals {
        let (transport, family) = local.proto.or(general.proto).unwrap_or((Transport::Udp, Family::Any));
        let port = local.port.or(general.local_port).unwrap_or(PORT);
        if port == 0 {
            parser.problem_in(file, "`lport 0`: clients must know the port; write one from 1 to 65535");
        }
        let misfits = matches!(
            (local.address, family),
            (Some(IpAddr::V4(_)), Family::V6) | (Some(IpAddr::V6(_)), Family::V4)
        );
        if misfits {
            parser.problem_in(file, "`local`: the address is not of the family that `proto` names");
        }
        listen.push(Listen { address: local.address, port, transport, family });
    }
    listen
}

/// The IPv4 network of a server, with `server` expanded as OpenVPN does (helper.c).
fn server_ipv4(draft: &mut Draft, parser: &mut Parser<'_>) -> Option<ServerIpv4> {
    let pool = draft.server.pool.clone();
    let (address, whole) = match (draft.server.network, &draft.device.ifconfig) {
        (Some((net, whole)), _) => {
            let ours = Ipv4Addr::from(u32::from(net.network()) + 1);
            push_once(draft, format!("route-gateway {ours}"));
            push_once(draft, "topology subnet".into());
            (Ipv4Net::new(ours, net.prefix_len()).ok()?, whole)
        }
        (None, Some((ours, mask, at))) => {
            let net = prefix_of(*mask).and_then(|bits| Ipv4Net::new(*ours, bits).ok());
            let Some(net) = net.filter(|net| net.prefix_len() <= 30) else {
                let text = format!("`ifconfig`: found `{mask}`; write a netmask such as 255.255.255.0");
                parser.problems.push(at.problem(text));
                return None;
            };
            (net, false)
        }
        (None, None) => {
            if let Some((_, _, at)) = pool {
                parser.problems.push(
                    at.problem("`ifconfig-pool` needs our own address: write `ifconfig ADDRESS NETMASK`"),
                );
            }
            return None;
        }
    };
    // The first address is the network's, the last for broadcast.
    let least = Ipv4Addr::from(u32::from(address.network()) + 1);
    let most = Ipv4Addr::from(u32::from(address.broadcast()) - 1);
    match pool {
        None if whole => {
            Some(ServerIpv4 { address, pool: Some((Ipv4Addr::from(u32::from(least) + 1), most)) })
        }
        None => Some(ServerIpv4 { address, pool: None }),
        Some((_, _, at)) if whole => {
            parser
                .problems
                .push(at.problem("`server` already has a pool; write `server … nopool` to give your own"));
            None
        }
        Some((first, last, at)) => {
            if first < least || last > most || (first..=last).contains(&address.addr()) {
                parser.problems.push(at.problem(format!(
                    "`ifconfig-pool`: found {first} to {last}; clients can have {least} to {most}, without our own \
                     {}",
                    address.addr()
                )));
                return None;
            }
            Some(ServerIpv4 { address, pool: Some((first, last)) })
        }
    }
}

/// The IPv6 network of a server, with `server-ipv6` expanded as OpenVPN does (helper.c).
fn server_ipv6(draft: &mut Draft, parser: &mut Parser<'_>) -> Option<ServerIpv6> {
    let pool = draft.server.pool6.clone();
    if let Some(net) = draft.server.network6 {
        if let Some((_, at)) = pool {
            parser.problems.push(at.problem("`server-ipv6` already has a pool; remove one of the two"));
        }
        let bits = net.prefix_len();
        let host = |number: u128| Ipv6Net::new(Ipv6Addr::from(u128::from(net.network()) + number), bits).ok();
        push_once(draft, "tun-ipv6".into());
        // Room for addresses given by hand where there is room at all.
        let first = if bits < 112 { 0x1000 } else { 2 };
        return Some(ServerIpv6 { address: host(1)?, pool: Some(host(first)?) });
    }
    let Some((address, _)) = draft.device.ifconfig_ipv6 else {
        if let Some((_, at)) = pool {
            parser.problems.push(at.problem(
                "`ifconfig-ipv6-pool` needs our own address: write `ifconfig-ipv6 ADDRESS/BITS PEER`",
            ));
        }
        return None;
    };
    if let Some((pool, at)) = &pool
        && (!address.contains(&pool.addr()) || pool.prefix_len() != address.prefix_len())
    {
        let text = format!("`ifconfig-ipv6-pool`: found {pool}; write an address within {}", address.trunc());
        parser.problems.push(at.problem(text));
        return None;
    }
    Some(ServerIpv6 { address, pool: pool.map(|(pool, _)| pool) })
}

/// A path of the file, from where `cd` leads.
pub(super) fn placed(directory: &Path, path: PathBuf, file: &str, parser: &mut Parser<'_>) -> PathBuf {
    let path = directory.join(path);
    if path.as_os_str().len() > MAX_WORD {
        parser.problem_in(file, format!("`cd` makes a path longer than {MAX_WORD} bytes"));
    }
    path
}

fn process(draft: Draft, file: &str, parser: &mut Parser<'_>) -> Process {
    let directory = draft.directory;
    let mut from = |path: PathBuf| placed(&directory, path, file, parser);
    let mut process = draft.process;
    process.log = process.log.or(draft.daemon.map(Log::Syslog)).map(|log| match log {
        Log::File { path, append } => Log::File { path: from(path), append },
        Log::Syslog(name) => Log::Syslog(name),
    });
    process.pid_file = process.pid_file.map(&mut from);
    process.tmp_dir = process.tmp_dir.map(&mut from);
    process.status = draft.status.map(|(path, every)| StatusFile {
        path: from(path),
        every: every.unwrap_or(Duration::from_secs(60)),
        version: draft.status_version.unwrap_or(1),
    });
    process.management = management::finish(draft.management, &directory, file, parser);
    process
}
