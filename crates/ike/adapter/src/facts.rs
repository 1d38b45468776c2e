//! The facts of a file that the host compares with those of other files.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use adit_core::{IpNet, Transport};
use adit_host::facts::{AddressFamily, Endpoint, EndpointRole, Facts, Join, ResourceKind, Stated};

use crate::content::Content;
use crate::driver::{FIRST_DEVICE, IKE_PORT, NAT_TRAVERSAL_PORT};
use crate::{NAME, forwarding};

/// The directive of the device.
const DEVICE: &[&str] = &["device"];

/// The facts of a file with that content. A file that names its device is an endpoint of the tunnel with that device, if another file
/// leads there.
pub(crate) fn of(content: &Content) -> Facts {
    let (planned, device) = (&content.planned, &content.parsed.config.device);
    let all = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let port = |port| Stated::by(&[], ResourceKind::Address(Transport::Udp, all, port).exclusive());
    let by_policy = planned.iter().filter(|planned| planned.is_policy_based());
    let own: BTreeSet<&str> =
        planned.iter().filter_map(|one| one.device.as_ref()).map(|device| device.name.as_str()).collect();
    let own = own
        .into_iter()
        .map(|name| Stated::by(&["if_id_in", "policies"], ResourceKind::Device(name.to_owned()).exclusive()));
    let networks: Vec<IpNet> = by_policy.flat_map(|planned| planned.remote_networks()).collect();
    let has_default = |family: &AddressFamily| {
        let is_of_family = |network: &IpNet| network.addr().is_ipv4() == (*family == AddressFamily::V4);
        networks.iter().any(|network| network.prefix_len() == 0 && is_of_family(network))
    };
    let families = [AddressFamily::V4, AddressFamily::V6].into_iter().filter(has_default);
    let name = device.iter().map(|name| Stated::by(DEVICE, ResourceKind::Device(name.clone()).shared()));
    // The device has the addresses of the endpoints that lead, whose MTU the connections take.
    let join = || Join { addresses: None, addresses_text: String::new(), mtu: None, marked_port: None };
    Facts {
        protocol: NAME,
        resources: [port(IKE_PORT), port(NAT_TRAVERSAL_PORT)].into_iter().chain(name).chain(own).collect(),
        default_routes: families.map(|family| Stated::by(&["remote_ts"], family)).collect(),
        excludes_networks: true,
        forwarding: forwarding::of(content, device.as_deref().unwrap_or(FIRST_DEVICE)),
        endpoint: device.clone().map(|device| Endpoint { device, role: EndpointRole::Joins(join()) }),
        ..Facts::default()
    }
}
