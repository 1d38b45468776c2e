//! What a server sets up on its own system, and what it pushes.

use adit_core::{IpNet, Ipv4Net, Ipv6Net, TunnelSettings};

use crate::link::Agreement;
use crate::negotiate::{PeerAbilities, iv_proto};
use crate::params::{Keepalive, ServerParams};
use crate::pool::{Lease, server_address4, server_address6};

/// The server's end of the tunnel.
pub(super) fn tunnel(params: &ServerParams) -> TunnelSettings {
    let v4 =
        params.network4.and_then(|network| Ipv4Net::new(server_address4(network), network.prefix_len()).ok());
    let v6 =
        params.network6.and_then(|network| Ipv6Net::new(server_address6(network), network.prefix_len()).ok());
    TunnelSettings {
        addresses: v4.map(IpNet::V4).into_iter().chain(v6.map(IpNet::V6)).collect(),
        mtu: params.data.tun_mtu,
        routes: params.routes.clone(),
        ..TunnelSettings::default()
    }
}

/// The options of a push reply, most general first.
pub(super) fn push_options(
    params: &ServerParams,
    lease: Lease,
    agreement: &Agreement,
    peer_id: Option<u32>,
    abilities: &PeerAbilities,
) -> Vec<String> {
    let mut options = params.push.clone();
    push_addresses(params, lease, &mut options);
    push_keepalive(params.pushed_keepalive, &mut options);
    if let Some(id) = peer_id {
        options.push(format!("peer-id {id}"));
    }
    // A peer that cannot negotiate already uses this cipher and would not know the option.
    if !abilities.ciphers.is_empty() {
        options.push(format!("cipher {}", agreement.cipher));
    }
    match (abilities.has(iv_proto::CC_EXIT), agreement.exporter) {
        (true, true) => options.push("protocol-flags cc-exit tls-ekm".to_owned()),
        (true, false) => options.push("protocol-flags cc-exit".to_owned()),
        (false, true) => options.push("key-derivation tls-ekm".to_owned()),
        (false, false) => {}
    }
    if abilities.accepts_tun_mtu {
        options.push(format!("tun-mtu {}", params.data.tun_mtu));
    }
    options
}

fn push_addresses(params: &ServerParams, lease: Lease, options: &mut Vec<String>) {
    if let (Some(network), Some(address)) = (params.network4, lease.v4) {
        options.push(format!("route-gateway {}", server_address4(network)));
        options.push("topology subnet".to_owned());
        options.push(format!("ifconfig {address} {}", network.netmask()));
    }
    if let (Some(network), Some(address)) = (params.network6, lease.v6) {
        options.push(format!(
            "ifconfig-ipv6 {address}/{} {}",
            network.prefix_len(),
            server_address6(network)
        ));
    }
}

fn push_keepalive(keepalive: Keepalive, options: &mut Vec<String>) {
    if let Some(interval) = keepalive.ping {
        options.push(format!("ping {}", interval.as_secs()));
    }
    if let Some(patience) = keepalive.timeout {
        options.push(format!("ping-restart {}", patience.as_secs()));
    }
}
