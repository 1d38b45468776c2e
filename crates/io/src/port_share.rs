//! A TCP port that is shared with another server: connections that are not of the protocol are forwarded there.
//!
//! The control thread decides by their first bytes which these are (`driver/control/undecided.rs`). One thread of the
//! helper copies their bytes, so that they take no time from the tunnel's threads. How many there are is limited by
//! source ([`SHARES`]).

mod journal;
mod pair;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use adit_core::{Instant, PrefixShares, PrefixTable};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};

use self::journal::{Entry, check};
use self::pair::{Pair, Progress, Side};
use crate::clock;
use crate::mailbox::{MailReceiver, Mailbox, mailbox};
use crate::poller::{Interest, Poller, Ready, Token};

/// Forwarded connections at once: of one IPv4 address or IPv6 /64, and in all. When a share is full, the source with the most
/// loses its oldest. Where a reverse proxy is before this port, all connections are of its address.
const SHARES: PrefixShares = PrefixShares::new(1024, 2048);
/// How long each address of the other server has to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the time of connections is looked at that the other server has not accepted.
const TICK: Duration = Duration::from_secs(1);

/// The other server at a shared TCP port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortShare {
    /// Its name or address. The name is resolved once; its addresses are tried in turn.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// A directory that has a file for each forwarded connection: its name is the address by which the other server sees the
    /// connection, its content the address that the connection comes from, each as `[AF_INET]192.0.2.1:443`. It is there
    /// before the other server gets a byte, and goes with the connection. The helper's user must be able to write to the
    /// directory.
    pub journal: Option<PathBuf>,
}

/// Forwards connections in a thread of its own. When this is dropped, they are closed and their files are removed.
pub struct Forwarder {
    mail: Mailbox<Order>,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    Forward(TcpStream, SocketAddr),
    End,
}

impl Forwarder {
    /// Resolves the other server's name, and waits for connections.
    ///
    /// # Errors
    /// When the name cannot be resolved, the journal's directory cannot be written to, or the system has no descriptor or
    /// thread left.
    pub fn start(share: &PortShare) -> io::Result<Forwarder> {
        let resolved = (share.host.as_str(), share.port).to_socket_addrs().map_err(|error| {
            io::Error::new(error.kind(), format!("port-share: cannot resolve `{}`: {error}", share.host))
        })?;
        share.journal.as_deref().map_or(Ok(()), check)?;
        Self::to(resolved.collect(), share.journal.clone(), SHARES)
    }

    fn to(targets: Vec<SocketAddr>, journal: Option<PathBuf>, shares: PrefixShares) -> io::Result<Forwarder> {
        let (mail, receiver) = mailbox()?;
        let (tell, started) = mpsc::channel();
        let work = move || match Work::new(receiver, targets, journal, shares) {
            Ok(mut work) => {
                let _ = tell.send(Ok(()));
                work.run();
            }
            Err(error) => drop(tell.send(Err(error))),
        };
        let thread = thread::Builder::new().name("adit-forward".to_owned()).spawn(work)?;
        let forwarder = Forwarder { mail, thread: Some(thread) };
        started.recv().map_err(io::Error::other)??;
        Ok(forwarder)
    }

    /// Forwards a connection that came from `source`.
    ///
    /// # Errors
    /// When too many wait to be looked at, or the thread has ended. The connection is closed.
    pub fn take(&self, stream: TcpStream, source: SocketAddr) -> io::Result<()> {
        let is_taken = self.mail.offer(Order::Forward(stream, source), SHARES.total);
        self.mail.wake();
        match is_taken {
            true => Ok(()),
            false if self.has_ended() => {
                Err(io::Error::other("the thread that forwards connections has ended"))
            }
            false => Err(io::Error::other("too many connections wait to be forwarded")),
        }
    }

    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.mail.post(Order::End);
        self.mail.wake();
        // One that panicked has nothing left to close.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A connection and the one to the other server.
struct Forwarded {
    pair: Pair,
    source: SocketAddr,
    /// How many of the other server's addresses were tried.
    tried: usize,
    /// When the address that is being tried must have accepted.
    until: Instant,
    /// Its file is there for as long as this.
    _entry: Option<Entry>,
}

struct Work {
    mail: MailReceiver<Order>,
    poller: Poller,
    targets: Vec<SocketAddr>,
    journal: Option<PathBuf>,
    /// By numbers below 2^31, as a token names one of the two connections.
    pairs: PrefixTable<u32, Forwarded>,
    /// The pairs that the other server has not accepted yet.
    opening: BTreeSet<u32>,
    next: u32,
}

impl Work {
    /// Made in the thread that runs it, as a [`Poller`] cannot be sent to another.
    fn new(
        mail: MailReceiver<Order>,
        targets: Vec<SocketAddr>,
        journal: Option<PathBuf>,
        shares: PrefixShares,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(&mail, Token::Mail, Interest::Read)?;
        let pairs = PrefixTable::new("forwarded connections", shares);
        Ok(Work { mail, poller, targets, journal, pairs, opening: BTreeSet::new(), next: 0 })
    }

    fn run(&mut self) {
        let mut ready = Vec::new();
        loop {
            let timeout = (!self.opening.is_empty()).then_some(TICK);
            // Without the poller nothing can be forwarded any more.
            if self.poller.wait(timeout, &mut ready).is_err() {
                return;
            }
            for event in ready.drain(..) {
                let goes_on = match event.token {
                    Token::Mail => self.take_orders(),
                    Token::Tcp(number) => {
                        self.serve(number, event);
                        true
                    }
                    _ => true,
                };
                if !goes_on {
                    return;
                }
            }
            self.try_others();
        }
    }

    /// Takes the orders. False if that is the end.
    fn take_orders(&mut self) -> bool {
        self.mail.acknowledge();
        while let Some(order) = self.mail.take() {
            match order {
                Order::Forward(stream, source) => self.open(stream, source),
                Order::End => return false,
            }
        }
        true
    }

    /// Connects to the other server. A connection that cannot be forwarded is closed.
    fn open(&mut self, stream: TcpStream, source: SocketAddr) {
        let Some((server, tried)) = begin(&self.targets, 0) else { return };
        let entry = Entry::write(self.journal.as_deref(), &server, source);
        let Ok(pair) = Pair::new(stream, server) else { return };
        let number = self.next;
        self.next = (self.next + 1) % (1 << 31);
        let [_, token] = tokens(number);
        if self.poller.add(pair.server(), token, Interest::Write).is_err() {
            return;
        }
        let until = clock() + CONNECT_TIMEOUT;
        self.opening.insert(number);
        let forwarded = Forwarded { pair, source, tried, until, _entry: entry };
        if let Some((evicted, _)) = self.pairs.insert(source.ip(), number, (), forwarded) {
            self.opening.remove(&evicted);
        }
    }

    /// Tries the other server's next address for a connection, or closes it.
    fn try_next(&mut self, number: u32) {
        let Some(forwarded) = self.pairs.get_mut(&number) else { return };
        self.poller.remove(forwarded.pair.server());
        let Some((server, tried)) = begin(&self.targets, forwarded.tried) else { return self.close(number) };
        // The file of the address that was tried before goes first: both may have one name.
        forwarded._entry = None;
        forwarded._entry = Entry::write(self.journal.as_deref(), &server, forwarded.source);
        (forwarded.tried, forwarded.until) = (tried, clock() + CONNECT_TIMEOUT);
        let [_, token] = tokens(number);
        let begun = forwarded.pair.replace_server(server);
        let watched = begun.and_then(|()| self.poller.add(forwarded.pair.server(), token, Interest::Write));
        if watched.is_err() {
            self.close(number);
        }
    }

    fn serve(&mut self, token: u32, event: Ready) {
        let number = token >> 1;
        let Some(Forwarded { pair, .. }) = self.pairs.get_mut(&number) else { return };
        let side = if token & 1 == 0 { Side::Client } else { Side::Server };
        match pair.serve(side, event.writable) {
            Progress::Opening => {}
            Progress::NotOpened => self.try_next(number),
            Progress::Open => {
                self.opening.remove(&number);
                if watch(&self.poller, number, pair).is_err() {
                    self.close(number);
                }
            }
            Progress::Over => self.close(number),
        }
    }

    fn close(&mut self, number: u32) {
        self.opening.remove(&number);
        self.pairs.remove(&number);
    }

    /// Tries the next address for connections that the other server does not accept in time.
    fn try_others(&mut self) {
        let now = clock();
        let pairs = &self.pairs;
        let opening = self.opening.iter().copied();
        let late: Vec<u32> = opening
            .filter(|number| pairs.get(number).is_none_or(|forwarded| forwarded.until <= now))
            .collect();
        late.into_iter().for_each(|number| self.try_next(number));
    }
}

/// Has the poller wait for the events of the two connections.
fn watch(poller: &Poller, number: u32, pair: &mut Pair) -> io::Result<()> {
    for ((stream, before, now), token) in pair.interests().into_iter().zip(tokens(number)) {
        match (before, now) {
            (before, now) if before == now => {}
            (None, Some(now)) => poller.add(stream, token, now)?,
            (_, Some(now)) => poller.change(stream, token, now)?,
            (_, None) => poller.remove(stream),
        }
    }
    Ok(())
}

/// The tokens of a connection and of the one to the other server.
fn tokens(number: u32) -> [Token; 2] {
    [Token::Tcp(number << 1), Token::Tcp(number << 1 | 1)]
}

/// Begins to connect to the first of these addresses that is possible, without those that were tried. Gives how many were
/// tried then.
fn begin(targets: &[SocketAddr], tried: usize) -> Option<(TcpStream, usize)> {
    let mut others = targets.iter().enumerate().skip(tried);
    others.find_map(|(place, target)| Some((connect(*target).ok()?, place + 1)))
}

fn connect(target: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(target), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&target.into()) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        outcome => outcome?,
    }
    Ok(socket.into())
}
