//! The plan of a server: where it listens, its networks and pools.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use adit_core::{IpNet, Ipv4Net, Ipv6Net, Transport};
use adit_openvpn::params::TlsCryptV2;

use super::process::placed;
use super::{PORT, push_once};
use crate::directives::args::prefix_of;
use crate::draft::{Draft, LocalDraft, Scope};
use crate::handlers::access;
use crate::model::*;
use crate::parser::Parser;

pub(super) fn server(
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
    push_destinations(draft, ipv4.is_some(), ipv6.is_some());
    access::check(draft, &mut parser.problems);
    let token_secret = match draft.token_secret.take() {
        None => None,
        Some(material) => parser.token_secret(&material, draft),
    };
    let mut server = std::mem::take(&mut draft.server);
    let port_share = server.port_share.take().map(|(mut share, at)| {
        if !listen.iter().any(|listen| listen.transport == Transport::Tcp) {
            parser.problems.push(at.problem(
                "`port-share` shares a TCP port, and this server listens on none: write `proto tcp`, or remove it",
            ));
        }
        let journal = share.journal.take();
        share.journal = journal.map(|directory| placed(&draft.directory, directory, file, parser));
        share
    });
    if let (Some(at), None) = (&server.ccd_exclusive, &server.client_files) {
        parser.problems.push(at.problem("`ccd-exclusive` needs `client-config-dir DIRECTORY`"));
    }
    let back_ends = std::mem::take(&mut draft.access.back_ends).into_iter();
    let back_ends = back_ends.map(|back_end| match back_end {
        PasswordBackEnd::Ldap { file: path } => {
            PasswordBackEnd::Ldap { file: placed(&draft.directory, path, file, parser) }
        }
        pam @ PasswordBackEnd::Pam { .. } => pam,
    });
    let back_ends = back_ends.collect();
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
        forward: server.forward,
        duplicate_cn: server.duplicate_cn,
        port_share,
        max_clients: server.max_clients.unwrap_or(1024),
        admission: Admission {
            tls_crypt_v2,
            connect_freq: server.connect_freq,
            connect_freq_initial: server.connect_freq_initial,
        },
        exit_notify: draft.general.exit_notify.unwrap_or(0),
        per_client,
        access: Access { token_secret, back_ends, ..std::mem::take(&mut draft.access) },
    })
}

/// Pushes to clients the routes to the networks that the server forwards to (`#adit: forward`). A file that pushes
/// `redirect-gateway` or `redirect-private` itself keeps its own for the internet.
fn push_destinations(draft: &mut Draft, v4: bool, v6: bool) {
    let pushes = |draft: &Draft, name: &str| {
        draft.server.push.iter().any(|option| option.split_whitespace().next() == Some(name))
    };
    let all: Vec<IpNet> = draft.server.forward.iter().copied().filter(|net| net.prefix_len() == 0).collect();
    let has = |ipv6: bool| all.iter().any(|net| net.addr().is_ipv6() == ipv6);
    let wanted = (v4 && has(false), v6 && has(true));
    if wanted != (false, false) && !pushes(draft, "redirect-gateway") && !pushes(draft, "redirect-private") {
        let family = match wanted {
            (true, true) => " ipv6",
            (false, true) => " ipv6 !ipv4",
            _ => "",
        };
        push_once(draft, format!("redirect-gateway def1{family}"));
    }
    for net in draft.server.forward.clone().into_iter().filter(|net| net.prefix_len() > 0) {
        match net {
            IpNet::V4(net) if v4 => push_once(draft, format!("route {} {}", net.addr(), net.netmask())),
            IpNet::V6(net) if v6 => push_once(draft, format!("route-ipv6 {net}")),
            IpNet::V4(_) | IpNet::V6(_) => {}
        }
    }
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
