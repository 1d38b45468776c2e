//! The rows of an endpoint in `adit status`, and its peers in the log.

use std::net::IpAddr;

use adit_core::{Instant, PeerInfo, printable};
use adit_host::status::Rows;
use adit_host::status::report::{Session, Unconnected};
use adit_ike::machine::{self, ChildDetail, Endpoint, PeerDetail};
use adit_ike::suite::IkeSuite;
use adit_ike::wire::{IdType, Identification};

use crate::selectors::selector;
use crate::translate::networks;

/// The rows of an endpoint in its reports.
pub(crate) const ROWS: Rows<Endpoint> =
    Rows { role: "ipsec", handshake, public_key: |_| None, sessions, unconnected };

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
    format!("{name}: {way} {}, SPIs {own_spi:08x} in, {peer_spi:08x} out", cipher(child))
}

/// The child SAs of a peer.
fn sessions(detail: &PeerDetail, now: Instant) -> Vec<Session> {
    detail.children.iter().map(|child| session(child, now)).collect()
}

fn session(child: &ChildDetail, now: Instant) -> Session {
    Session {
        name: child.name.clone(),
        id_in: format!("{:08x}", child.own_spi),
        id_out: format!("{:08x}", child.peer_spi),
        cipher: cipher(child),
        in_udp: child.is_encapsulated,
        seals: child.is_sealing,
        local: child.local.iter().map(selector).collect(),
        remote: child.remote.iter().map(selector).collect(),
        age_seconds: now.saturating_since(child.made_at).as_secs(),
        renewed_in_seconds: child.rekey_at.map(|at| at.saturating_since(now).as_secs()),
        packets_in: child.received.packets,
        bytes_in: child.received.bytes,
        packets_out: child.sent.packets,
        bytes_out: child.sent.bytes,
    }
}

/// The peers that this end seeks and that are not connected.
fn unconnected(endpoint: &Endpoint) -> Vec<Unconnected> {
    let of = |peer: machine::Unconnected<'_>| {
        let traffic = peer.connection.children.iter().flat_map(|child| &child.remote);
        Unconnected {
            name: peer.connection.name.clone(),
            public_key: None,
            remote: peer.remote,
            networks: traffic.flat_map(networks).map(|network| network.to_string()).collect(),
            unanswered: peer.unanswered,
            blocked: peer.is_blocked,
        }
    };
    endpoint.unconnected().map(of).collect()
}

fn cipher(child: &ChildDetail) -> String {
    let integrity = child.integrity.map(|digest| format!("/{digest}")).unwrap_or_default();
    format!("{}{integrity}", child.cipher)
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use adit_core::Cipher;
    use adit_ike::machine::DirectionCount;
    use adit_ike::wire::{AddressRange, TrafficSelector};

    use super::*;

    #[test]
    fn a_child_sa_is_a_session_with_its_selectors_and_times() {
        let now = Instant::ORIGIN + Duration::from_secs(100);
        let network = |third: u8| TrafficSelector {
            protocol: 0,
            first_port: 0,
            last_port: u16::MAX,
            addresses: AddressRange::V4([10, 1, third, 0].into(), [10, 1, third, 255].into()),
        };
        let child = ChildDetail {
            name: "net".to_owned(),
            own_spi: 0xc0ff_ee00,
            peer_spi: 0x12,
            cipher: Cipher::Aes256Cbc,
            integrity: Some(adit_core::Digest::Sha256),
            groups: Vec::new(),
            has_extended_sequence_numbers: false,
            is_encapsulated: true,
            is_sealing: true,
            made_at: Instant::ORIGIN + Duration::from_secs(40),
            rekey_at: Some(Instant::ORIGIN + Duration::from_secs(130)),
            local: vec![network(1)],
            remote: vec![network(2), network(3)],
            received: DirectionCount { packets: 1, bytes: 20 },
            sent: DirectionCount { packets: 3, bytes: 400 },
        };
        let expected = Session {
            name: "net".to_owned(),
            id_in: "c0ffee00".to_owned(),
            id_out: "00000012".to_owned(),
            cipher: "AES-256-CBC/SHA256".to_owned(),
            in_udp: true,
            seals: true,
            local: vec!["10.1.1.0/24".to_owned()],
            remote: vec!["10.1.2.0/24".to_owned(), "10.1.3.0/24".to_owned()],
            age_seconds: 60,
            renewed_in_seconds: Some(30),
            packets_in: 1,
            bytes_in: 20,
            packets_out: 3,
            bytes_out: 400,
        };
        assert_eq!(session(&child, now), expected);
    }
}
