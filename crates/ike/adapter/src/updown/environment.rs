//! The environment of a program of `updown`, which has the names and the forms of strongSwan's (its plugin `updown`; the comments in
//! `_updown.in` say what each is).

use std::net::IpAddr;

use adit_ike::machine::ChildUp;
use adit_ike::wire::{AddressRange, TrafficSelector};

use crate::status_rows::identity;

/// The variable that says what happens.
pub(super) const VERB: &str = "PLUTO_VERB";
/// The variable that has the name of the child.
pub(super) const CONNECTION: &str = "PLUTO_CONNECTION";

/// The device of a child.
pub(super) struct Device<'a> {
    pub(super) name: &'a str,
    /// `if_id_in` and `if_id_out`.
    pub(super) number: Option<u32>,
}

/// The environment of the runs of a program about one pair of selectors.
pub(super) struct Run {
    /// The verb without `up-` or `down-`: `host` or `client`, with `-v6` for IPv6.
    kind: String,
    variables: Vec<(String, String)>,
}

impl Run {
    /// The variables of a change: `up` or `down`.
    pub(super) fn variables(&self, change: &str) -> Vec<(String, String)> {
        let verb = (VERB.to_owned(), format!("{change}-{}", self.kind));
        std::iter::once(verb).chain(self.variables.iter().cloned()).collect()
    }
}

/// The runs for a child: one for each pair of selectors of one family.
pub(super) fn runs(child: &ChildUp, device: &Device<'_>) -> Vec<Run> {
    let common = common(child, device);
    let pairs = child.local.iter().flat_map(|local| child.remote.iter().map(move |remote| (local, remote)));
    pairs.filter_map(|(local, remote)| run(child, (local, remote), &common)).collect()
}

fn run(
    child: &ChildUp,
    (local, remote): (&TrafficSelector, &TrafficSelector),
    common: &[(String, String)],
) -> Option<Run> {
    let (own, peers) = (range(local)?, range(remote)?);
    if own.0.is_ipv4() != peers.0.is_ipv4() {
        return None;
    }
    let is_host = child.local_address.is_some_and(|address| own == (address, address));
    let family = if own.0.is_ipv4() { "" } else { "-v6" };
    let mut variables = common.to_vec();
    for (end, selector, range) in [("MY", local, own), ("PEER", remote, peers)] {
        let mut add = |name: &str, value: String| variables.push((format!("PLUTO_{end}_{name}"), value));
        add("CLIENT", network(range));
        add("PORT", selector.first_port.to_string());
        add("PROTOCOL", selector.protocol.to_string());
    }
    Some(Run { kind: format!("{}{family}", if is_host { "host" } else { "client" }), variables })
}

/// The variables that do not depend on selectors.
fn common(child: &ChildUp, device: &Device<'_>) -> Vec<(String, String)> {
    let peer = child.path.remote();
    let mut variables = Vec::new();
    let mut add = |name: &str, value: String| variables.push((format!("PLUTO_{name}"), value));
    add("VERSION", "1.1".to_owned());
    add("CONNECTION", child.child.clone());
    add("INTERFACE", device.name.to_owned());
    // As VICI numbers IKE SAs and child SAs.
    let number = child.peer.0.saturating_add(1).to_string();
    add("REQID", number.clone());
    add("UNIQUEID", number);
    add("PROTO", "esp".to_owned());
    if let Some(own) = child.local_address {
        add("ME", own.to_string());
    }
    add("MY_ID", identity(&child.local_identity));
    add("PEER", peer.ip().to_canonical().to_string());
    add("PEER_ID", identity(&child.remote_identity));
    for (end, addresses) in [("MY", &child.own_inner), ("PEER", &child.peer_inner)] {
        for (name, value) in by_family(addresses) {
            add(&format!("{end}_SOURCEIP{name}"), value);
        }
        if let Some(first) = addresses.first() {
            add(&format!("{end}_SOURCEIP"), first.to_string());
        }
    }
    for (name, value) in by_family(&child.dns) {
        add(&format!("DNS{name}"), value);
    }
    for name in ["IF_ID_IN", "IF_ID_OUT"] {
        device.number.iter().for_each(|number| add(name, number.to_string()));
    }
    if child.is_encapsulated {
        add("UDP_ENC", peer.port().to_string());
    }
    variables
}

/// The addresses with their families and numbers, from 1: `4_1`, `6_1`.
fn by_family(addresses: &[IpAddr]) -> impl Iterator<Item = (String, String)> {
    [true, false].into_iter().flat_map(move |is_ipv4| {
        let family = if is_ipv4 { 4 } else { 6 };
        let of_family = addresses.iter().filter(move |address| address.is_ipv4() == is_ipv4);
        (1..).zip(of_family).map(move |(number, address)| (format!("{family}_{number}"), address.to_string()))
    })
}

const fn range(selector: &TrafficSelector) -> Option<(IpAddr, IpAddr)> {
    match selector.addresses {
        AddressRange::V4(first, last) => Some((IpAddr::V4(first), IpAddr::V4(last))),
        AddressRange::V6(first, last) => Some((IpAddr::V6(first), IpAddr::V6(last))),
        AddressRange::Other(..) => None,
    }
}

/// The least network with all addresses of a range.
fn network(range: (IpAddr, IpAddr)) -> String {
    match range {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            let len = (first.to_bits() ^ last.to_bits()).leading_zeros();
            let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
            format!("{}/{len}", IpAddr::V4((first.to_bits() & mask).into()))
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            let len = (first.to_bits() ^ last.to_bits()).leading_zeros();
            let mask = u128::MAX.checked_shl(128 - len).unwrap_or(0);
            format!("{}/{len}", IpAddr::V6((first.to_bits() & mask).into()))
        }
        (first, last) => format!("{first}-{last}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use adit_core::{DeviceId, Path, PeerId};
    use adit_ike::wire::{IdType, Identification};

    use super::*;

    fn selector(first: &str, last: &str) -> TrafficSelector {
        let addresses = match (first.parse().unwrap(), last.parse().unwrap()) {
            (IpAddr::V4(first), IpAddr::V4(last)) => AddressRange::V4(first, last),
            (IpAddr::V6(first), IpAddr::V6(last)) => AddressRange::V6(first, last),
            _ => panic!("two families"),
        };
        TrafficSelector { protocol: 0, first_port: 0, last_port: u16::MAX, addresses }
    }

    pub(in crate::updown) fn child() -> ChildUp {
        let identity = |name: &str| Identification { kind: IdType::FQDN, data: name.as_bytes().to_vec() };
        ChildUp {
            program: Arc::from("/bin/true"),
            peer: PeerId(4),
            child: "net".to_owned(),
            device: DeviceId(1),
            path: Path::Udp { socket: 1, remote: "192.0.2.2:4500".parse().unwrap() },
            local_address: Some("192.0.2.1".parse().unwrap()),
            local_identity: identity("a.example"),
            remote_identity: identity("b.example"),
            own_inner: vec!["10.9.0.7".parse().unwrap(), "fd00:9::7".parse().unwrap()],
            peer_inner: Vec::new(),
            dns: vec!["10.1.0.53".parse().unwrap()],
            is_encapsulated: true,
            local: vec![selector("10.1.0.0", "10.1.255.255"), selector("fd00:1::", "fd00:1::ffff")],
            remote: vec![
                TrafficSelector {
                    protocol: 6,
                    first_port: 80,
                    last_port: 80,
                    ..selector("10.2.0.1", "10.2.0.2")
                },
                selector("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ],
        }
    }

    fn shown(run: &Run, change: &str) -> Vec<String> {
        run.variables(change).iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn each_pair_of_selectors_has_a_run_with_the_variables_of_strongswan() {
        let runs = runs(&child(), &Device { name: "vti7", number: Some(7) });
        assert_eq!(runs.len(), 2, "pairs of one family");
        let first = shown(&runs[0], "up");
        for expected in [
            "PLUTO_VERB=up-client",
            "PLUTO_VERSION=1.1",
            "PLUTO_CONNECTION=net",
            "PLUTO_INTERFACE=vti7",
            "PLUTO_UNIQUEID=5",
            "PLUTO_PROTO=esp",
            "PLUTO_ME=192.0.2.1",
            "PLUTO_MY_ID=a.example",
            "PLUTO_MY_CLIENT=10.1.0.0/16",
            "PLUTO_MY_PORT=0",
            "PLUTO_MY_PROTOCOL=0",
            "PLUTO_PEER=192.0.2.2",
            "PLUTO_PEER_ID=b.example",
            "PLUTO_PEER_CLIENT=10.2.0.0/30",
            "PLUTO_PEER_PORT=80",
            "PLUTO_PEER_PROTOCOL=6",
            "PLUTO_MY_SOURCEIP=10.9.0.7",
            "PLUTO_MY_SOURCEIP4_1=10.9.0.7",
            "PLUTO_MY_SOURCEIP6_1=fd00:9::7",
            "PLUTO_DNS4_1=10.1.0.53",
            "PLUTO_IF_ID_IN=7",
            "PLUTO_IF_ID_OUT=7",
            "PLUTO_UDP_ENC=4500",
        ] {
            assert!(first.contains(&expected.to_owned()), "{expected}: {first:?}");
        }
        let second = shown(&runs[1], "down");
        for expected in
            ["PLUTO_VERB=down-client-v6", "PLUTO_MY_CLIENT=fd00:1::/112", "PLUTO_PEER_CLIENT=::/0"]
        {
            assert!(second.contains(&expected.to_owned()), "{expected}: {second:?}");
        }
    }

    #[test]
    fn traffic_of_the_outer_address_alone_is_that_of_a_host() {
        let own = selector("192.0.2.1", "192.0.2.1");
        let host = ChildUp { local: vec![own], own_inner: Vec::new(), ..child() };
        let runs = runs(&host, &Device { name: "ipsec0", number: None });
        let first = shown(&runs[0], "up");
        assert!(first.contains(&"PLUTO_VERB=up-host".to_owned()), "{first:?}");
        assert!(
            !first.iter().any(|line| line.starts_with("PLUTO_IF_ID") || line.contains("SOURCEIP")),
            "{first:?}"
        );
    }
}
