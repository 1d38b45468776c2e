//! The way from the draft of a file to a configuration: defaults, and checks that need the whole file.

mod client;
mod connections;
mod external;
mod key_material;
mod management;
mod point_to_point;
mod process;
mod server;
mod side;
mod static_key;

use adit_core::{Digest, RouteVia, Transport};
use adit_openvpn::codec::Compression;
use adit_openvpn::params::{Fragment, Keepalive, MssFix};

use adit_core::configuration::Problem;

use self::side::{Side, check_sides, check_usage};
use super::draft::{DataDraft, DeviceDraft, Draft};
use super::handlers::data::DEFAULT_CIPHERS;
use super::handlers::scripts;
use super::model::*;
use super::parser::Parser;

/// OpenVPN's port (IANA).
const PORT: u16 = 1194;

/// The configuration, or `None` if there is none; the parser then has the problems.
pub(crate) fn plan(mut draft: Draft, file: &str, parser: &mut Parser<'_>) -> Option<Config> {
    let secret = static_key::shared_secret(&draft, parser);
    let has_secret = draft.tls.secret.is_some();
    let side = if has_secret && !draft.sides.are_given() {
        static_key::side(&draft)
    } else {
        side::side(&draft, file, parser)?
    };
    let is_server = side != Side::Client;
    check_sides(side, parser);
    connections::prefer_blocks(&mut draft, parser);
    keepalive(&mut draft, side == Side::Server, file, parser);
    check_usage(&draft, is_server, parser);
    if let Some(at) = draft.client.ends_when_lost.as_ref().filter(|_| is_server || has_secret) {
        parser.problems.push(at.problem(
            "`remap-usr1 SIGTERM` ends a TLS client alone that loses its server; a service manager can end this one by \
             SIGTERM",
        ));
    }
    if let (Some(at), true) = (&draft.server.forward_at, side != Side::Server) {
        parser
            .problems
            .push(at.problem("forward: a server forwards the packets of its clients; this file is none"));
    }
    let wrap = parser.wrap(&draft, is_server);
    let tls_crypt_v2 = if is_server { parser.tls_crypt_v2(&draft) } else { None };
    if side == Side::Server && draft.device.is_absent() {
        parser.problem_in(file, "`dev null`: a server of many clients needs a device; write `dev tun`");
    }
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
        Side::Server => server::server(&mut draft, tls_crypt_v2, file, parser)
            .map(|server| Role::Server(Box::new(server))),
        Side::Client => client::client(&mut draft, file, parser).map(|client| Role::Client(Box::new(client))),
        Side::PointToPoint => point_to_point::point_to_point(&mut draft, tls_crypt_v2, file, parser)
            .map(|point| Role::PointToPoint(Box::new(point))),
    };
    let scripts = scripts::plan(&mut draft, side == Side::Server, &mut parser.problems);
    let scripts = with_variables(scripts, &draft, &role);
    if let (Some(size), MssFix::Default) = (draft.socket.control_size, draft.data.mssfix) {
        draft.data.mssfix = MssFix::Mtu(size.max(576));
    }
    let decompression = decompression(&draft.data, parser);
    if let Some(role) = &role {
        check_fragment(&draft.data, role, parser);
    }
    let data = data_channel(&mut draft, decompression, parser);
    let (role, tls) = (role?, tls?);
    if matches!(role, Role::Client(_)) && !has_secret && !tls.peer.is_specific() {
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
        scripts,
        process: process::process(draft, file, parser),
    })
}

/// A client and the ends of a point-to-point tunnel have the variables of `setenv` here.
fn with_variables(scripts: TunnelScripts, draft: &Draft, role: &Option<Role>) -> TunnelScripts {
    let is_sent = |name: &str| match role {
        Some(Role::Client(client)) => client.peer_info.iter().any(|(known, _)| known == name),
        _ => false,
    };
    let of_others = !matches!(role, Some(Role::Server(_)));
    let env = draft.access.env.iter().filter(|(name, _)| of_others && !is_sent(name)).cloned().collect();
    TunnelScripts { env, ..scripts }
}

/// The handling of packets that the peer compressed, as in OpenVPN since 2.6 (comp.c,
/// `check_compression_settings_valid`), but compression that no directive asks for is no reason for a client to end: a
/// server that pushes an algorithm may use none.
fn decompression(draft: &DataDraft, parser: &mut Parser<'_>) -> Decompression {
    match (&draft.allow_compression, &draft.algorithm) {
        (Some((false, denied)), Some(named)) => {
            let (first, last) = if denied.line < named.line { (denied, named) } else { (named, denied) };
            parser.problems.push(last.problem(format!(
                "`allow-compression no` forbids the algorithm that the file names; one of the two is in line {}: \
                 remove it or this",
                first.line
            )));
            Decompression::Refused
        }
        (Some((false, _)), None) => Decompression::Refused,
        (_, Some(_)) => Decompression::Named,
        (Some((true, _)), None) => Decompression::Pushed,
        (None, None) => match draft.compression {
            Compression::Stub | Compression::StubV2 => Decompression::Pushed,
            Compression::None | Compression::LzoNo => Decompression::Unasked,
        },
    }
}

/// Parts are for datagrams: OpenVPN refuses `fragment` beside TCP too (options.c, `options_postprocess_verify_ce`).
fn check_fragment(draft: &DataDraft, role: &Role, parser: &mut Parser<'_>) {
    let Some((fragment, at)) = &draft.fragment else { return };
    let transports: Vec<Transport> = match role {
        Role::Client(client) => client.remotes.iter().map(|remote| remote.transport).collect(),
        Role::Server(server) => server.listen.iter().map(|listen| listen.transport).collect(),
        Role::PointToPoint(point) => point.listen.iter().map(|listen| listen.transport).collect(),
    };
    if transports.contains(&Transport::Tcp) {
        let text = "`fragment` is for UDP, and this file has TCP too; remove it, or what has `tcp` in `proto` and `remote`";
        parser.problems.push(at.problem(text));
    }
    // As OpenVPN warns (init.c).
    let sizes = match (fragment, draft.mssfix) {
        (Fragment::Payload(part), MssFix::Payload(segment)) | (Fragment::Mtu(part), MssFix::Mtu(segment)) => {
            Some((*part, segment))
        }
        _ => None,
    };
    if let Some((part, segment)) = sizes.filter(|(part, segment)| segment > part) {
        parser.warnings.push(at.problem(format!(
            "`mssfix {segment}` lets TCP send what `fragment {part}` then cuts into parts; write a smaller `mssfix`, or \
             none"
        )));
    }
}

fn data_channel(draft: &mut Draft, decompression: Decompression, parser: &mut Parser<'_>) -> DataChannel {
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
        // OpenVPN's own default.
        auth: draft.auth.unwrap_or(Digest::Sha1),
        compression: draft.compression,
        decompression,
        fragment: draft.fragment.as_ref().map(|(fragment, _)| *fragment),
        migrate: draft.migrate,
        before_2_6,
        before_2_7,
        replay_window: draft.replay_window.unwrap_or_default(),
        mssfix: draft.mssfix,
    };
    let open = data.ciphers.iter().chain(&data.fallback).find(|cipher| !cipher.is_aead());
    if let (Some(cipher), Some(at)) = (open, &draft.no_auth) {
        parser.problems.push(at.problem(format!(
            "`auth none` would let an attacker change packets under {cipher}; remove one of the two, or write \
             the digest that the other side has, `auth SHA256`"
        )));
    }
    data
}

/// Expands `keepalive` as OpenVPN does (helper.c): a server waits twice as long as its clients.
fn keepalive(draft: &mut Draft, is_server: bool, file: &str, parser: &mut Parser<'_>) {
    let Some((ping, timeout)) = draft.keepalive else { return };
    if draft.liveness != Keepalive::default() {
        parser.problem_in(
            file,
            "`keepalive` sets `ping` and `ping-restart` itself; remove those, or `keepalive`",
        );
        return;
    }
    let wait = if is_server { timeout.saturating_mul(2) } else { timeout };
    draft.liveness = Keepalive {
        ping: Some(ping).filter(|ping| !ping.is_zero()),
        timeout: Some(wait).filter(|wait| !wait.is_zero()),
        exit: false,
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
        _ if draft.device.is_absent() => None,
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
    let DeviceDraft { mtu, told_mtu, ifconfig_nowarn, txqueuelen, route_table, .. } = draft.device;
    Some(Device {
        name,
        is_null: draft.device.is_absent(),
        mtu: mtu.unwrap_or(1500),
        told_mtu,
        ifconfig_nowarn,
        txqueuelen,
        route_table,
    })
}
