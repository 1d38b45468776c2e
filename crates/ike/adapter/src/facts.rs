//! The facts of a file that the host compares with those of other files.

use std::net::{IpAddr, Ipv6Addr};

use adit_core::{IpNet, Transport};
use adit_host::facts::{AddressFamily, Facts, ResourceKind, Stated};

use crate::NAME;
use crate::driver::{IKE_PORT, NAT_TRAVERSAL_PORT};
use crate::translate::Planned;

/// The facts of a file with these connections.
pub(crate) fn of(planned: &[Planned]) -> Facts {
    let all = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let port = |port| Stated::by(&[], ResourceKind::Address(Transport::Udp, all, port).exclusive());
    let networks: Vec<IpNet> = planned.iter().flat_map(Planned::remote_networks).collect();
    let has_default = |family: &AddressFamily| {
        let is_of_family = |network: &IpNet| network.addr().is_ipv4() == (*family == AddressFamily::V4);
        networks.iter().any(|network| network.prefix_len() == 0 && is_of_family(network))
    };
    let families = [AddressFamily::V4, AddressFamily::V6].into_iter().filter(has_default);
    Facts {
        protocol: NAME,
        resources: vec![port(IKE_PORT), port(NAT_TRAVERSAL_PORT)],
        default_routes: families.map(|family| Stated::by(&["remote_ts"], family)).collect(),
        excludes_networks: true,
        ..Facts::default()
    }
}
