//! The setup of a driver before it runs: the settings of its device, its sockets and listeners.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use adit_core::{IpNet, Transport};
use adit_dataplane::codec::Demultiplexer;
use adit_system::{NameServers, Netlink, Routing, SystemSettings, mark};

use super::Bound;
use super::binding::{IpBinding, Ports, UdpSockets};
use super::device::Device;
use super::error::DriverError;
use crate::config::{DriverConfig, UdpSource};
use crate::descriptors::allow_many_descriptors;
use crate::system::System;
use crate::tcp::Listener;
use crate::tun::NULL_DEVICE;
use crate::udp::{IpGroup, PairOptions, UdpOptions, UdpSocket, lacks_v6};

/// The routing of the endpoint's device.
pub(super) fn routing(config: &DriverConfig, device: &Device) -> io::Result<Routing> {
    let name = device.tun.name();
    let mut routing = if config.tun.is_null {
        Routing::without_device(NULL_DEVICE)?
    } else if config.tun.descriptor.is_some() {
        Routing::of_any_namespace(name)?
    } else {
        Routing::new(name)?
    };
    if config.changes_routing {
        routing.set_tunnel_group()?;
    }
    if device.is_shared {
        routing.share_device();
    }
    if config.execution.leaves_device {
        routing.leave_device();
    }
    routing.set_mark(config.socket_routing.mark);
    Ok(routing)
}

/// How UDP sockets of the endpoint are made.
pub(super) fn udp_options(config: &DriverConfig, device: &Device) -> UdpOptions {
    UdpOptions {
        buffers: config.buffers,
        gso: device.offloads.udp_send.is_on(),
        gro: device.offloads.udp_receive.is_on(),
        routing: config.socket_routing,
    }
}

/// The system that carries out the tunnel's settings, in this process.
pub(super) fn system(config: &DriverConfig, routing: Routing) -> System {
    if config.tun.is_null {
        return System::Untouched;
    }
    let name_servers = NameServers::new(routing.device(), config.resolv_conf.clone());
    System::Own(Box::new(SystemSettings::new(routing, name_servers)))
}

/// The ports of the endpoint, none of which is bound yet.
pub(super) fn ports(config: &DriverConfig, device: &Device, udp: UdpOptions) -> Ports {
    let own = &config.dataplane.demultiplexer;
    let options = PairOptions {
        count: device.workers.len(),
        steering: None,
        learn_local: false,
        learn_classes: false,
        udp,
    };
    let of_ports = config.demultiplexers.iter().filter_map(|(source, demultiplexer)| match source {
        UdpSource::Bound(number) => Some((*number, Arc::clone(demultiplexer))),
        UdpSource::Listen(_) | UdpSource::Remote(_) | UdpSource::Ip(_) => None,
    });
    Ports::new(options, own, of_ports.collect(), Arc::clone(&device.lending))
}

/// The sockets and listeners at the addresses of [`DriverConfig::listen`].
#[derive(Default)]
pub(super) struct Listening {
    pub(super) sockets: Vec<Bound>,
    pub(super) listeners: Vec<Listener>,
}

impl Listening {
    /// Binds all.
    pub(super) fn new(setup: &Setup<'_>) -> Result<Self, DriverError> {
        let mut listening = Listening::default();
        for (index, listen) in setup.config.listen.iter().enumerate() {
            let at = Socket { source: UdpSource::Listen(index), address: listen.address };
            let bound = match listen.transport {
                Transport::Udp => setup.bind_udp(at).map(|bound| listening.sockets.extend(bound)),
                Transport::Ip(protocol) => {
                    setup.bind_ip(at, protocol).map(|bound| listening.sockets.push(bound))
                }
                Transport::Tcp => {
                    setup.bind_tcp(listen.address).map(|listener| listening.listeners.push(listener))
                }
            };
            bound.map_err(|source| DriverError::Listen { listen: *listen, source })?;
        }
        if !listening.listeners.is_empty() {
            allow_many_descriptors();
        }
        Ok(listening)
    }
}

/// The settings by which the sockets of an endpoint are bound.
pub(super) struct Setup<'a> {
    pub(super) config: &'a DriverConfig,
    pub(super) device: &'a Device,
    pub(super) udp: &'a UdpOptions,
    /// The addresses that get sockets of their own beside those of all addresses.
    pub(super) homes: &'a [IpAddr],
}

/// A socket to bind.
#[derive(Clone, Copy)]
struct Socket {
    source: UdpSource,
    address: SocketAddr,
}

impl Setup<'_> {
    /// The demultiplexer of a socket of that source.
    fn demultiplexer(&self, source: UdpSource) -> &Arc<dyn Demultiplexer> {
        self.config.demultiplexers.get(&source).unwrap_or(&self.config.dataplane.demultiplexer)
    }

    /// Sockets that are bound, with a number.
    fn bound(&self, group: Vec<UdpSocket>, source: UdpSource) -> Bound {
        let group: Vec<_> = group.into_iter().map(Arc::new).collect();
        let numbered = (self.device.sources.next_number(), group);
        Bound { numbered, demultiplexer: self.config.demultiplexer(source), learns_local: false }
    }

    fn bind_udp(&self, Socket { source, address }: Socket) -> io::Result<Vec<Bound>> {
        let steering = self.demultiplexer(source).steering();
        let group = UdpSocket::bind_group(address, self.device.workers.len(), steering, self.udp)?;
        let beside = UdpSocket::bind_beside(&group, self.homes, steering, self.udp)?;
        let bound = std::iter::once(group).chain(beside).map(|group| {
            let bound = self.bound(group, source);
            let (number, group) = &bound.numbered;
            self.device.lending.offer((*number, group), steering);
            bound
        });
        Ok(bound.collect())
    }

    fn bind_ip(&self, Socket { source, address }: Socket, protocol: u8) -> io::Result<Bound> {
        let steering = self.demultiplexer(source).steering();
        let group = IpGroup { protocol, address: address.ip(), count: self.device.workers.len(), steering };
        Ok(self.bound(group.bind(self.udp)?, source))
    }

    fn bind_tcp(&self, address: SocketAddr) -> io::Result<Listener> {
        let DriverConfig { buffers, socket_routing, streams, .. } = self.config;
        let listener = Listener::bind(address, *buffers, *socket_routing)?;
        if streams.mark != 0 {
            // Accepted connections inherit it.
            mark::set_to(listener.as_fd(), streams.mark)?;
        }
        Ok(listener)
    }

    /// Sockets for an IP protocol, for both address families where the machine has them.
    pub(super) fn bind_ip_pair(
        &self,
        binding: IpBinding,
        options: &PairOptions,
    ) -> io::Result<(Vec<Bound>, UdpSockets)> {
        let source = UdpSource::Ip(binding.protocol);
        let (mut bound, mut sockets) = (Vec::new(), UdpSockets::default());
        let families: [(IpAddr, &mut Option<u32>); 2] = [
            (Ipv4Addr::UNSPECIFIED.into(), &mut sockets.ipv4),
            (Ipv6Addr::UNSPECIFIED.into(), &mut sockets.ipv6),
        ];
        for (address, place) in families {
            let socket = Socket { source, address: (address, 0).into() };
            let one = match self.bind_ip(socket, binding.protocol) {
                Err(error) if address.is_ipv6() && lacks_v6(&error) => continue,
                one => Bound { learns_local: options.learn_local, ..one? },
            };
            for socket in &one.numbered.1 {
                // A socket has no mark at first, and not every process may set one, not even 0.
                if binding.mark != 0 {
                    socket.set_mark(binding.mark, None)?;
                }
                options.learn(socket)?;
            }
            *place = Some(one.numbered.0);
            bound.push(one);
        }
        Ok((bound, sockets))
    }
}

/// Gives a device its addresses and takes it up.
pub(super) fn take_up(name: &str, addresses: &[IpNet]) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    let device = netlink.link(name)?.index;
    for address in addresses {
        netlink.add_address(device, *address, None)?;
    }
    netlink.set_up(device, true)
}
