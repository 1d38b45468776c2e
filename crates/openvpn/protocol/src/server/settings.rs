//! The settings of a server for its own system, and the options that it pushes.

use std::net::Ipv4Addr;

use adit_core::{IpNet, Ipv4Net, TunnelSettings, ipv6_network};

use crate::codec::Compression;
use crate::data_keys::Agreement;
use crate::dns::DnsOptions;
use crate::environment::{first_client4, first_client6};
use crate::lease::ClientLease;
use crate::negotiate::{PeerAbilities, iv_proto};
use crate::params::{PointToPointParams, ServerParams};
use crate::request::{PeerSettings, PushChange, TunnelFacts};
use crate::tunnel_facts::Told;

/// The server's end of the tunnel.
pub(super) fn tunnel(params: &ServerParams) -> TunnelSettings {
    if let Some(PointToPointParams { local, .. }) = &params.point_to_point {
        return TunnelSettings {
            addresses: local.addresses.clone(),
            peer_address: local.peer_address,
            mtu: params.data.tun_mtu,
            routes: local.routes.clone(),
            table: local.table,
            dns: local.dns.clone(),
            ..TunnelSettings::default()
        };
    }
    TunnelSettings {
        addresses: params.address4.map(IpNet::V4).into_iter().chain(params.address6.map(IpNet::V6)).collect(),
        mtu: params.data.tun_mtu,
        routes: params.routes.clone(),
        table: params.table,
        ..TunnelSettings::default()
    }
}

/// The settings of the server's own system in the words of scripts, if there are any.
pub(super) fn facts(params: &ServerParams) -> Option<Box<TunnelFacts>> {
    let (settings, none) = (tunnel(params), DnsOptions::default());
    let scripts = params.point_to_point.as_ref().and_then(|point| point.local.scripts.as_deref());
    let scripts = scripts.or(params.scripts.as_deref())?;
    let mut told = Told::by_file(&settings, scripts, &none);
    if params.point_to_point.is_none() {
        told.gateway = told.gateway.or(params.address4.map(first_client4));
        told.peer_ipv6 = told.peer_ipv6.or(params.address6.map(first_client6));
    }
    Some(Box::new(told.facts(scripts)))
}

/// The sources of the options that are pushed to one client.
pub(super) struct PushOf<'a> {
    pub(super) lease: &'a ClientLease,
    pub(super) settings: &'a PeerSettings,
    pub(super) agreement: &'a Agreement,
    pub(super) peer_id: Option<u32>,
    pub(super) abilities: &'a PeerAbilities,
}

/// The options of a push reply, most general first.
pub(super) fn push_options(params: &ServerParams, of: &PushOf<'_>) -> Vec<String> {
    let PushOf { agreement, abilities, .. } = of;
    let mut options = particular(params, of);
    push_addresses(params, of, &mut options);
    if let Some(id) = of.peer_id {
        options.push(format!("peer-id {id}"));
    }
    // A peer that cannot negotiate already uses this cipher and would not know the option.
    if !abilities.ciphers.is_empty() {
        options.push(format!("cipher {}", agreement.cipher));
    }
    if abilities.has(iv_proto::CC_EXIT) {
        let mut flags = "protocol-flags cc-exit".to_owned();
        let exporter = if agreement.exporter { " tls-ekm" } else { "" };
        let dynamic = if abilities.wraps_dynamically() { " dyn-tls-crypt" } else { "" };
        let epoch = if agreement.epoch { " aead-epoch" } else { "" };
        flags.extend([exporter, dynamic, epoch]);
        options.push(flags);
    } else if agreement.exporter {
        options.push("key-derivation tls-ekm".to_owned());
    }
    if abilities.accepts_tun_mtu {
        options.push(format!("tun-mtu {}", params.data.tun_mtu));
    }
    options
}

/// The options that all clients are pushed, as far as this client's settings leave them.
fn particular(params: &ServerParams, of: &PushOf<'_>) -> Vec<String> {
    let (mut options, settings) = (params.push.clone(), of.settings);
    if pair(params, of).is_some() {
        pair_off(params, &mut options);
    }
    if params.data.migrate {
        options.extend(migration(of.agreement.compression).map(str::to_owned));
    }
    for change in &settings.push {
        match change {
            PushChange::Add(option) => options.push(option.clone()),
            PushChange::Reset => options.clear(),
            PushChange::Remove(prefix) => options.retain(|option| !option.starts_with(prefix)),
        }
    }
    // A network behind this client is no business of the tunnel for it.
    options.retain(|option| !behind(settings, option));
    options
}

/// The second address of `ifconfig-push`, of a client outside the server's network that is given a pair of addresses (`topology
/// net30` or `p2p`). The server's netmask would not reach from there to the server.
fn pair(params: &ServerParams, of: &PushOf<'_>) -> Option<Ipv4Addr> {
    let (address, (_, second)) = (of.lease.addresses.v4()?, of.settings.ipv4?);
    let is_inside = params.address4.is_some_and(|own| own.contains(&address));
    Some(second).filter(|second| !is_inside && ipnet::ipv4_mask_to_prefix(*second).is_err())
}

/// The options for a client with a pair of addresses: the second one is its gateway, by which it reaches the server, too
/// (OpenVPN's helper.c, `helper_client_server`, for `topology net30`).
fn pair_off(params: &ServerParams, options: &mut Vec<String>) {
    let own = params.address4.map(|network| network.addr());
    let gateway = own.map(|own| format!("route-gateway {own}"));
    options.retain(|option| !option.starts_with("topology ") && Some(option) != gateway.as_ref());
    options.extend(own.map(|own| format!("route {own}")).filter(|route| !options.contains(route)));
    options.push("topology net30".to_owned());
}

/// The option that is pushed to a client that leaves compression for that framing (`compress migrate`).
fn migration(framing: Compression) -> Option<&'static str> {
    match framing {
        Compression::StubV2 => Some("compress stub-v2"),
        Compression::LzoNo => Some("comp-lzo no"),
        Compression::None | Compression::Stub => None,
    }
}

/// Whether the option is a plain route to a network behind the client.
fn behind(settings: &PeerSettings, option: &str) -> bool {
    let words: Vec<&str> = option.split_ascii_whitespace().collect();
    let network = match words.as_slice() {
        ["route", address] => address.parse::<Ipv4Addr>().ok().map(|address| IpNet::V4(address.into())),
        ["route", address, mask] => address
            .parse::<Ipv4Addr>()
            .ok()
            .zip(mask.parse().ok())
            .and_then(|(address, mask)| Ipv4Net::with_netmask(address, mask).ok())
            .map(IpNet::V4),
        ["route-ipv6", network] => ipv6_network(network).map(IpNet::V6),
        _ => None,
    };
    network.is_some_and(|network| settings.routes.contains(&network.trunc()))
}

/// Whether `push-remove` names an address, which is no part of the list (OpenVPN push.c `push_remove_option`).
fn blocks(settings: &PeerSettings, name: &str) -> bool {
    settings.push.iter().any(|change| matches!(change, PushChange::Remove(text) if text == name))
}

fn push_addresses(params: &ServerParams, of: &PushOf<'_>, options: &mut Vec<String>) {
    if let Some(address) = of.lease.addresses.v4()
        && !blocks(of.settings, "ifconfig")
    {
        let given = of.settings.ipv4.map(|(_, second)| second);
        // A second address is from a `topology net30` file; the server pushes `topology subnet` to clients in its network.
        let given = given.filter(|second| ipnet::ipv4_mask_to_prefix(*second).is_ok());
        let second = given.or(pair(params, of)).or(params.address4.map(|network| network.netmask()));
        options.push(format!("ifconfig {address} {}", second.unwrap_or(Ipv4Addr::BROADCAST)));
    }
    if let Some(network) = of.lease.addresses.v6()
        && !blocks(of.settings, "ifconfig-ipv6")
    {
        let named = of.settings.ipv6.and_then(|(_, gateway)| gateway);
        if let Some(gateway) = named.or(params.address6.map(|own| own.addr())) {
            options.push(format!("ifconfig-ipv6 {network} {gateway}"));
        }
    }
}
