//! Directives on side, device and addresses.

use std::net::IpAddr;

use adit_core::Transport;

use crate::directives::args::Args;
use crate::directives::{Effect, done, done_but};
use crate::draft::{Draft, LocalDraft, RemoteDraft};
use crate::model::{Family, MtuDiscovery};

type Done = Result<Effect, String>;

pub(crate) fn client(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.sides.client = Some(args.entry.at.clone());
    draft.sides.pull = true;
    done()
}

pub(crate) fn pull(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.sides.pull = true;
    done()
}

pub(crate) fn mode(draft: &mut Draft, args: &Args<'_>) -> Done {
    if args.choice(0, &[("server", true), ("p2p", false)])? {
        draft.sides.server = Some(args.entry.at.clone());
    }
    done()
}

pub(crate) fn tls_client(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.sides.tls_client = Some(args.entry.at.clone());
    done()
}

pub(crate) fn tls_server(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.sides.tls_server = Some(args.entry.at.clone());
    done()
}

pub(crate) fn dev(draft: &mut Draft, args: &Args<'_>) -> Done {
    let name = args.get(0)?;
    if name.starts_with("tap") {
        return Err("`dev`: adit carries IP packets (tun) only, no Ethernet (tap); write `dev tun`".into());
    }
    let bad = |c: char| c == '/' || c == ':' || c == '%' || c.is_whitespace() || c.is_control();
    if name.is_empty() || name.len() > 15 || name.contains(bad) || name == "." || name == ".." {
        return Err(args.bad(name, "`tun`, or a device name of at most 15 characters such as `tun0`"));
    }
    draft.device.name = Some((name.into(), args.entry.at.clone()));
    done()
}

pub(crate) fn dev_type(draft: &mut Draft, args: &Args<'_>) -> Done {
    (draft.device.is_tun, draft.device.is_null) = (false, false);
    match args.get(0)? {
        "tun" => draft.device.is_tun = true,
        "null" => draft.device.is_null = true,
        "tap" => {
            return Err(
                "`dev-type`: adit carries IP packets (tun) only, no Ethernet (tap); write `dev-type tun`"
                    .into(),
            );
        }
        other => return Err(args.bad(other, "`tun`, or `null` for no device")),
    }
    done()
}

pub(crate) fn topology(draft: &mut Draft, args: &Args<'_>) -> Done {
    let subnet = args.choice(0, &[("subnet", true), ("net30", false), ("p2p", false)])?;
    draft.device.subnet = Some(subnet);
    draft.device.topology_at = Some(args.entry.at.clone());
    done()
}

/// The protocols by the names OpenVPN gives them; whether it is the connecting or the listening side of TCP
/// follows from the role.
const PROTOCOLS: &[(&str, (Transport, Family))] = &[
    ("udp", (Transport::Udp, Family::Any)),
    ("udp4", (Transport::Udp, Family::V4)),
    ("udp6", (Transport::Udp, Family::V6)),
    ("tcp", (Transport::Tcp, Family::Any)),
    ("tcp4", (Transport::Tcp, Family::V4)),
    ("tcp6", (Transport::Tcp, Family::V6)),
    ("tcp-client", (Transport::Tcp, Family::Any)),
    ("tcp4-client", (Transport::Tcp, Family::V4)),
    ("tcp6-client", (Transport::Tcp, Family::V6)),
    ("tcp-server", (Transport::Tcp, Family::Any)),
    ("tcp4-server", (Transport::Tcp, Family::V4)),
    ("tcp6-server", (Transport::Tcp, Family::V6)),
];

fn protocol(args: &Args<'_>, index: usize) -> Result<(Transport, Family), String> {
    let found = args.get(index)?;
    PROTOCOLS
        .iter()
        .find(|(name, _)| *name == found)
        .map(|(_, protocol)| *protocol)
        .ok_or_else(|| args.bad(found, "`udp` or `tcp` (or `udp4`, `udp6`, `tcp4`, `tcp6`)"))
}

fn opt_protocol(args: &Args<'_>, index: usize) -> Result<Option<(Transport, Family)>, String> {
    args.opt(index).map(|_| protocol(args, index)).transpose()
}

fn opt_port(args: &Args<'_>, index: usize) -> Result<Option<u16>, String> {
    args.opt(index).map(|_| args.port(index)).transpose()
}

pub(crate) fn proto(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.scope().proto = Some(protocol(args, 0)?);
    let name = args.get(0)?;
    if name.ends_with("-server") || name.ends_with("-client") {
        draft.sides.tcp_end = Some((name.ends_with("-server"), args.entry.at.clone()));
    }
    done()
}

pub(crate) fn port(draft: &mut Draft, args: &Args<'_>) -> Done {
    let port = args.port(0)?;
    let scope = draft.scope();
    scope.local_port = Some(port);
    scope.remote_port = Some(port);
    done()
}

pub(crate) fn lport(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.scope().local_port = Some(args.number(0, 0..=u16::MAX)?);
    done()
}

pub(crate) fn rport(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.scope().remote_port = Some(args.port(0)?);
    done()
}

pub(crate) fn local(draft: &mut Draft, args: &Args<'_>) -> Done {
    let address = if args.get(0)? == "*" { None } else { Some(args.ip(0)?) };
    let local = LocalDraft { address, port: opt_port(args, 1)?, proto: opt_protocol(args, 2)? };
    draft.scope().locals.push(local);
    done()
}

pub(crate) fn bind(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.scope().nobind = Some(false);
    done()
}

pub(crate) fn nobind(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.scope().nobind = Some(true);
    done()
}

/// The `<connection>` block itself; its lines were handled one by one.
pub(crate) fn connection(_: &mut Draft, _: &Args<'_>) -> Done {
    done()
}

pub(crate) fn remote(draft: &mut Draft, args: &Args<'_>) -> Done {
    let host = args.get(0)?;
    let odd = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%'));
    if host.is_empty() || host.len() > 253 || host.contains(odd) {
        return Err(args.bad(host, "a host name or an IP address"));
    }
    let (port, proto) = (opt_port(args, 1)?, opt_protocol(args, 2)?);
    let remote = RemoteDraft { at: args.entry.at.clone(), host: host.into(), port, proto };
    match &mut draft.block {
        Some(block) if block.remote.is_some() => {
            return Err("`remote`: a `<connection>` block holds one; write a block for each".into());
        }
        Some(block) => block.remote = Some(remote),
        None => draft.client.remotes.push((remote, None)),
    }
    done()
}

pub(crate) fn remote_random(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.client.random = true;
    done()
}

pub(crate) fn remote_random_hostname(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.client.random_hostname = true;
    done()
}

pub(crate) fn resolv_retry(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.client.resolve_retry = if args.get(0)? == "infinite" { None } else { Some(args.seconds(0)?) };
    done()
}

pub(crate) fn connect_retry(draft: &mut Draft, args: &Args<'_>) -> Done {
    let first = args.seconds(0)?;
    let longest = args.opt(1).map(|_| args.seconds(1)).transpose()?;
    draft.client.retry = Some(first);
    draft.client.retry_longest = longest.or(draft.client.retry_longest);
    done()
}

pub(crate) fn connect_retry_max(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.client.retry_max = match args.get(0)? {
        "unlimited" => None,
        _ => Some(args.number(0, 0..=i32::MAX as u32)?).filter(|rounds| *rounds > 0),
    };
    done()
}

pub(crate) fn connect_timeout(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.scope().connect_timeout = Some(args.seconds(0)?);
    done()
}

pub(crate) fn exit_notify(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.scope().exit_notify = Some(args.opt_number(0, 0..=u8::MAX)?.unwrap_or(1));
    done()
}

pub(crate) fn float(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.socket.float = true;
    done()
}

pub(crate) fn multihome(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.socket.multihome = true;
    done_but("for the addresses that the machine has when adit starts")
}

pub(crate) fn mark(draft: &mut Draft, args: &Args<'_>) -> Done {
    // OpenVPN marks nothing with 0.
    draft.socket.mark = Some(args.number(0, 0..=u32::MAX)?).filter(|mark| *mark != 0);
    done()
}

pub(crate) fn bind_dev(draft: &mut Draft, args: &Args<'_>) -> Done {
    let name = args.get(0)?;
    let right = "the name of a network device, of at most 15 characters, such as `eth0`";
    draft.socket.device = Some(name.parse().map_err(|_| args.bad(name, right))?);
    done()
}

pub(crate) fn passtos(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.socket.passtos = true;
    done_but(
        "the DSCP of each packet, IPv6 too, is that of the datagram around it, and the ECN field is 0; a TCP connection \
         keeps its own",
    )
}

pub(crate) fn mtu_disc(draft: &mut Draft, args: &Args<'_>) -> Done {
    let mode = args.get(0)?;
    let known = MtuDiscovery::ALL.iter().find(|(_, name)| *name == mode);
    let (mode, _) = known.ok_or_else(|| args.bad(mode, "`no`, `maybe` or `yes`"))?;
    draft.socket.mtu_disc = Some(*mode);
    done_but("for datagrams of both families; the system finds the packet size of a TCP connection by itself")
}

pub(crate) fn route_table(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.device.route_table = Some(args.number(0, 1..=u32::MAX)?);
    done_but(
        "for all routes into the tunnel, those that a server pushes too; rules that lead there are for you to make",
    )
}

pub(crate) fn max_packet_size(draft: &mut Draft, args: &Args<'_>) -> Done {
    let wanted: u16 = args.number(0, 1..=u16::MAX)?;
    // OpenVPN's limits (ssl_common.h `TLS_CHANNEL_MTU_MIN`, `TLS_CHANNEL_BUF_SIZE`).
    let size = wanted.clamp(154, 2048);
    draft.socket.control_size = Some(size);
    if size == wanted { done() } else { done_but(format!("taken as {size}")) }
}

pub(crate) fn tun_mtu_max(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.client.max_pushed_mtu = Some(args.number(0, 576..=65_000)?);
    done()
}

pub(crate) fn tcp_nodelay(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.socket.tcp_nodelay = true;
    draft.server.push_nodelay = true;
    done()
}

pub(crate) fn socket_flags(draft: &mut Draft, args: &Args<'_>) -> Done {
    if let Some(other) = args.all().iter().find(|flag| *flag != "TCP_NODELAY") {
        return Err(args.bad(other, "`TCP_NODELAY`"));
    }
    draft.socket.tcp_nodelay = true;
    done()
}

fn buffer(args: &Args<'_>) -> Result<Option<u32>, String> {
    Ok(Some(args.number(0, 0..=i32::MAX as u32)?).filter(|bytes| *bytes > 0))
}

pub(crate) fn sndbuf(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.socket.sndbuf = buffer(args)?;
    done()
}

pub(crate) fn rcvbuf(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.socket.rcvbuf = buffer(args)?;
    done()
}

pub(crate) fn tun_mtu(draft: &mut Draft, args: &Args<'_>) -> Done {
    // OpenVPN's least is 68 (IPv4's own); below 576 nothing of use fits beside a ping.
    let mtu = args.number(0, 68..=u16::MAX)?;
    let told = args.opt_number(1, 68..=u16::MAX)?;
    draft.device.mtu = Some(mtu);
    draft.device.told_mtu = told.filter(|told| *told != mtu);
    done()
}

pub(crate) fn ifconfig_nowarn(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.device.ifconfig_nowarn = true;
    done()
}

pub(crate) fn txqueuelen(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.device.txqueuelen = Some(args.number(0, 0..=1_000_000)?).filter(|packets| *packets > 0);
    done()
}

pub(crate) fn ifconfig(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.device.ifconfig = Some((args.ipv4(0)?, args.ipv4(1)?, args.entry.at.clone()));
    done()
}

pub(crate) fn ifconfig_ipv6(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.device.ifconfig_ipv6 = Some((args.ipv6_net(0)?, args.ipv6(1)?));
    done()
}

pub(crate) fn route_metric(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.client.route_metric = Some(args.number(0, 0..=i32::MAX as u32)?);
    done()
}

pub(crate) fn route_gateway(draft: &mut Draft, args: &Args<'_>) -> Done {
    if args.get(0)? != "dhcp"
        && let IpAddr::V4(gateway) = args.ip(0)?
    {
        draft.scripts.scripts.gateway = Some(gateway);
    }
    done()
}
