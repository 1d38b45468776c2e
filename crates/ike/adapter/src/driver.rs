//! The device and the sockets of a tunnel.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use adit_core::IpNet;
use adit_dataplane::codec::Demultiplexer;
use adit_host::adapter::Setting;
use adit_host::failure::Failure;
use adit_ike::machine::{Endpoint, FamilySockets, Sockets};
use adit_ike_codec::{EspSocket, IkeSocket, NatTraversalSocket};
use adit_io::{
    Buffers, Driver, DriverConfig, Execution, IpBinding, StreamOptions, TunConfig, UdpBinding, UdpSockets,
    UdpSource,
};
use adit_system::{Netlink, SocketRouting};

use crate::codec;

/// The port of IKE messages (RFC 7296 section 2).
pub(crate) const IKE_PORT: u16 = 500;
/// The port of ESP in UDP, and of IKE messages behind a marker (RFC 3948).
pub(crate) const NAT_TRAVERSAL_PORT: u16 = 4500;
/// The number of ESP as an IP protocol (RFC 4303 section 2).
const ESP: u8 = 50;
/// The driver's numbers of the ports.
const PLAIN: usize = 0;
const MARKED: usize = 1;
/// The name of a device where the file has none, if no device has it.
pub(crate) const FIRST_DEVICE: &str = "ipsec0";
/// Devices are called `ipsec0` and so on, as those of strongSwan's plugin `kernel-libipsec`. From this number on there is no name
/// left.
const MOST_DEVICES: u32 = 1000;

/// A driver with its device and its sockets, which does not run yet.
pub(crate) struct Ready {
    pub(crate) driver: Driver<Endpoint>,
    pub(crate) sockets: Sockets,
}

/// The device of a tunnel.
pub(crate) struct Device<'a> {
    /// The name that the file gives it. `None`: the first of `ipsec0` and so on that is free.
    pub(crate) name: Option<&'a str>,
    /// Its MTU in bytes.
    pub(crate) mtu: u16,
    /// The names of other devices that are to be made.
    pub(crate) reserved: Vec<&'a str>,
}

impl Ready {
    /// Creates the device, unless another endpoint of the tunnel has, and binds the sockets. Nothing is left behind on an error.
    ///
    /// # Errors
    /// The device or the port that cannot be had, and why.
    pub(crate) fn set_up(setting: &Setting<'_>, device: &Device<'_>) -> Result<Self, Failure> {
        let name = device
            .name
            .map_or_else(|| free_name(&device.reserved), |name| Ok(name.to_owned()))
            .map_err(no_netlink)?;
        let config = config(setting, name, device.mtu);
        let driver = match &setting.shared {
            None => Driver::new(config, codec::session),
            Some(shared) => {
                // A port that is a server's is used, too.
                shared.binding.wait();
                Driver::join(config, codec::session, &shared.device)
            }
        };
        let mut driver = driver.map_err(|error| Failure::World(error.to_string()))?;
        // A peer is answered from the address that it wrote to, and the detection of NAT needs the address.
        driver.learn_local_addresses();
        // For congestion marks of the outer header (RFC 6040).
        driver.learn_traffic_classes();
        let esp = driver.bind_ip(IpBinding { protocol: ESP, mark: adit_system::MARK });
        let esp =
            esp.map_err(|error| Failure::World(format!("cannot receive ESP (IP protocol 50): {error}")))?;
        driver.answer_unreachable();
        driver.follow_mtu();
        let plain = bind(&mut driver, PLAIN, IKE_PORT)?;
        let marked = bind(&mut driver, MARKED, NAT_TRAVERSAL_PORT)?;
        let [plain, marked, esp] = [plain, marked, esp].map(family_sockets);
        let sockets = Sockets { plain, marked, esp };
        Ok(Ready { driver, sockets })
    }
}

/// The addresses of this machine that lie in one of `networks`, as host prefixes: the first for each network. The device gets them,
/// so that the system chooses them as the source of packets that go into the tunnel. Devices of tunnels do not count.
///
/// # Errors
/// When the system does not tell its addresses.
pub(crate) fn inner_addresses(netlink: &mut Netlink, networks: &[IpNet]) -> io::Result<Vec<IpNet>> {
    Ok(first_in_each(networks, &netlink.addresses()?))
}

fn first_in_each(networks: &[IpNet], all: &[IpAddr]) -> Vec<IpNet> {
    let mut found: Vec<IpNet> = Vec::new();
    for network in networks {
        let first = all.iter().find(|address| network.contains(*address) && !address.is_loopback());
        let host = first.map(|address| IpNet::from(*address));
        found.extend(host.filter(|host| !found.contains(host)));
    }
    found
}

fn bind(driver: &mut Driver<Endpoint>, number: usize, port: u16) -> Result<UdpSockets, Failure> {
    // By this mark the system's rules know the tunnel's own datagrams.
    let binding = UdpBinding { number, port: Some(port), mark: Some(adit_system::MARK) };
    driver.bind_udp(binding).map_err(|error| Failure::World(no_socket(port, &error)))
}

const fn family_sockets(sockets: UdpSockets) -> FamilySockets {
    FamilySockets { ipv4: sockets.ipv4, ipv6: sockets.ipv6 }
}

fn no_socket(port: u16, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "cannot bind UDP port {port}: {error}: another IKE daemon runs here; `ss -lnup 'sport = {port}'` names the program: \
             stop it (such as `systemctl stop strongswan`)"
        ),
        _ => format!("cannot bind UDP port {port}: {error}"),
    }
}

/// The first of the names `ipsec0` and so on that no device has or is to have.
fn free_name(reserved: &[&str]) -> io::Result<String> {
    let mut netlink = Netlink::open()?;
    let mut names = (0..MOST_DEVICES).map(|number| format!("ipsec{number}"));
    names
        .find(|name| !reserved.contains(&name.as_str()) && netlink.link(name).is_err())
        .ok_or_else(|| io::Error::other("no name is left for a device"))
}

fn no_netlink(error: io::Error) -> Failure {
    Failure::World(format!("the system does not tell its devices: {error}"))
}

fn config(setting: &Setting<'_>, name: String, mtu: u16) -> DriverConfig {
    let plain: Arc<dyn Demultiplexer> = Arc::new(IkeSocket);
    let esp: Arc<dyn Demultiplexer> = Arc::new(EspSocket);
    let mut tun = TunConfig {
        name: Some(name),
        mtu: Some(mtu.into()),
        offloads: setting.options.offloads,
        ..TunConfig::default()
    };
    let mut dataplane = adit_dataplane::Config::new(NatTraversalSocket);
    if let Some(terms) = setting.shared.as_ref().and_then(|shared| shared.terms) {
        tun.txqueuelen = terms.txqueuelen;
        dataplane.client_to_client = terms.client_to_client;
    }
    DriverConfig {
        tun,
        single_peer: false,
        changes_routing: setting.shared.is_none(),
        // The sockets are bound by `Driver::bind_udp`.
        listen: Vec::new(),
        multihome: false,
        remotes: Vec::new(),
        buffers: Buffers::default(),
        socket_routing: SocketRouting::default(),
        port_share: None,
        workers: setting.options.workers,
        max_connections: 0,
        resolv_conf: setting.options.resolv_conf.clone(),
        kill_switch: setting.options.kill_switch.is_some(),
        dataplane,
        execution: Execution::default(),
        demultiplexers: BTreeMap::from([(UdpSource::Bound(PLAIN), plain), (UdpSource::Ip(ESP), esp)]),
        streams: StreamOptions::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_gets_an_address_of_each_network_of_this_end() {
        let nets = |texts: &[&str]| {
            texts.iter().map(|text| text.parse().expect("a network")).collect::<Vec<IpNet>>()
        };
        let all: Vec<IpAddr> = ["127.0.0.1", "192.0.2.1", "10.1.0.1", "10.1.0.2", "fd00:1::1", "::1"]
            .map(|text| text.parse().expect("an address"))
            .to_vec();
        let found = first_in_each(&nets(&["10.1.0.0/16", "fd00:1::/64", "10.2.0.0/16"]), &all);
        assert_eq!(found, nets(&["10.1.0.1/32", "fd00:1::1/128"]));
        let found = first_in_each(&nets(&["10.1.0.0/24", "10.0.0.0/8"]), &all);
        assert_eq!(found, nets(&["10.1.0.1/32"]), "once");
        assert_eq!(first_in_each(&nets(&["127.0.0.0/8"]), &all), []);
    }
}
