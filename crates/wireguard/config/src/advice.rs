//! Advice on lines that a file may have and its owner should think about: warnings beside those of single
//! lines.

use std::collections::BTreeMap;

use std::net::IpAddr;

use adit_core::IpNet;
use adit_wireguard::{AllowedIp, PublicKey};

use super::model::{Interface, Peer, Table};

/// A warning, with its line if it is about one.
pub(super) type Advice = (Option<u32>, String);

/// The MTU of most links.
const USUAL_MTU: u16 = 1500;
/// Bytes around a packet: IPv4, UDP, the data message's header of 16 bytes and its tag of 16 bytes (whitepaper §5.4.6).
const OVERHEAD_V4: u16 = 20 + 8 + 32;
/// Bytes around a packet over IPv6.
const OVERHEAD_V6: u16 = 40 + 8 + 32;
/// The least MTU of a link with IPv6 (RFC 8200 §5). Linux takes IPv6 off a device with less.
const IPV6_MINIMUM: u16 = 1280;

/// A line's change to the prefixes of a peer.
pub(super) struct AllowedIpsLine {
    pub(super) change: AllowedIp,
    pub(super) public_key: PublicKey,
    pub(super) line: u32,
}

pub(super) fn of_interface(interface: &Interface, peers: &[Peer], mtu_line: Option<u32>) -> Vec<Advice> {
    let mut advice = Vec::new();
    if interface.private_key.is_none() {
        let text = "[Interface] has no PrivateKey: nothing is sent or taken until it has one";
        advice.push((None, text.to_owned()));
    }
    let is_reachable = interface.listen_port.is_some_and(|port| port != 0) || interface.listen_tcp.is_some();
    let is_known = |peer: &Peer| peer.endpoint.is_some() || peer.tcp.is_some();
    if !peers.is_empty() && !is_reachable && !peers.iter().any(is_known) {
        let text =
            "no peer has an Endpoint and [Interface] has no ListenPort: neither end knows where the other is";
        advice.push((None, text.to_owned()));
    }
    if let Some(mtu) = interface.mtu {
        advice.extend(of_mtu(mtu, has_ipv6(interface, peers)).map(|text| (mtu_line, text)));
    }
    advice.extend(of_loops(interface, peers));
    advice
}

/// Endpoints that lie in the file's own routes. With a default route, or a table of the owner's, rules lead the tunnel's
/// own datagrams beside it.
fn of_loops(interface: &Interface, peers: &[Peer]) -> Vec<Advice> {
    let added = |peer: &Peer| {
        let nets = peer.allowed_ips.iter().filter_map(|change| match change {
            AllowedIp::Add(net) => Some(*net),
            AllowedIp::Remove(_) => None,
        });
        nets.collect::<Vec<_>>()
    };
    let routes: Vec<IpNet> = peers.iter().flat_map(added).collect();
    if interface.table != Table::Auto || routes.iter().any(|net| net.prefix_len() == 0) {
        return Vec::new();
    }
    let advice = peers.iter().filter_map(|peer| {
        let address: IpAddr = peer.endpoint.as_ref()?.host.parse().ok()?;
        let net = routes.iter().find(|net| net.contains(&address))?;
        let text = format!(
            "Endpoint: {address} lies in {net} of AllowedIPs, so that the tunnel's own datagrams are routed into the tunnel, where \
             no route of the system is more specific: leave it out of AllowedIPs"
        );
        Some((Some(peer.line), text))
    });
    advice.collect()
}

fn of_mtu(mtu: u16, has_ipv6: bool) -> Option<String> {
    let fits = USUAL_MTU - OVERHEAD_V6;
    if mtu > USUAL_MTU - OVERHEAD_V4 {
        Some(format!(
            "MTU: datagrams are {OVERHEAD_V4} bytes longer than packets over IPv4, {OVERHEAD_V6} over IPv6: with {mtu} \
             they do not pass links of {USUAL_MTU} whole; {fits} does"
        ))
    } else if mtu < IPV6_MINIMUM && has_ipv6 {
        Some(format!(
            "MTU: IPv6 needs {IPV6_MINIMUM} at least: with {mtu} the system takes it off the device"
        ))
    } else {
        None
    }
}

fn has_ipv6(interface: &Interface, peers: &[Peer]) -> bool {
    let is_v6 = |net: &IpNet| matches!(net, IpNet::V6(_));
    let allows = |change: &AllowedIp| matches!(change, AllowedIp::Add(IpNet::V6(_)));
    interface.addresses.iter().any(is_v6) || peers.iter().any(|peer| peer.allowed_ips.iter().any(allows))
}

/// A prefix belongs to one peer: the one that named it last. A part of another peer's prefix is no conflict, as the
/// longest prefix decides.
pub(super) fn of_allowed_ips(lines: &[AllowedIpsLine]) -> Vec<Advice> {
    let mut owners: BTreeMap<IpNet, &AllowedIpsLine> = BTreeMap::new();
    let mut advice = Vec::new();
    for line in lines {
        match line.change {
            AllowedIp::Add(net) => {
                let before = owners.insert(net, line);
                if let Some(before) = before.filter(|before| before.public_key != line.public_key) {
                    let text = format!(
                        "AllowedIPs: {net} moves to this peer: the peer of line {} loses it",
                        before.line
                    );
                    advice.push((Some(line.line), text));
                }
            }
            AllowedIp::Remove(net) => {
                if owners.get(&net).is_some_and(|owner| owner.public_key == line.public_key) {
                    owners.remove(&net);
                }
            }
        }
    }
    advice
}
