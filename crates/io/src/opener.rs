//! Opening a path to a remote: name resolution and connecting, which may take long, on a thread of its own.

mod by_proxy;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use adit_core::{OpenFailure, Transport};
use adit_system::{MarkedServers, NameServers, Resolving, ask_marked, mark};
use rand_core::{OsRng, TryRngCore};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::config::{Family, Remote};
use crate::refusal::{LISTENING, Question};
use crate::tcp;
use crate::udp::{Relay, UdpOptions, UdpSocket, set_buffers};

/// How long a fixed local port may still be held by the path that was closed just now.
const BIND_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a name may take with marked queries. The system's resolver may wait longer for name servers in a dead
/// tunnel.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A path that was opened.
#[derive(Debug)]
pub enum Opened {
    /// A fresh socket, of UDP or of another IP protocol, and where to send.
    Udp(UdpSocket, SocketAddr),
    /// A connection, and the address of its remote.
    Tcp(TcpStream, SocketAddr),
}

impl Opened {
    /// A UDP socket that another process opened with these options, to send to that address; by a relay if there is one.
    ///
    /// # Errors
    /// The descriptor is no socket of IP.
    pub fn udp(
        socket: OwnedFd,
        address: SocketAddr,
        options: &UdpOptions,
        relay: Option<Relay>,
    ) -> io::Result<Self> {
        Ok(Opened::Udp(UdpSocket::adopt(socket, options)?.by_relay(relay), address))
    }

    /// A TCP connection that another process opened to that address.
    ///
    /// # Errors
    /// The descriptor is no TCP connection.
    pub fn tcp(connection: OwnedFd, address: SocketAddr) -> io::Result<Self> {
        Ok(Opened::Tcp(tcp::prepare(connection.into())?, address))
    }

    /// Where datagrams go; `None` for a connection.
    pub(crate) fn datagrams_to(&self) -> Option<SocketAddr> {
        match self {
            Opened::Udp(_, address) => Some(*address),
            Opened::Tcp(..) => None,
        }
    }
}

/// Says whether the address that was opened refuses datagrams.
pub enum Refusals {
    /// By the answer to a question, if one was asked.
    Asked(Option<Question>),
    /// By a helper: waits until it says why the address refuses, or says nothing.
    Helper(Box<dyn FnOnce() -> Option<String> + Send>),
}

impl Refusals {
    /// Why it refuses; `None` if it does not say so within some seconds.
    pub fn wait(self) -> Option<String> {
        match self {
            Refusals::Asked(question) => question?.refusal(LISTENING).map(|error| error.to_string()),
            Refusals::Helper(wait) => wait(),
        }
    }
}

/// Addresses by `host:port`.
type Resolved = BTreeMap<String, Vec<SocketAddr>>;

/// The addresses to which each remote's name resolved last.
#[derive(Clone, Debug, Default)]
pub struct KnownAddresses(Arc<Mutex<Resolved>>);

impl KnownAddresses {
    /// The fresh addresses, or the last known ones if there are none now.
    fn resolve(&self, remote: &Remote, resolving: &Resolving) -> Result<Vec<SocketAddr>, OpenFailure> {
        let fresh = match resolving {
            Resolving::System => resolve(remote),
            Resolving::Marked(servers) => resolve_beside(remote, servers),
        };
        let mut known = self.lock();
        match fresh {
            Ok(addresses) => {
                known.insert(key(remote), addresses.clone());
                Ok(addresses)
            }
            Err(failure) => known.get(&key(remote)).cloned().ok_or(failure),
        }
    }

    /// The addresses of a remote, beginning with another address at each attempt. Never empty: a name without addresses
    /// is a failure.
    fn in_turn(
        &self,
        remote: &Remote,
        attempt: usize,
        resolving: &Resolving,
    ) -> Result<Vec<SocketAddr>, OpenFailure> {
        let mut addresses = self.resolve(remote, resolving)?;
        let first = attempt % addresses.len().max(1);
        addresses.rotate_left(first);
        Ok(addresses)
    }

    /// Resolves the names of all remotes while the system's resolver works. A name that cannot be resolved is tried
    /// again when it is needed.
    pub fn learn(&self, remotes: &[Remote], resolving: &Resolving) {
        for remote in remotes {
            if let Some(proxy) = &remote.proxy {
                self.learn(&[by_proxy::as_remote(remote, proxy)], resolving);
            }
            let unknown = !self.lock().contains_key(&key(remote));
            if unknown
                && remote.host.parse::<IpAddr>().is_err()
                && !remote.random_hostname
                && by_proxy::resolves(remote)
            {
                let _ = self.resolve(remote, resolving);
            }
        }
    }

    /// Asks the address that a socket was opened for whether it refuses datagrams, if the remote has others.
    pub fn ask(&self, remote: &Remote, opened: &Opened, options: &UdpOptions) -> Option<Question> {
        let Opened::Udp(_, address) = opened else { return None };
        if remote.transport != Transport::Udp {
            return None;
        }
        let has_others = self.lock().get(&key(remote)).is_some_and(|addresses| addresses.len() > 1);
        let own_mark = remote.mark.unwrap_or(mark::MARK);
        let is_direct = remote.proxy.is_none();
        (is_direct && has_others).then(|| Question::ask(*address, options.routing, own_mark).ok())?
    }

    fn lock(&self) -> MutexGuard<'_, Resolved> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(remote: &Remote) -> String {
    format!("{}:{} {:?}", remote.host, remote.port, remote.family)
}

/// Resolves and opens. `attempt` counts the attempts at this remote: each tries the next of its addresses first.
/// `prepare` is called with the addresses before anything is sent there, those of a proxy and of its relay apart.
///
/// # Errors
/// Why the remote cannot be reached.
pub fn open(
    remote: &Remote,
    attempt: usize,
    udp: &UdpOptions,
    (known, resolving): (&KnownAddresses, &Resolving),
    mut prepare: impl FnMut(Vec<IpAddr>),
) -> Result<Opened, OpenFailure> {
    if let Some(proxy) = &remote.proxy {
        return by_proxy::open((remote, proxy), attempt, udp, (known, resolving), &mut prepare);
    }
    let mut failures = Vec::new();
    let addresses = known.in_turn(remote, attempt, resolving)?;
    prepare(addresses.iter().map(SocketAddr::ip).collect());
    let last = addresses.last().copied();
    let is_last = |address| Some(address) == last;
    for address in addresses {
        let result = match remote.transport {
            Transport::Udp if is_last(address) => open_udp(remote, address, udp),
            // Where no route leads there, the next address is tried at once.
            Transport::Udp => has_route(remote, address, udp).and_then(|()| open_udp(remote, address, udp)),
            Transport::Ip(protocol) => open_ip(remote, protocol, address, udp),
            Transport::Tcp => connect(remote, address, udp, remote.connect_timeout)
                .and_then(|stream| Ok(Opened::Tcp(tcp::prepare(stream)?, address))),
        };
        match result {
            Ok(opened) => return Ok(opened),
            Err(error) => failures.push(format!("{address}: {error}")),
        }
    }
    let why = failures.join("; ");
    Err(OpenFailure::Unreachable(format!("cannot reach `{}` at {why}", remote.host)))
}

/// The name to ask the resolver for.
fn wanted_name(remote: &Remote) -> Result<Cow<'_, str>, OpenFailure> {
    if !remote.random_hostname || remote.host.parse::<IpAddr>().is_ok() {
        return Ok(Cow::Borrowed(&remote.host));
    }
    // 48 random bits make a name that no cache has.
    let mut random = [0; 6];
    OsRng
        .try_fill_bytes(&mut random)
        .map_err(|error| OpenFailure::Unreachable(format!("no randomness from the system: {error}")))?;
    let letters: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Cow::Owned(format!("{letters}.{}", remote.host)))
}

/// By the system's resolver.
fn resolve(remote: &Remote) -> Result<Vec<SocketAddr>, OpenFailure> {
    let host = wanted_name(remote)?;
    by_system(remote, host.as_ref())
}

fn by_system(remote: &Remote, host: &str) -> Result<Vec<SocketAddr>, OpenFailure> {
    let found = (host, remote.port).to_socket_addrs().map_err(|error| {
        let text = error.to_string();
        // The standard library keeps the resolver's words, but not its number.
        match text.ends_with(&adit_sys::unknown_name_text()) {
            true => OpenFailure::UnknownName(format!("there is no host named `{host}`; is it misspelt?")),
            false => OpenFailure::Unreachable(format!("cannot resolve `{host}`: {text}")),
        }
    })?;
    usable(remote, host, found)
}

/// A way to resolve a name.
type Lookup = Box<dyn FnOnce() -> Result<Vec<SocketAddr>, OpenFailure> + Send>;

/// By marked queries to these servers, and at the same time by the system's resolver: it may know the name without a
/// query (`/etc/hosts`). The first that finds addresses counts.
fn resolve_beside(remote: &Remote, servers: &MarkedServers) -> Result<Vec<SocketAddr>, OpenFailure> {
    let host = wanted_name(remote)?.into_owned();
    if host.parse::<IpAddr>().is_ok() {
        return by_system(remote, &host);
    }
    let (answers, answer) = mpsc::channel();
    let lookups: [Lookup; 2] = [
        Box::new({
            let (remote, host, servers) = (remote.clone(), host.clone(), servers.clone());
            move || by_marked_queries(&remote, &host, &servers)
        }),
        Box::new({
            let (remote, host) = (remote.clone(), host.clone());
            move || by_system(&remote, &host)
        }),
    ];
    for way in lookups {
        let answers = answers.clone();
        let work = move || {
            // The receiver is gone if the other lookup was quicker.
            let _ = answers.send(way());
        };
        let started = thread::Builder::new().name("adit-resolve".to_owned()).spawn(work);
        started.map_err(|error| OpenFailure::Unreachable(format!("cannot start a thread: {error}")))?;
    }
    drop(answers);
    let until = Instant::now() + RESOLVE_TIMEOUT;
    let mut failure =
        OpenFailure::Unreachable(format!("cannot resolve `{host}`: no name server answers in time"));
    while let Ok(result) = answer.recv_timeout(until.saturating_duration_since(Instant::now())) {
        match result {
            Ok(addresses) => return Ok(addresses),
            Err(why) => failure = why,
        }
    }
    Err(failure)
}

/// The addresses of a name, with port 0, while the kill switch keeps the system's resolver from its name servers: these are asked
/// by marked queries. `resolv_conf` is the file to read them from in place of `/etc/resolv.conf`.
///
/// # Errors
/// [`io::ErrorKind::NotFound`]: there is no such name. [`io::ErrorKind::TimedOut`]: no name server has answered.
pub fn look_up_marked(host: &str, resolv_conf: Option<PathBuf>) -> io::Result<Vec<SocketAddr>> {
    // Of no device: nothing is set there.
    let servers = NameServers::new(0, resolv_conf).of_the_system();
    look_up_beside(host, &MarkedServers { servers, mark: mark::MARK })
}

/// The addresses of a name, with port 0, by marked queries to these name servers.
///
/// # Errors
/// As [`look_up_marked`].
pub fn look_up_beside(host: &str, servers: &MarkedServers) -> io::Result<Vec<SocketAddr>> {
    let remote = Remote {
        host: host.to_owned(),
        random_hostname: false,
        port: 0,
        transport: Transport::Udp,
        family: Family::Any,
        bind: None,
        connect_timeout: RESOLVE_TIMEOUT,
        proxy: None,
        mark: None,
    };
    resolve_beside(&remote, servers).map_err(|failure| match failure {
        OpenFailure::UnknownName(text) => io::Error::new(io::ErrorKind::NotFound, text),
        OpenFailure::Unreachable(text) | OpenFailure::NeedsCredentials { text, .. } => {
            io::Error::new(io::ErrorKind::TimedOut, text)
        }
    })
}

fn by_marked_queries(
    remote: &Remote,
    host: &str,
    servers: &MarkedServers,
) -> Result<Vec<SocketAddr>, OpenFailure> {
    let found = ask_marked(servers, host)
        .map_err(|error| OpenFailure::Unreachable(format!("cannot resolve `{host}`: {error}")))?;
    usable(remote, host, found.into_iter().map(|address| SocketAddr::new(address, remote.port)))
}

/// The addresses among those found that may be used; at least one.
fn usable(
    remote: &Remote,
    host: &str,
    found: impl Iterator<Item = SocketAddr>,
) -> Result<Vec<SocketAddr>, OpenFailure> {
    let addresses: Vec<SocketAddr> = found
        .filter(|address| match remote.family {
            Family::Any => remote
                .bind
                .is_none_or(|bind| bind.ip().is_unspecified() || bind.is_ipv4() == address.is_ipv4()),
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        })
        .collect();
    if addresses.is_empty() {
        let lacks = match remote.family {
            Family::Any => "no address of the local address's family; correct or remove `local`",
            Family::V4 => "no IPv4 address; ask for IPv6 or for both",
            Family::V6 => "no IPv6 address; ask for IPv4 or for both",
        };
        return Err(OpenFailure::Unreachable(format!("`{host}` has {lacks}")));
    }
    Ok(addresses)
}

/// Whether the system would send there: no datagram is sent.
fn has_route(remote: &Remote, address: SocketAddr, options: &UdpOptions) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    mark::route(&socket, options.routing)?;
    mark_own(remote, socket.as_fd(), options);
    socket.connect(&SockAddr::from(address))
}

fn open_udp(remote: &Remote, address: SocketAddr, options: &UdpOptions) -> io::Result<Opened> {
    let local = local_end(remote, address).unwrap_or_else(|| any_address(address, 0));
    Ok(Opened::Udp(bind_udp(remote, local, options)?, address))
}

fn open_ip(remote: &Remote, protocol: u8, address: SocketAddr, options: &UdpOptions) -> io::Result<Opened> {
    let local = local_end(remote, address).unwrap_or_else(|| any_address(address, 0));
    let socket = UdpSocket::bind_ip(protocol, local.ip(), options)?;
    mark_own(remote, socket.as_fd(), options);
    let mut to = address;
    to.set_port(0);
    Ok(Opened::Udp(socket, to))
}

/// A marked socket with that local address, which the path that was closed just now may still hold.
fn bind_udp(remote: &Remote, local: SocketAddr, options: &UdpOptions) -> io::Result<UdpSocket> {
    let step = Duration::from_millis(50);
    let mut waited = Duration::ZERO;
    loop {
        match UdpSocket::bind(local, options) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && waited < BIND_TIMEOUT => {
                thread::sleep(step);
                waited += step;
            }
            Err(error) => {
                return Err(io::Error::new(error.kind(), format!("cannot bind to {local}: {error}")));
            }
            Ok(socket) => {
                mark_own(remote, socket.as_fd(), options);
                return Ok(socket);
            }
        }
    }
}

/// Puts the mark of the remote, or that of all tunnels, on a socket that has none of its own. Without the right to, only
/// tunnels without policy routing work; the driver says so when it meets another.
fn mark_own(remote: &Remote, socket: BorrowedFd<'_>, options: &UdpOptions) {
    if options.routing.mark.is_none() {
        let _ = mark::set_to(socket, remote.mark.unwrap_or(mark::MARK));
    }
}

fn any_address(like: SocketAddr, port: u16) -> SocketAddr {
    if like.is_ipv4() { ([0, 0, 0, 0], port).into() } else { ([0_u16; 8], port).into() }
}

/// Where to bind on the way to `address`. A port of any address is one of that address's family.
fn local_end(remote: &Remote, address: SocketAddr) -> Option<SocketAddr> {
    let bind = remote.bind?;
    Some(if bind.ip().is_unspecified() { any_address(address, bind.port()) } else { bind })
}

/// A connection that waits when it is read and written.
fn connect(
    remote: &Remote,
    address: SocketAddr,
    options: &UdpOptions,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    mark::route(&socket, options.routing)?;
    mark_own(remote, socket.as_fd(), options);
    if let Some(local) = local_end(remote, address) {
        socket.set_reuse_address(true)?;
        socket
            .bind(&SockAddr::from(local))
            .map_err(|error| io::Error::new(error.kind(), format!("cannot bind to {local}: {error}")))?;
    }
    set_buffers(&socket, options.buffers);
    socket.connect_timeout(&SockAddr::from(address), timeout)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use adit_system::{Fragmentation, SocketRouting};

    use super::*;
    use crate::config::Buffers;

    fn remote(host: &str, transport: Transport, family: Family) -> Remote {
        let connect_timeout = Duration::from_secs(2);
        Remote {
            host: host.to_owned(),
            random_hostname: false,
            port: 9,
            transport,
            family,
            bind: None,
            connect_timeout,
            proxy: None,
            mark: None,
        }
    }

    fn text(remote: &Remote) -> String {
        match open(remote, 0, &OPTIONS, (&KnownAddresses::default(), &Resolving::System), |_| ()).unwrap_err()
        {
            OpenFailure::UnknownName(text) => format!("unknown: {text}"),
            OpenFailure::Unreachable(text) | OpenFailure::NeedsCredentials { text, .. } => text,
        }
    }

    const OPTIONS: UdpOptions = UdpOptions {
        buffers: Buffers { sndbuf: None, rcvbuf: None },
        gso: true,
        gro: true,
        routing: SocketRouting { mark: None, device: None, fragmentation: Fragmentation::System },
    };

    #[test]
    fn failures_say_what_failed() {
        let wrong_family = remote("127.0.0.1", Transport::Udp, Family::V6);
        assert!(text(&wrong_family).contains("no IPv6 address"));
        let closed = remote("127.0.0.1", Transport::Tcp, Family::Any);
        assert!(text(&closed).starts_with("cannot reach `127.0.0.1` at 127.0.0.1:9: "));
        // Not even a resolver is asked for a name that cannot be one.
        let nonsense = remote("no such name", Transport::Udp, Family::Any);
        assert!(text(&nonsense).starts_with("unknown: there is no host"), "{}", text(&nonsense));
        let taken = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &OPTIONS).unwrap();
        let mut bound = remote("127.0.0.1", Transport::Udp, Family::Any);
        bound.bind = Some(taken.local_address().unwrap());
        assert!(text(&bound).contains("cannot bind to 127.0.0.1:"));
    }

    #[test]
    fn a_random_name_is_below_the_one_given() {
        let mut remote = remote("vpn.example", Transport::Udp, Family::Any);
        remote.random_hostname = true;
        let names = [wanted_name(&remote).unwrap(), wanted_name(&remote).unwrap()];
        assert_ne!(names[0], names[1]);
        for name in names {
            let (letters, rest) = name.split_once('.').unwrap();
            assert!(rest == "vpn.example" && letters.len() == 12, "{name}");
        }
        remote.host = "192.0.2.1".to_owned();
        assert_eq!(wanted_name(&remote).unwrap(), "192.0.2.1");
    }

    #[test]
    fn a_udp_remote_gets_a_fresh_socket() {
        let remote = remote("127.0.0.1", Transport::Udp, Family::V4);
        let opened =
            open(&remote, 3, &OPTIONS, (&KnownAddresses::default(), &Resolving::System), |_| ()).unwrap();
        assert!(matches!(opened, Opened::Udp(_, address) if address == "127.0.0.1:9".parse().unwrap()));
    }

    /// A name with an address that refuses datagrams, and one that takes them.
    #[test]
    fn the_next_address_is_found_when_one_refuses() {
        let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let listening = server.local_addr().unwrap();
        let closed = SocketAddr::new("127.0.0.3".parse().unwrap(), listening.port());
        let no_route: SocketAddr = "[2001:db8::1]:9".parse().unwrap();
        let marked = Resolving::Marked(MarkedServers {
            servers: vec!["127.0.0.1".parse().unwrap()],
            mark: mark::MARK,
        });
        let (known, remote) =
            (KnownAddresses::default(), remote("gone.invalid", Transport::Udp, Family::Any));
        let open = |attempt| open(&remote, attempt, &OPTIONS, (&known, &marked), |_| ()).unwrap();
        let refusal = |opened: &Opened| Refusals::Asked(known.ask(&remote, opened, &OPTIONS)).wait();
        known.lock().insert(key(&remote), vec![closed, listening]);
        let opened = open(0);
        assert_eq!(opened.datagrams_to(), Some(closed));
        assert!(refusal(&opened).is_some_and(|why| why.contains("refused")));
        assert_eq!(open(1).datagrams_to(), Some(listening));
        // One to which there is no route is passed over before anything is sent.
        if std::net::UdpSocket::bind("[::]:0").and_then(|socket| socket.connect(no_route)).is_err() {
            known.lock().insert(key(&remote), vec![no_route, listening]);
            assert_eq!(open(0).datagrams_to(), Some(listening));
        }
        // There is no other to go to.
        known.lock().insert(key(&remote), vec![closed]);
        assert_eq!(refusal(&open(0)), None);
    }

    #[test]
    fn a_name_that_resolved_once_is_remembered() {
        let (known, none) = (KnownAddresses::default(), KnownAddresses::default());
        // Both lookups fail: no name server answers there, and there is no such name.
        let marked = Resolving::Marked(MarkedServers {
            servers: vec!["127.0.0.1".parse().unwrap()],
            mark: mark::MARK,
        });
        let literal = remote("127.0.0.1", Transport::Udp, Family::V4);
        let remote = remote("gone.invalid", Transport::Udp, Family::V4);
        known.lock().insert(key(&remote), vec!["127.0.0.1:9".parse().unwrap()]);
        known.learn(std::slice::from_ref(&remote), &marked);
        assert!(open(&remote, 0, &OPTIONS, (&known, &marked), |_| ()).is_ok());
        assert!(open(&remote, 0, &OPTIONS, (&none, &marked), |_| ()).is_err());
        assert!(open(&literal, 0, &OPTIONS, (&none, &marked), |_| ()).is_ok());
    }
}
