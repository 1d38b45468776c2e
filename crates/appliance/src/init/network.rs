//! The network of the machine: its Ethernet devices with their addresses, routes and name servers.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use adit_system::{KernelRoute, Netlink};
use ipnet::{Ipv4Net, Ipv6Net};

use super::advertisements;
use super::clock::Clock;
use super::events::{Event, spawn};
use super::information;
use super::lease::{Client, hardware};
use super::log::Log;
use super::name_servers::NameServers;
use crate::settings::{Device, Settings};

/// Where the kernel lists the network devices.
const DEVICES: &str = "/sys/class/net";
/// `type` of Ethernet (linux/if_arp.h `ARPHRD_ETHER`).
const ETHERNET: &str = "1";
/// The name of a machine whose settings have none.
pub(super) const HOSTNAME: &str = "adit";

/// Sets up the devices, each on a thread of its own, and sends [`Event::NetworkReady`] when all have an address.
pub(super) fn start(settings: &Settings, events: &Sender<Event>, log: &Log) {
    if let Err(error) = set_up("lo") {
        log.say(format_args!("lo: {error}"));
    }
    let names = ethernet_devices();
    if names.is_empty() {
        log.say("the machine has no network device");
    }
    let shared = Shared {
        unready: Arc::new(AtomicUsize::new(names.len())),
        events: events.clone(),
        name_servers: NameServers::default(),
        clock: Clock::new(settings.time_servers.clone(), log.clone()),
        hostname: settings.hostname.clone().unwrap_or_else(|| HOSTNAME.to_owned()),
        log: log.clone(),
    };
    shared.name_servers.set("", settings.name_servers.clone());
    advertisements::watch(shared.name_servers.clone(), log);
    for name in names {
        let (device, shared) = (settings.device(&name), shared.clone());
        if let Err(error) = spawn("network", move || run(&name, &device, &shared)) {
            log.say(format_args!("no thread can be started: {error}"));
        }
    }
}

/// Parts that the devices share.
#[derive(Clone)]
struct Shared {
    /// Devices that have no address yet.
    unready: Arc<AtomicUsize>,
    events: Sender<Event>,
    name_servers: NameServers,
    clock: Clock,
    hostname: String,
    log: Log,
}

impl Shared {
    /// Notes that a device has its first address.
    fn ready(&self) {
        if self.unready.fetch_sub(1, Ordering::Relaxed) == 1 {
            let _ = self.events.send(Event::NetworkReady);
            self.clock.begin();
        }
    }
}

fn ethernet_devices() -> Vec<String> {
    let entries = fs::read_dir(DEVICES).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_ethernet = |name: &String| {
        let kind = fs::read_to_string(Path::new(DEVICES).join(name).join("type")).unwrap_or_default();
        kind.trim() == ETHERNET
    };
    let mut names: Vec<String> = names.filter(is_ethernet).collect();
    names.sort();
    names
}

/// Gives a device its addresses, and keeps its lease.
fn run(name: &str, device: &Device, shared: &Shared) {
    // 2: also while packets are forwarded (Linux, Documentation/networking/ip-sysctl.rst).
    let accept = if device.router_advertisements { "2" } else { "0" };
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/accept_ra"), accept);
    let index = match static_addresses(name, device) {
        Ok(index) => index,
        Err(error) => return shared.log.say(format_args!("{name}: {error}")),
    };
    if !device.addresses.is_empty() {
        let addresses: Vec<String> = device.addresses.iter().map(ToString::to_string).collect();
        shared.log.say(format_args!("{name}: {}", addresses.join(", ")));
    }
    if device.router_advertisements {
        let (name, shared) = (name.to_owned(), shared.clone());
        let _ = spawn("information", move || {
            if let Err(error) = keep_information(&name, &shared) {
                shared.log.say(format_args!("{name}: DHCPv6: {error}"));
            }
        });
    }
    if !device.dhcp {
        return shared.ready();
    }
    if let Err(error) = keep_lease(name, index, shared) {
        shared.log.say(format_args!("{name}: DHCP: {error}"));
    }
}

/// Keeps a device's lease, with the name servers and time servers that it names.
fn keep_lease(name: &str, index: u32, shared: &Shared) -> io::Result<()> {
    let client = Client::new(name, index, shared.hostname.clone(), &shared.log)?;
    let mut is_first = true;
    client.run(|lease| {
        let addresses = |all: &[Ipv4Addr]| all.iter().copied().map(IpAddr::V4).collect::<Vec<_>>();
        shared.name_servers.set(name, addresses(&lease.name_servers));
        shared.clock.offer(addresses(&lease.time_servers));
        if std::mem::take(&mut is_first) {
            shared.ready();
        }
    })
}

/// Asks for the name servers and time servers of a device's link by DHCPv6.
fn keep_information(name: &str, shared: &Shared) -> io::Result<()> {
    let client = information::Client { name, hardware: hardware(name)? };
    client.run(|answer| {
        let servers: Vec<String> = answer.name_servers.iter().map(ToString::to_string).collect();
        // No device has a slash in its name.
        if shared.name_servers.set(&format!("{name}/dhcpv6"), answer.name_servers) {
            shared.log.say(format_args!("{name}: name servers by DHCPv6: {}", servers.join(", ")));
        }
        shared.clock.offer(answer.time_servers);
    })
}

/// Takes a device up with its static addresses, and gives its index.
fn static_addresses(name: &str, device: &Device) -> io::Result<u32> {
    let index = set_up(name)?;
    let mut netlink = Netlink::open()?;
    for address in &device.addresses {
        netlink.add_address(index, *address, None)?;
    }
    for gateway in &device.gateways {
        netlink.replace_route(&default_route(*gateway, index))?;
    }
    Ok(index)
}

/// Takes a device up, and gives its index.
fn set_up(name: &str) -> io::Result<u32> {
    let mut netlink = Netlink::open()?;
    let index = netlink.link(name)?.index;
    netlink.set_up(index, true)?;
    Ok(index)
}

/// The default route of a next hop's family.
pub(super) fn default_route(gateway: IpAddr, device: u32) -> KernelRoute {
    let destination = match gateway {
        IpAddr::V4(_) => Ipv4Net::default().into(),
        IpAddr::V6(_) => Ipv6Net::default().into(),
    };
    KernelRoute { destination, gateway: Some(gateway), device: Some(device), metric: None }
}
