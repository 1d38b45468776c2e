//! The listening end of a point-to-point tunnel, and the parts that both ends of one share.

use std::net::IpAddr;

use adit_core::Ipv4Net;
use adit_openvpn::params::TlsCryptV2;

use super::server::listen;
use crate::directives::args::prefix_of;
use crate::draft::Draft;
use crate::model::{PointToPointConfig, StaticIpv4};
use crate::parser::Parser;

/// Our IPv4 address from `ifconfig`; a wrong netmask is a problem.
pub(crate) fn static_ipv4(draft: &Draft, parser: &mut Parser<'_>) -> Option<StaticIpv4> {
    let (local, other, at) = draft.device.ifconfig.as_ref()?;
    if draft.device.subnet != Some(true) {
        return Some(StaticIpv4::PointToPoint { local: *local, peer: *other });
    }
    let net = prefix_of(*other).and_then(|bits| Ipv4Net::new(*local, bits).ok());
    if net.is_none() {
        let text = format!("`ifconfig`: {other} is no netmask, as `topology subnet` wants");
        parser.problems.push(at.problem(text));
    }
    net.map(StaticIpv4::Subnet)
}

/// With adit the TLS client connects and the TLS server listens.
pub(crate) fn check_tcp_end(draft: &Draft, listens: bool, parser: &mut Parser<'_>) {
    let Some((tcp_listens, at)) = &draft.sides.tcp_end else { return };
    if *tcp_listens != listens {
        let (tls, tcp) = if listens { ("tls-server", "tcp-server") } else { ("tls-client", "tcp-client") };
        parser.problems.push(at.problem(format!(
            "`proto`: the `{tls}` must be the `{tcp}`; swap `tls-server` and `tls-client`, or the two protocols, \
             at both ends"
        )));
    }
}

pub(super) fn point_to_point(
    draft: &mut Draft,
    tls_crypt_v2: Option<TlsCryptV2>,
    file: &str,
    parser: &mut Parser<'_>,
) -> Option<PointToPointConfig> {
    let before = parser.problems.len();
    check_tcp_end(draft, true, parser);
    let mut remotes = Vec::new();
    for (remote, block) in std::mem::take(&mut draft.client.remotes) {
        let proto = remote.proto.or(block.and_then(|block| block.proto));
        draft.general.proto = draft.general.proto.or(proto);
        if remote.host.parse::<IpAddr>().is_err() && !draft.socket.float {
            let decides = if draft.tls.secret.is_some() { "its key" } else { "its certificate" };
            parser.warn_in(file, format!(
                "`remote {}`: a name does not restrict from where the other end may come, {decides} decides; \
                 write an address to restrict it",
                remote.host
            ));
        }
        remotes.push(remote.host);
    }
    // This end must listen, although `nobind` forbids it.
    let listen = listen(&draft.general, file, parser);
    let ipv4 = static_ipv4(draft, parser);
    let has_address = ipv4.is_some() || draft.device.ifconfig_ipv6.is_some() || draft.device.is_absent();
    if !has_address && parser.problems.len() == before {
        parser.problem_in(
            file,
            "nothing gives this end an address: write `ifconfig OURS THEIRS` for a point-to-point tunnel, or \
             `server NETWORK NETMASK` for a server of clients",
        );
    }
    (parser.problems.len() == before).then(|| PointToPointConfig {
        listen,
        remotes,
        ipv4,
        ipv6: draft.device.ifconfig_ipv6,
        exit_notify: draft.general.exit_notify.unwrap_or(0),
        tls_crypt_v2,
        single: draft.server.single,
    })
}
