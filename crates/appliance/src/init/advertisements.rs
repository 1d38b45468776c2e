//! Name servers of router advertisements: the kernel takes addresses and routes of them itself.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::events::spawn;
use super::log::Log;
use super::name_servers::NameServers;
use crate::advertised::Advertised;

/// The kernel's group of options in advertisements (linux/rtnetlink.h `RTNLGRP_ND_USEROPT`).
const OPTIONS: u32 = 20;
/// How often it is looked whether name servers are over, at least.
const LOOK: Duration = Duration::from_secs(60);

/// Begins to take name servers from the advertisements of all devices that accept these.
pub(super) fn watch(name_servers: NameServers, log: &Log) {
    let begun = open().and_then(|socket| {
        let log = log.clone();
        spawn("advertisements", move || {
            if let Err(error) = follow(&socket, &name_servers, &log) {
                log.say(format_args!("name servers of router advertisements: {error}"));
            }
        })
    });
    if let Err(error) = begun {
        log.say(format_args!("name servers of router advertisements are passed over: {error}"));
    }
}

fn open() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind(&SocketAddr::new(0, 0))?;
    socket.add_membership(OPTIONS)?;
    Ok(socket)
}

fn follow(socket: &Socket, name_servers: &NameServers, log: &Log) -> io::Result<()> {
    let mut until: BTreeMap<u32, Instant> = BTreeMap::new();
    loop {
        let now = Instant::now();
        let over: Vec<u32> =
            until.iter().filter(|(_, end)| **end <= now).map(|(device, _)| *device).collect();
        for device in over {
            until.remove(&device);
            name_servers.set(&key(device), Vec::new());
        }
        let next = until.values().map(|end| end.saturating_duration_since(now)).min();
        // A time-out of zero would be none.
        let wait = next.unwrap_or(LOOK).clamp(Duration::from_millis(1), LOOK);
        set_socket_timeout(socket, Timeout::Recv, Some(wait))?;
        let message = match socket.recv_from_full() {
            Ok((message, _)) => message,
            Err(error) if is_passing(&error) => continue,
            Err(error) => return Err(error),
        };
        let Some(Advertised { device, servers, lifetime }) = Advertised::decode(&message) else { continue };
        let ends = Instant::now().checked_add(lifetime);
        // A lifetime beyond the clock's end has none.
        match ends {
            Some(ends) => until.insert(device, ends),
            None => until.remove(&device),
        };
        if name_servers.set(&key(device), servers.clone()) {
            let list: Vec<String> = servers.iter().map(ToString::to_string).collect();
            log.say(format_args!("name servers by a router advertisement: {}", list.join(", ")));
        }
    }
}

/// The name of a device's advertised name servers, which no device has.
fn key(device: u32) -> String {
    format!("/{device}")
}

/// Nothing came in time, or more than the socket holds.
fn is_passing(error: &io::Error) -> bool {
    let passing = [Errno::AGAIN, Errno::INTR, Errno::NOBUFS];
    error.raw_os_error().is_some_and(|code| passing.iter().any(|known| known.raw_os_error() == code))
}
