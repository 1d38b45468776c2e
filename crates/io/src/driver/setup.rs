//! What a driver sets up before it runs: the settings of its device, its sockets and listeners.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use adit_core::{IpNet, Transport};
use adit_system::{NameServers, Netlink, Routing, SystemSettings, mark};

use super::Bound;
use super::binding::{IpBinding, Ports, UdpSockets};
use super::device::Device;
use super::error::DriverError;
use crate::config::{DriverConfig, Listen, UdpSource};
use crate::descriptors::allow_many_descriptors;
use crate::system::System;
use crate::tcp::Listener;
use crate::tun::NULL_DEVICE;
use crate::udp::{PairOptions, UdpOptions, UdpSocket, lacks_v6};

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

/// What carries out the tunnel's settings, in this process.
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
    /// Binds all. `homes` are the addresses that get sockets of their own beside those of all addresses.
    pub(super) fn new(
        config: &DriverConfig,
        device: &Device,
        udp: &UdpOptions,
        homes: &[IpAddr],
    ) -> Result<Self, DriverError> {
        let mut listening = Listening::default();
        for (index, listen) in config.listen.iter().enumerate() {
            let bound = match listen.transport {
                Transport::Udp => {
                    let bound = bind_udp((index, listen), config, device, (udp, homes));
                    bound.map(|bound| listening.sockets.extend(bound))
                }
                Transport::Ip(protocol) => {
                    let bound = bind_ip((index, listen), protocol, config, (device, udp));
                    bound.map(|bound| listening.sockets.push(bound))
                }
                Transport::Tcp => bind_tcp(listen, config).map(|listener| listening.listeners.push(listener)),
            };
            bound.map_err(|source| DriverError::Listen { listen: *listen, source })?;
        }
        if !listening.listeners.is_empty() {
            allow_many_descriptors();
        }
        Ok(listening)
    }
}

fn bind_udp(
    (index, listen): (usize, &Listen),
    config: &DriverConfig,
    device: &Device,
    (options, homes): (&UdpOptions, &[IpAddr]),
) -> io::Result<Vec<Bound>> {
    let own = config.demultiplexer(UdpSource::Listen(index));
    let steering = own.as_ref().unwrap_or(&config.dataplane.demultiplexer).steering();
    let group = UdpSocket::bind_group(listen.address, device.workers.len(), steering, options)?;
    let beside = UdpSocket::bind_beside(&group, homes, steering, options)?;
    let numbered = std::iter::once(group).chain(beside).map(|group| {
        let group: Vec<_> = group.into_iter().map(Arc::new).collect();
        let number = device.sources.next_number();
        device.lending.offer((number, &group), steering);
        Bound { numbered: (number, group), demultiplexer: own.clone(), learns_local: false }
    });
    Ok(numbered.collect())
}

fn bind_ip(
    (index, listen): (usize, &Listen),
    protocol: u8,
    config: &DriverConfig,
    (device, options): (&Device, &UdpOptions),
) -> io::Result<Bound> {
    let own = config.demultiplexer(UdpSource::Listen(index));
    let steering = own.as_ref().unwrap_or(&config.dataplane.demultiplexer).steering();
    let (count, address) = (device.workers.len(), listen.address.ip());
    let group = UdpSocket::bind_ip_group(protocol, address, (count, steering), options)?;
    let group: Vec<_> = group.into_iter().map(Arc::new).collect();
    Ok(Bound { numbered: (device.sources.next_number(), group), demultiplexer: own, learns_local: false })
}

/// Sockets for an IP protocol, for both address families where the machine has them.
pub(super) fn bind_ip_pair(
    binding: IpBinding,
    config: &DriverConfig,
    device: &Device,
    options: &PairOptions,
) -> io::Result<(Vec<Bound>, UdpSockets)> {
    let own = config.demultiplexer(UdpSource::Ip(binding.protocol));
    let steering = own.as_ref().unwrap_or(&config.dataplane.demultiplexer).steering();
    let (mut bound, mut sockets) = (Vec::new(), UdpSockets::default());
    let families: [(IpAddr, &mut Option<u32>); 2] = [
        (Ipv4Addr::UNSPECIFIED.into(), &mut sockets.ipv4),
        (Ipv6Addr::UNSPECIFIED.into(), &mut sockets.ipv6),
    ];
    for (address, place) in families {
        let (protocol, shares) = (binding.protocol, (options.count, steering));
        let group = match UdpSocket::bind_ip_group(protocol, address, shares, &options.udp) {
            Err(error) if address.is_ipv6() && lacks_v6(&error) => continue,
            group => group?,
        };
        for socket in &group {
            // A socket has no mark at first, and not everybody may say so.
            if binding.mark != 0 {
                socket.set_mark(binding.mark, None)?;
            }
            options.learn(socket)?;
        }
        let number = device.sources.next_number();
        let group = group.into_iter().map(Arc::new).collect();
        let (demultiplexer, learns_local) = (own.clone(), options.learn_local);
        bound.push(Bound { numbered: (number, group), demultiplexer, learns_local });
        *place = Some(number);
    }
    Ok((bound, sockets))
}

fn bind_tcp(listen: &Listen, config: &DriverConfig) -> io::Result<Listener> {
    let listener = Listener::bind(listen.address, config.buffers, config.socket_routing)?;
    if config.streams.mark != 0 {
        // What is accepted inherits it.
        mark::set_to(listener.as_fd(), config.streams.mark)?;
    }
    Ok(listener)
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
