//! The address of a device by DHCP: asked for, kept, asked for again after a loss of the link, given up when its time is over
//! (RFC 2131, section 4.4).

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::thread;
use std::time::{Duration, Instant};

use adit_system::{KernelRoute, Netlink};
use ipnet::IpNet;
use rand_core::{OsRng, TryRngCore as _};
use socket2::{Domain, Protocol, Socket, Type};

use super::log::Log;
use super::network::default_route;
use crate::dhcp::{Answer, Asker, Lease, Question};

/// The ports of servers and clients (RFC 2131, section 4.1).
const SERVER: u16 = 67;
const CLIENT: u16 = 68;
/// How long to wait for the first answer, and at most.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(16);
/// How often the link is looked at while nothing else is to do.
const LOOK: Duration = Duration::from_millis(500);
/// How long an earlier address is asked for before servers are looked for anew.
const REBOOT: Duration = Duration::from_secs(4);

/// The DHCP client of a device.
pub(super) struct Client<'a> {
    name: &'a str,
    hostname: String,
    index: u32,
    hardware: [u8; 6],
    socket: Socket,
    log: &'a Log,
}

/// The reason why a lease is no longer kept.
enum Lost {
    /// The link was away; the address may still be good.
    Link,
    /// The server refused it, or its time is over.
    Lease,
}

impl<'a> Client<'a> {
    /// A client for a device that is up.
    pub(super) fn new(name: &'a str, index: u32, hostname: String, log: &'a Log) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_reuse_address(true)?;
        socket.set_broadcast(true)?;
        socket.bind_device(Some(name.as_bytes()))?;
        socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, CLIENT).into())?;
        Ok(Client { name, hostname, index, hardware: hardware(name)?, socket, log })
    }

    /// Keeps an address, and tells of each lease. Ends only when the system fails.
    pub(super) fn run(&self, mut tell: impl FnMut(&Lease)) -> io::Result<()> {
        let mut earlier: Option<Lease> = None;
        loop {
            self.wait_for_link();
            let again = earlier.as_ref().and_then(|lease| self.reboot(lease.address));
            let lease = match again {
                Some(lease) => lease,
                None => self.discover()?,
            };
            if let Some(old) =
                earlier.take().filter(|old| (old.address, old.router) != (lease.address, lease.router))
            {
                self.remove(&old)?;
            }
            self.apply(&lease)?;
            tell(&lease);
            match self.keep(lease, &mut tell)? {
                (lease, Lost::Link) => {
                    self.log.say(format_args!("{}: the link is lost", self.name));
                    earlier = Some(lease);
                }
                (lease, Lost::Lease) => {
                    self.log.say(format_args!("{}: the lease of {} is over", self.name, lease.address));
                    self.remove(&lease)?;
                }
            }
        }
    }

    fn wait_for_link(&self) {
        while !self.has_link() {
            thread::sleep(LOOK);
        }
    }

    fn has_link(&self) -> bool {
        let carrier = fs::read_to_string(format!("/sys/class/net/{}/carrier", self.name));
        carrier.is_ok_and(|carrier| carrier.trim() == "1")
    }

    /// A lease of any server.
    fn discover(&self) -> io::Result<Lease> {
        let mut wait = FIRST_WAIT;
        loop {
            let deadline = Instant::now() + wait;
            let offer = self.ask(Question::Discover, None, deadline);
            if let Some(Answer::Offer(offer)) = offer {
                let select = Question::Select { address: offer.address, server: offer.server };
                if let Some(Answer::Acknowledged(lease)) = self.ask(select, None, Instant::now() + wait) {
                    return Ok(lease);
                }
            }
            thread::sleep(deadline.saturating_duration_since(Instant::now()));
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// The lease of an earlier address, if a server still grants it.
    fn reboot(&self, address: Ipv4Addr) -> Option<Lease> {
        let deadline = Instant::now() + REBOOT;
        while Instant::now() < deadline {
            match self.ask(Question::Reboot(address), None, Instant::now() + FIRST_WAIT) {
                Some(Answer::Acknowledged(lease)) => return Some(lease),
                Some(Answer::Refused) => return None,
                _ => {}
            }
        }
        None
    }

    /// Keeps a lease for as long as it can be had. Gives the last, and the reason of its end.
    fn keep(&self, mut lease: Lease, tell: &mut impl FnMut(&Lease)) -> io::Result<(Lease, Lost)> {
        let mut since = Instant::now();
        let mut ask_at = since + lease.renewal;
        loop {
            thread::sleep(LOOK.min(ask_at.saturating_duration_since(Instant::now())));
            if !self.has_link() {
                return Ok((lease, Lost::Link));
            }
            if since.elapsed() >= lease.time {
                return Ok((lease, Lost::Lease));
            }
            if Instant::now() < ask_at {
                continue;
            }
            let server = (since.elapsed() < lease.rebinding).then_some(lease.server);
            match self.ask(Question::Renew(lease.address), server, Instant::now() + FIRST_WAIT) {
                Some(Answer::Acknowledged(new)) => {
                    if new != lease {
                        self.replace(&lease, &new)?;
                        tell(&new);
                    }
                    (lease, since) = (new, Instant::now());
                    ask_at = since + lease.renewal;
                }
                Some(Answer::Refused) => return Ok((lease, Lost::Lease)),
                _ => ask_at = Instant::now() + LONGEST_WAIT.min(lease.time / 16),
            }
        }
    }

    /// Sends a question to a server, or to all, and waits for its answer.
    fn ask(&self, question: Question, server: Option<Ipv4Addr>, deadline: Instant) -> Option<Answer> {
        let transaction = OsRng.try_next_u32().ok()?;
        let asker = Asker { transaction, hardware: self.hardware, hostname: &self.hostname };
        let to = SocketAddrV4::new(server.unwrap_or(Ipv4Addr::BROADCAST), SERVER);
        self.socket.send_to(&question.encode(&asker), &to.into()).ok()?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // A time-out of zero would be none.
            self.socket.set_read_timeout(Some(left).filter(|left| !left.is_zero())).ok()?;
            if left.is_zero() {
                return None;
            }
            let mut buffer = [0; 1500];
            let length = io::Read::read(&mut &self.socket, &mut buffer).ok()?;
            if let Some(answer) = Answer::decode(buffer.get(..length)?, &asker) {
                return Some(answer);
            }
        }
    }

    /// Gives the device the lease's address and route.
    fn apply(&self, lease: &Lease) -> io::Result<()> {
        let mut netlink = Netlink::open()?;
        netlink.add_address(self.index, network(lease)?, None)?;
        if let Some(route) = self.route(lease) {
            netlink.replace_route(&route)?;
        }
        self.log.say(format_args!("{}: {}/{} by DHCP", self.name, lease.address, lease.prefix));
        Ok(())
    }

    fn remove(&self, lease: &Lease) -> io::Result<()> {
        let mut netlink = Netlink::open()?;
        if let Some(route) = self.route(lease) {
            netlink.remove_route(&route)?;
        }
        netlink.remove_address(self.index, network(lease)?, None)
    }

    /// A lease in place of another: the address is never missing where both have it.
    fn replace(&self, old: &Lease, new: &Lease) -> io::Result<()> {
        let is_same = |old: &Lease, new: &Lease| {
            (old.address, old.prefix, old.router) == (new.address, new.prefix, new.router)
        };
        if is_same(old, new) {
            return Ok(());
        }
        self.remove(old)?;
        self.apply(new)
    }

    fn route(&self, lease: &Lease) -> Option<KernelRoute> {
        lease.router.map(|router| default_route(IpAddr::V4(router), self.index))
    }
}

fn network(lease: &Lease) -> io::Result<IpNet> {
    IpNet::new(lease.address.into(), lease.prefix).map_err(io::Error::other)
}

/// A device's hardware address.
pub(super) fn hardware(name: &str) -> io::Result<[u8; 6]> {
    let text = fs::read_to_string(format!("/sys/class/net/{name}/address"))?;
    let mut bytes = text.trim().split(':').map(|byte| u8::from_str_radix(byte, 16));
    let mut address = [0; 6];
    for byte in &mut address {
        *byte = bytes
            .next()
            .and_then(Result::ok)
            .ok_or_else(|| io::Error::other("it has no hardware address"))?;
    }
    Ok(address)
}
