//! The kernel's links, addresses and routes, by rtnetlink (RFC 3549), one question at a time.

mod changes;
mod owner_rules;
mod path_mtu;
mod policy;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ipnet::IpNet;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, recv};
use socket2::{SockFilter, SockRef};

pub use self::changes::{RouteChangeWatch, RouteChanges};
pub(crate) use self::owner_rules::Jump;
pub(crate) use self::policy::{IpFamily, ListedRoute, ListedRule, MAIN, Rule, RuleTarget, TableRoute};

/// The kernel answers at once; this is against waiting for ever should it not.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A route as the kernel's main table holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRoute {
    /// Where to.
    pub destination: IpNet,
    /// The next hop, if it is not on the link.
    pub gateway: Option<IpAddr>,
    /// Index of the device; `None` lets the kernel find it from the gateway. With neither device nor gateway,
    /// the destination is unreachable.
    pub device: Option<u32>,
    /// Metric; `None` is the kernel's default.
    pub metric: Option<u32>,
}

impl KernelRoute {
    /// Whether the kernel takes both for one route: it tells routes of a table apart by destination and metric.
    pub fn same_place(&self, other: &KernelRoute) -> bool {
        let default = if self.destination.addr().is_ipv4() { 0 } else { DEFAULT_METRIC6 };
        self.destination == other.destination
            && self.metric.unwrap_or(default) == other.metric.unwrap_or(default)
    }
}

/// The metric of IPv6 routes that name none (linux/ipv6_route.h `IP6_RT_PRIO_USER`).
const DEFAULT_METRIC6: u32 = 1024;

/// Which routes to tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// All.
    All,
    /// All but the routes to single addresses that an adit set.
    Others,
    /// The rules that an adit set, unreachable ones too.
    Adits,
}

/// By this the kernel's table shows whose a route is. Any number that no other program uses
/// (linux/rtnetlink.h: user-defined above 4).
const PROTOCOL: RouteProtocol = RouteProtocol::Other(173);

/// How the kernel would send to an address now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The next hop, if it is not on the link.
    pub gateway: Option<IpAddr>,
    /// Index of the device.
    pub device: u32,
    /// The source address that the kernel would choose, if it says so.
    pub source: Option<IpAddr>,
    /// The address is one of this machine.
    pub local: bool,
}

/// A device's properties, state and counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkInfo {
    /// Index of the device.
    pub index: u32,
    /// Whether it is up.
    pub up: bool,
    /// MTU in bytes.
    pub mtu: u32,
    /// Packets that the device's queue dropped because it was full.
    pub tx_dropped: u64,
    /// Bytes of packets that were taken from the device.
    pub tx_bytes: u64,
    /// Bytes of packets that were given to the device.
    pub rx_bytes: u64,
}

/// A connection to the kernel's routing tables, of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens the connection.
    pub fn open() -> io::Result<Netlink> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(TIMEOUT))?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// The device of that name.
    pub fn link(&mut self, name: &str) -> io::Result<LinkInfo> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        let answers = self.request(RouteNetlinkMessage::GetLink(message), 0)?;
        for answer in answers {
            if let RouteNetlinkMessage::NewLink(link) = answer {
                return Ok(link_info(&link));
            }
        }
        Err(io::Error::from_raw_os_error(libc::ENODEV))
    }

    /// The addresses of all devices.
    pub fn addresses(&mut self) -> io::Result<Vec<IpAddr>> {
        Ok(self.device_addresses()?.into_iter().map(|(address, _)| address).collect())
    }

    /// The addresses of all devices, each with the index of its device.
    pub fn device_addresses(&mut self) -> io::Result<Vec<(IpAddr, u32)>> {
        let message = AddressMessage::default();
        let answers = self.request(RouteNetlinkMessage::GetAddress(message), NLM_F_DUMP)?;
        let own = |message: &AddressMessage| {
            let local = message.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Local(address) => Some(*address),
                _ => None,
            });
            // Where the other end has an address of its own, the plain attribute is that.
            local.or_else(|| {
                message.attributes.iter().find_map(|attribute| match attribute {
                    AddressAttribute::Address(address) => Some(*address),
                    _ => None,
                })
            })
        };
        Ok(answers
            .iter()
            .filter_map(|answer| match answer {
                RouteNetlinkMessage::NewAddress(message) => Some((own(message)?, message.header.index)),
                _ => None,
            })
            .collect())
    }

    /// Takes the device up or down.
    pub fn set_up(&mut self, device: u32, up: bool) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = device;
        message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        message.header.change_mask = LinkFlags::Up;
        self.request(RouteNetlinkMessage::SetLink(message), 0).map(drop)
    }

    /// Sets the MTU in bytes.
    pub fn set_mtu(&mut self, device: u32, mtu: u32) -> io::Result<()> {
        self.set_link(device, LinkAttribute::Mtu(mtu))
    }

    /// Sets how many packets wait in the device before it drops.
    pub fn set_txqueuelen(&mut self, device: u32, packets: u32) -> io::Result<()> {
        self.set_link(device, LinkAttribute::TxQueueLen(packets))
    }

    /// Sets the group that the device belongs to.
    pub fn set_group(&mut self, device: u32, group: u32) -> io::Result<()> {
        self.set_link(device, LinkAttribute::Group(group))
    }

    fn set_link(&mut self, device: u32, attribute: LinkAttribute) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = device;
        message.attributes.push(attribute);
        self.request(RouteNetlinkMessage::SetLink(message), 0).map(drop)
    }

    /// Gives the device an address; with `peer` it is the near end of a point-to-point link. Succeeds if
    /// the address is there already.
    pub fn add_address(&mut self, device: u32, address: IpNet, peer: Option<IpAddr>) -> io::Result<()> {
        let message = address_message(device, address, peer);
        let result = self.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL);
        unless(result, &[libc::EEXIST])
    }

    /// Takes an address away. Succeeds if it (or the device) is gone already.
    pub fn remove_address(&mut self, device: u32, address: IpNet, peer: Option<IpAddr>) -> io::Result<()> {
        let message = address_message(device, address, peer);
        let result = self.request(RouteNetlinkMessage::DelAddress(message), 0);
        unless(result, &[libc::EADDRNOTAVAIL, libc::ENODEV])
    }

    /// Adds a route. Fails with `AlreadyExists` if there is one with that destination and metric.
    pub fn add_route(&mut self, route: &KernelRoute) -> io::Result<()> {
        let message = route_message(route);
        self.request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// Adds a route in place of the one with that destination and metric, if there is one.
    pub fn replace_route(&mut self, route: &KernelRoute) -> io::Result<()> {
        let message = route_message(route);
        self.request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE).map(drop)
    }

    /// Removes a route. Succeeds if it (or its device) is gone already.
    pub fn remove_route(&mut self, route: &KernelRoute) -> io::Result<()> {
        let result = self.request(RouteNetlinkMessage::DelRoute(route_message(route)), 0);
        unless(result, &[libc::ESRCH, libc::ENODEV])
    }

    /// How the kernel would send to `address` now a datagram that has that firewall mark. Fails with ENETUNREACH when
    /// it would not.
    pub fn next_hop_of_marked(&mut self, address: IpAddr, mark: u32) -> io::Result<NextHop> {
        self.next_hop_with(address, (mark != 0).then_some(RouteAttribute::Mark(mark)))
    }

    /// How the kernel would send to `address` now. Fails with ENETUNREACH when it would not.
    pub fn next_hop(&mut self, address: IpAddr) -> io::Result<NextHop> {
        self.next_hop_with(address, None)
    }

    fn next_hop_with(&mut self, address: IpAddr, more: Option<RouteAttribute>) -> io::Result<NextHop> {
        let route = self.route_to(address, more)?;
        let route = route.ok_or_else(|| io::Error::from_raw_os_error(libc::ENETUNREACH))?;
        let (gateway, device) = hop(&route);
        let local = route.header.kind == RouteType::Local;
        Ok(NextHop { gateway, device: device.unwrap_or(0), source: source(&route), local })
    }

    /// The default route of the main table that counts, of the family of `like`.
    pub fn default_route(&mut self, like: IpAddr) -> io::Result<Option<KernelRoute>> {
        let leads_everywhere =
            |route: &KernelRoute| route.destination.prefix_len() == 0 && route.device.is_some();
        let routes = self.routes(like, Whose::All)?.into_iter().filter(leads_everywhere);
        Ok(routes.min_by_key(|route| route.metric.unwrap_or_default()))
    }

    /// The unicast routes of the main table (with [`Whose::Adits`] unreachable ones too), of the family of `like`.
    pub fn routes(&mut self, like: IpAddr, whose: Whose) -> io::Result<Vec<KernelRoute>> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(like);
        let answers = self.request(RouteNetlinkMessage::GetRoute(message), NLM_F_DUMP)?;
        let is_asked_for = |route: &RouteMessage| match whose {
            Whose::All => route.header.kind == RouteType::Unicast,
            Whose::Others => route.header.kind == RouteType::Unicast && !is_own_host_route(route),
            Whose::Adits => {
                let known = matches!(route.header.kind, RouteType::Unicast | RouteType::Unreachable);
                known && route.header.protocol == PROTOCOL
            }
        };
        let route = |answer| match answer {
            RouteNetlinkMessage::NewRoute(route) if is_asked_for(&route) => kernel_route(&route, like),
            _ => None,
        };
        Ok(answers.into_iter().filter_map(route).collect())
    }

    /// Sends a request and collects the answers until the kernel's acknowledgement or the end of the dump.
    fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = NetlinkMessage::from(message);
        // A dump ends by itself. (Its flag has two bits, one of them shared with NLM_F_EXCL.)
        let end = if flags & NLM_F_DUMP == NLM_F_DUMP { 0 } else { NLM_F_ACK };
        request.header.flags = NLM_F_REQUEST | flags | end;
        request.header.sequence_number = self.sequence;
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;

        let mut answers = Vec::new();
        loop {
            let (received, _) = self.socket.recv_from_full()?;
            if received.is_empty() {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            if self.collect(&received, &mut answers)? {
                return Ok(answers);
            }
        }
    }

    /// Takes the messages out of one read; true when the last has come.
    fn collect(&self, mut received: &[u8], answers: &mut Vec<RouteNetlinkMessage>) -> io::Result<bool> {
        while received.len() >= 16 {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(received)
                .map_err(|error| io::Error::other(format!("the kernel's answer does not parse: {error}")))?;
            if message.header.sequence_number == self.sequence {
                match message.payload {
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(true),
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                    _ => {}
                }
            }
            let length = usize::try_from(message.header.length).unwrap_or(usize::MAX).max(16);
            received = received.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(false)
    }
}

/// Says when devices, addresses, routes or rules of the network namespace change.
#[derive(Debug)]
pub struct RouteWatch {
    socket: OwnedFd,
}

/// The multicast group of devices (linux/rtnetlink.h `RTMGRP_LINK`).
const LINKS: u32 = 0x1;
/// The groups of routes (`RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV6_ROUTE`).
const ROUTES: u32 = 0x40 | 0x400;
/// Multicast groups of rtnetlink (linux/rtnetlink.h `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV4_ROUTE`,
/// `RTMGRP_IPV4_RULE`, `RTMGRP_IPV6_IFADDR`, `RTMGRP_IPV6_ROUTE`, and the bit of `RTNLGRP_IPV6_RULE`). The kernel tells
/// of no route that went with its device or address.
const GROUPS: u32 = LINKS | ROUTES | 0x10 | 0x80 | 0x100 | 1 << 18;

impl RouteWatch {
    /// Starts to watch.
    pub fn new() -> io::Result<RouteWatch> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, GROUPS))?;
        socket.set_non_blocking(true)?;
        Ok(RouteWatch { socket: socket.as_fd().try_clone_to_owned()? })
    }

    /// Starts to watch a device alone: changes of other devices wake no thread. That the device goes to another network namespace is
    /// a change, too.
    pub fn of_device(index: u32) -> io::Result<RouteWatch> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        // `ifi_index` follows a `struct nlmsghdr` and four bytes, in the byte order of the machine; BPF loads big-endian.
        let load = SockFilter::new((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0, 0, 20);
        let compare =
            SockFilter::new((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, 0, 1, index.to_be());
        let end = |taken| SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, taken);
        SockRef::from(&socket).attach_filter(&[load, compare, end(u32::MAX), end(0)])?;
        socket.bind(&SocketAddr::new(0, LINKS))?;
        socket.set_non_blocking(true)?;
        Ok(RouteWatch { socket: socket.as_fd().try_clone_to_owned()? })
    }

    /// Takes the messages that have come so far. Their content does not matter: the tables themselves are
    /// read.
    pub fn drain(&self) {
        // Too much at once is an error (ENOBUFS), and counts as a change all the same.
        let mut buffer = [0; 4096];
        while matches!(recv(&self.socket, &mut buffer[..], RecvFlags::TRUNC), Ok((_, length)) if length > 0) {
        }
    }
}

impl From<OwnedFd> for RouteWatch {
    /// A watch that another process started.
    fn from(socket: OwnedFd) -> Self {
        RouteWatch { socket }
    }
}

impl AsFd for RouteWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Success too if the kernel gave one of these errors: the state is as requested already.
fn unless(result: io::Result<Vec<RouteNetlinkMessage>>, fine: &[i32]) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error().is_some_and(|code| fine.contains(&code)) => Ok(()),
        other => other.map(drop),
    }
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn link_info(link: &LinkMessage) -> LinkInfo {
    let mut info = LinkInfo {
        index: link.header.index,
        up: link.header.flags.contains(LinkFlags::Up),
        ..LinkInfo::default()
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::Mtu(mtu) => info.mtu = *mtu,
            LinkAttribute::Stats64(stats) => {
                (info.tx_dropped, info.tx_bytes) = (stats.tx_dropped, stats.tx_bytes);
                info.rx_bytes = stats.rx_bytes;
            }
            _ => {}
        }
    }
    info
}

fn address_message(device: u32, address: IpNet, peer: Option<IpAddr>) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(address.addr());
    message.header.prefix_len = if peer.is_some() { address.max_prefix_len() } else { address.prefix_len() };
    message.header.index = device;
    message.attributes.push(AddressAttribute::Local(address.addr()));
    message.attributes.push(AddressAttribute::Address(peer.unwrap_or(address.addr())));
    message
}

fn route_message(route: &KernelRoute) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family(route.destination.addr());
    message.header.destination_prefix_length = route.destination.prefix_len();
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = PROTOCOL;
    let reachable = route.gateway.is_some() || route.device.is_some();
    message.header.kind = if reachable { RouteType::Unicast } else { RouteType::Unreachable };
    // IPv4 wants `link` for routes without a gateway; IPv6 knows only one scope.
    let on_link = reachable && route.gateway.is_none() && route.destination.addr().is_ipv4();
    message.header.scope = if on_link { RouteScope::Link } else { RouteScope::Universe };
    let attributes = &mut message.attributes;
    attributes.push(RouteAttribute::Destination(RouteAddress::from(route.destination.network())));
    if let Some(gateway) = route.gateway {
        attributes.push(RouteAttribute::Gateway(RouteAddress::from(gateway)));
    }
    if let Some(device) = route.device {
        attributes.push(RouteAttribute::Oif(device));
    }
    if let Some(metric) = route.metric {
        attributes.push(RouteAttribute::Priority(metric));
    }
    message
}

fn hop(route: &RouteMessage) -> (Option<IpAddr>, Option<u32>) {
    let mut gateway = None;
    let mut device = None;
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Gateway(RouteAddress::Inet(address)) => gateway = Some(IpAddr::V4(*address)),
            RouteAttribute::Gateway(RouteAddress::Inet6(address)) => gateway = Some(IpAddr::V6(*address)),
            RouteAttribute::Oif(index) => device = Some(*index),
            _ => {}
        }
    }
    (gateway, device)
}

fn source(route: &RouteMessage) -> Option<IpAddr> {
    route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::PrefSource(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
        RouteAttribute::PrefSource(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    })
}

/// Whether an adit, of this or of an earlier run, set that route to a single address.
fn is_own_host_route(route: &RouteMessage) -> bool {
    route.header.protocol == PROTOCOL && matches!(route.header.destination_prefix_length, 32 | 128)
}

/// A route of the main table and that family.
fn kernel_route(route: &RouteMessage, like: IpAddr) -> Option<KernelRoute> {
    let in_main = route.header.table == RouteHeader::RT_TABLE_MAIN;
    if !in_main || route.header.address_family != family(like) {
        return None;
    }
    let network = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
        RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    });
    let any = if like.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    let destination = IpNet::new(network.unwrap_or(any), route.header.destination_prefix_length).ok()?;
    let (gateway, device) = hop(route);
    Some(KernelRoute { destination, gateway, device, metric: Some(metric(route)) })
}

fn metric(route: &RouteMessage) -> u32 {
    let found = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Priority(metric) => Some(*metric),
        _ => None,
    });
    found.unwrap_or(0)
}
