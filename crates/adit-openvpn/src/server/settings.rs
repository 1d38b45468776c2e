//! What a server sets up on its own system, and what it pushes.

use adit_core::{IpNet, TunnelSettings};

use crate::link::Agreement;
use crate::negotiate::{PeerAbilities, iv_proto};
use crate::params::ServerParams;
use crate::pool::Lease;

/// The server's end of the tunnel.
pub(super) fn tunnel(params: &ServerParams) -> TunnelSettings {
    TunnelSettings {
        addresses: params.address4.map(IpNet::V4).into_iter().chain(params.address6.map(IpNet::V6)).collect(),
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
    if let (Some(network), Some(address)) = (params.address4, lease.v4) {
        options.push(format!("ifconfig {address} {}", network.netmask()));
    }
    if let (Some(own), Some(pool), Some(address)) = (params.address6, params.pool6, lease.v6) {
        options.push(format!("ifconfig-ipv6 {address}/{} {}", pool.prefix_len(), own.addr()));
    }
}
