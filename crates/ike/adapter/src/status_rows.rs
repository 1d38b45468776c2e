//! The rows of an endpoint in `adit status`, and its peers in the log.

use std::net::IpAddr;

use adit_core::{PeerInfo, printable};
use adit_host::status::Rows;
use adit_ike::machine::{ChildDetail, Endpoint, PeerDetail};
use adit_ike::suite::IkeSuite;
use adit_ike::wire::{IdType, Identification};

/// The rows of an endpoint in its reports.
pub(crate) const ROWS: Rows<Endpoint> =
    Rows { role: "ipsec", handshake, public_key: |_| None, unconnected: |_| Vec::new() };

fn handshake(detail: &PeerDetail) -> String {
    let role = if detail.is_initiator { "initiator" } else { "responder" };
    let children: Vec<String> = detail.children.iter().map(child).collect();
    format!("IKEv2, {role}, {}; {}", suite(&detail.suite), children.join("; "))
}

/// The algorithms of an IKE SA, in the words of proposals.
fn suite(suite: &IkeSuite) -> String {
    let integrity = suite.integrity.map(|digest| format!("/{digest}")).unwrap_or_default();
    let groups = std::iter::once(&suite.group).chain(&suite.additional);
    let groups: Vec<&str> = groups.map(|group| group.keyword()).collect();
    format!("{}{integrity}/PRF-{}/{}", suite.cipher, suite.prf, groups.join("+"))
}

fn child(child: &ChildDetail) -> String {
    let ChildDetail { name, own_spi, peer_spi, .. } = child;
    let way = if child.is_encapsulated { "ESP in UDP" } else { "ESP" };
    let integrity = child.integrity.map(|digest| format!("/{digest}")).unwrap_or_default();
    format!("{name}: {way} {}{integrity}, SPIs {own_spi:08x} in, {peer_spi:08x} out", child.cipher)
}

/// A peer in a line.
pub(crate) fn summary(info: &PeerInfo<PeerDetail>) -> String {
    format!("{}, {}", identity(&info.detail.remote_identity), handshake(&info.detail))
}

/// An identity with its kind. Addresses and keys are bytes.
pub(crate) fn identity(identity: &Identification) -> String {
    let address = match (identity.kind, identity.data.as_slice()) {
        (IdType::IPV4_ADDR, data) => <[u8; 4]>::try_from(data).ok().map(IpAddr::from),
        (IdType::IPV6_ADDR, data) => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
        _ => None,
    };
    match address {
        Some(address) => address.to_string(),
        None => printable(&String::from_utf8_lossy(&identity.data)),
    }
}
