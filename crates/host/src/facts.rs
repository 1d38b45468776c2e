//! The facts of a configuration that the host compares with those of others: which files are one tunnel, and the points
//! in which they contradict each other.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use adit_core::{IpNet, Transport};
use adit_system::Forwarding;

use super::log::LogSettings;

/// A value that a file states.
#[derive(Clone, Debug, Default)]
pub struct Stated<T> {
    /// The value.
    pub value: T,
    /// The directives that state it, in the order in which they are looked for. None: the name of the file states it.
    pub directives: &'static [&'static str],
}

impl<T> Stated<T> {
    /// A value that the first of these directives states.
    pub fn by(directives: &'static [&'static str], value: T) -> Self {
        Stated { value, directives }
    }
}

/// The facts of a configuration.
#[derive(Default)]
pub struct Facts {
    /// The name of the protocol. Endpoints of different protocols can share a UDP port.
    pub protocol: &'static str,
    /// The things that the tunnel takes for itself.
    pub resources: Vec<Stated<Resource>>,
    /// The networks of our own addresses.
    pub networks: Vec<Stated<IpNet>>,
    /// The address families of which all packets go into the tunnel.
    pub default_routes: Vec<Stated<AddressFamily>>,
    /// No other tunnel of the process may have addresses or default routes that overlap with this one's.
    pub excludes_networks: bool,
    /// The settings of the process, each by the first of its directives. Tunnels of one process agree on them.
    pub process_settings: Vec<Stated<String>>,
    /// The part of the file in a tunnel with several endpoints; `None`: it can have none.
    pub endpoint: Option<Endpoint>,
    /// The forwarding of the tunnel; `None`: it forwards nothing. The device has the name that it is likely to have.
    pub forwarding: Option<Forwarding>,
    /// The settings of the log.
    pub log: Stated<LogSettings>,
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl fmt::Display for AddressFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressFamily::V4 => "IPv4",
            AddressFamily::V6 => "IPv6",
        })
    }
}

/// Something that only one tunnel of the machine can have at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its kind.
    pub kind: ResourceKind,
    /// The endpoints of one tunnel can have it together.
    pub(crate) shared_by_endpoints: bool,
}

/// The kinds of resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceKind {
    /// A device by its name.
    Device(String),
    /// A port at an address, or at all of a family: all IPv6 addresses include those of IPv4.
    Address(Transport, IpAddr, u16),
    /// A port for a management socket, at an address or name.
    ManagementPort(String, u16),
    /// A file that is written, or the file of a socket.
    File(PathBuf),
}

impl ResourceKind {
    /// The resource of one tunnel, whose endpoints do not share it.
    pub fn exclusive(self) -> Resource {
        Resource { kind: self, shared_by_endpoints: false }
    }

    /// The resource of one tunnel, whose endpoints share it.
    pub fn shared(self) -> Resource {
        Resource { kind: self, shared_by_endpoints: true }
    }

    /// Whether two tunnels cannot have both.
    pub(crate) fn excludes(&self, other: &ResourceKind) -> bool {
        match (self, other) {
            (
                ResourceKind::Address(transport, one, port),
                ResourceKind::Address(of_other, other, other_port),
            ) => transport == of_other && port == other_port && overlap(*one, *other),
            (one, other) => one == other,
        }
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResourceKind::Device(name) => write!(f, "the device {name}"),
            ResourceKind::Address(transport, address, port) => {
                let transport = match transport {
                    Transport::Udp => "UDP",
                    Transport::Tcp => "TCP",
                    Transport::Ip(_) => "IP",
                };
                match address.is_unspecified() {
                    true => write!(f, "{transport} port {port}"),
                    false => write!(f, "{transport} {}", SocketAddr::new(*address, *port)),
                }
            }
            ResourceKind::ManagementPort(host, port) => write!(f, "the management address {host} {port}"),
            ResourceKind::File(path) => write!(f, "the file {}", path.display()),
        }
    }
}

/// Whether both of two addresses take the same datagrams.
fn overlap(one: IpAddr, other: IpAddr) -> bool {
    let includes = |all: IpAddr, some: IpAddr| match all {
        IpAddr::V6(all) => all == Ipv6Addr::UNSPECIFIED,
        IpAddr::V4(all) => all == Ipv4Addr::UNSPECIFIED && some.is_ipv4(),
    };
    one == other || includes(one, other) || includes(other, one)
}

/// The part of a file in a tunnel with several endpoints: files that name the same device are one tunnel if one of them leads.
#[derive(Clone)]
pub struct Endpoint {
    /// The name of the device.
    pub device: String,
    /// Whether the tunnel's settings are this file's.
    pub role: EndpointRole,
}

/// The role of an endpoint.
#[derive(Clone)]
pub enum EndpointRole {
    /// The settings of the device and of the pool are this file's. All that lead in a tunnel agree on them.
    Leads(Lead),
    /// The endpoint takes the settings of those that lead. Alone it is a tunnel of its own.
    Joins(Join),
}

/// The settings of a tunnel, as one of its endpoints states them.
#[derive(Clone)]
pub struct Lead {
    /// The settings of the device.
    pub terms: DeviceTerms,
    /// The directives of the MTU.
    pub mtu_directives: &'static [&'static str],
    /// Our own addresses, sorted.
    pub addresses: Stated<Vec<IpNet>>,
    /// The UDP ports.
    pub udp_ports: Stated<Vec<u16>>,
    /// Everything that all that lead must state alike, in words, in the same order in each file.
    pub agreement: Vec<Stated<String>>,
    /// The rule that endpoints break which do not agree, and the way out.
    pub rule: &'static str,
}

/// The settings of an endpoint that must fit the tunnel that it joins.
#[derive(Clone)]
pub struct Join {
    /// Our own addresses, sorted. `None`: the file has none, and the endpoint has those of the tunnel.
    pub addresses: Option<Stated<Vec<IpNet>>>,
    /// The addresses in the words of the file; empty if it has none.
    pub addresses_text: String,
    /// The MTU, if the file states one.
    pub mtu: Option<Stated<u16>>,
    /// The UDP port, if the file states one and a firewall mark for its datagrams.
    pub marked_port: Option<Stated<u16>>,
}

/// The settings of the device of a tunnel with several endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTerms {
    /// The MTU in bytes.
    pub mtu: u16,
    /// The number of packets that may wait in the device.
    pub txqueuelen: u32,
    /// Peers reach each other without passing through the device.
    pub client_to_client: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_overlap_as_the_kernel_sees_it() {
        let at = |text: &str| text.parse::<IpAddr>().expect("an address");
        for (one, other, expected) in [
            ("::", "192.0.2.1", true),
            ("0.0.0.0", "192.0.2.1", true),
            ("0.0.0.0", "2001:db8::1", false),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "192.0.2.1", true),
        ] {
            assert_eq!(overlap(at(one), at(other)), expected, "{one} {other}");
            assert_eq!(overlap(at(other), at(one)), expected, "{other} {one}");
        }
    }
}
