//! The ports of an endpoint: each has UDP sockets for both address families, which may change while the driver runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use adit_core::{Instant, Protocol};
use adit_dataplane::codec::Demultiplexer;

use super::lending::{Borrowed, Lending};
use crate::helper_channels::SocketChannel;
use crate::udp::{PairOptions, UdpPair, UdpSocket};

/// The settings of UDP sockets for both address families on one port: bound to `0.0.0.0` and, where the machine has
/// IPv6, to `[::]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpBinding {
    /// Which of the endpoint's ports this is about. Each has sockets, a mark and, by [`crate::UdpSource::Bound`], a
    /// demultiplexer of its own.
    pub number: usize,
    /// The new port; 0: one that the system chooses; `None`: the sockets stay as they are.
    pub port: Option<u16>,
    /// The firewall mark of their datagrams (SO_MARK); 0: none; `None`: as it is. It also holds for sockets that are
    /// bound later.
    pub mark: Option<u32>,
}

/// The settings of sockets for an IP protocol: bound to `0.0.0.0` and, where the machine has IPv6, to `::`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpBinding {
    /// The number of the protocol.
    pub protocol: u8,
    /// The firewall mark of their datagrams (SO_MARK); 0: none.
    pub mark: u32,
}

/// Such sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpSockets {
    /// The port. 0: none is bound, or they are sockets for an IP protocol.
    pub port: u16,
    /// The driver's number of the socket that talks to IPv4 addresses, as in [`adit_core::Path`].
    pub ipv4: Option<u32>,
    /// The number of the socket that talks to IPv6 addresses. `None` on a machine without IPv6.
    pub ipv6: Option<u32>,
}

impl UdpSockets {
    /// The number of the socket that talks to an address.
    pub fn for_address(&self, address: IpAddr) -> Option<u32> {
        match address.to_canonical() {
            IpAddr::V4(_) => self.ipv4,
            IpAddr::V6(_) => self.ipv6,
        }
    }

    /// All numbers.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        [self.ipv4, self.ipv6].into_iter().flatten()
    }
}

/// Takes the outcome of a binding, with the protocol and the time.
pub type BindAnswer<P> = Box<dyn FnOnce(&mut P, Instant, io::Result<UdpSockets>) + Send>;

/// A binding that was ordered.
pub(crate) struct BindOrder<P: Protocol> {
    pub(super) binding: UdpBinding,
    pub(super) answer: BindAnswer<P>,
}

/// A socket's number, and the socket itself for each worker.
pub(super) type Numbered = (u32, Vec<Arc<UdpSocket>>);

/// How the datagrams of a protocol are known at a socket of another endpoint.
pub(super) type Recognised = (fn(&[u8]) -> bool, Arc<dyn Demultiplexer>);

/// The ports of an endpoint, by their numbers.
pub(super) struct Ports {
    all: BTreeMap<usize, Binder>,
    options: PairOptions,
    /// The demultiplexer of ports that have none of their own.
    own: Arc<dyn Demultiplexer>,
    demultiplexers: BTreeMap<usize, Arc<dyn Demultiplexer>>,
    lending: Arc<Lending>,
    /// Binds and marks in place of this process.
    helper: Option<Box<dyn SocketChannel>>,
}

impl Ports {
    /// No port yet. `own` is the demultiplexer of ports that are not in `demultiplexers`.
    pub(super) fn new(
        options: PairOptions,
        own: &Arc<dyn Demultiplexer>,
        demultiplexers: BTreeMap<usize, Arc<dyn Demultiplexer>>,
        lending: Arc<Lending>,
    ) -> Self {
        let own = Arc::clone(own);
        Ports { all: BTreeMap::new(), options, own, demultiplexers, lending, helper: None }
    }

    /// Has a helper bind and mark from now on.
    pub(super) fn use_helper(&mut self, helper: Box<dyn SocketChannel>) {
        self.helper = Some(helper);
    }

    /// How sockets of new ports are made.
    pub(super) fn options(&self) -> &PairOptions {
        &self.options
    }

    /// See [`super::Driver::learn_local_addresses`].
    pub(super) fn learn_local_addresses(&mut self) {
        self.options.learn_local = true;
        self.all.values_mut().for_each(|binder| binder.options.learn_local = true);
    }

    /// See [`super::Driver::learn_traffic_classes`].
    pub(super) fn learn_traffic_classes(&mut self) {
        self.options.learn_classes = true;
        self.all.values_mut().for_each(|binder| binder.options.learn_classes = true);
    }

    /// Whether anything was bound.
    pub(super) fn is_used(&self) -> bool {
        self.all.values().any(Binder::is_used)
    }

    /// Whether a socket learns its local addresses.
    pub(super) fn learns_local_addresses(&self) -> bool {
        self.all.values().any(Binder::learns_local_addresses)
    }

    /// The firewall mark of the datagrams of the first port's sockets.
    pub(super) fn mark(&self) -> Option<u32> {
        self.all.values().find(|binder| binder.is_used()).map(Binder::mark)
    }

    /// The numbers of the ports.
    pub(super) fn numbers(&self) -> Vec<usize> {
        self.all.keys().copied().collect()
    }

    /// A port.
    pub(super) fn get(&self, number: usize) -> Option<&Binder> {
        self.all.get(&number)
    }

    /// Binds and marks as is asked for ([`Binder::bind`]), by the helper if there is one.
    pub(super) fn bind<'a>(
        &mut self,
        binding: UdpBinding,
        present: impl Iterator<Item = &'a UdpSocket> + Clone,
        number: impl FnMut() -> u32,
    ) -> io::Result<Vec<Numbered>> {
        let Ports { all, options, own, demultiplexers, lending, helper } = self;
        let binder = all.entry(binding.number).or_insert_with(|| {
            let demultiplexer = demultiplexers.get(&binding.number).map(Arc::clone);
            Binder::new(*options, own, demultiplexer, Arc::clone(lending))
        });
        binder.bind(binding, present, number, helper.as_deref())
    }

    /// The sockets of a port; none if there is no such port.
    pub(super) fn sockets(&self, number: usize) -> UdpSockets {
        self.get(number).map(|binder| binder.sockets).unwrap_or_default()
    }

    /// The sockets with these numbers, and local addresses with these, were those of the port.
    pub(super) fn replaced(&mut self, number: usize, before: BTreeSet<u32>) {
        if let Some(binder) = self.all.get_mut(&number) {
            binder.replaced = before;
        }
    }

    /// The number of the socket that talks to an address in place of the socket or local address that had that number
    /// before. Where it is not known of which port that was, it is one of the first port.
    pub(super) fn in_place_of(&self, number: u32, address: IpAddr) -> Option<u32> {
        let of_port = self.all.values().find(|binder| binder.replaced.contains(&number));
        of_port.or_else(|| self.all.values().next())?.sockets.for_address(address)
    }
}

/// Makes the sockets of a port, and knows those that there are.
pub(super) struct Binder {
    options: PairOptions,
    mark: u32,
    sockets: UdpSockets,
    /// Tells apart the datagrams that arrive there; `None`: the demultiplexer of the endpoint does.
    demultiplexer: Option<Arc<dyn Demultiplexer>>,
    /// `None`: the protocol's datagrams are not known by their first bytes.
    recognised: Option<Recognised>,
    /// The sockets that other endpoints have bound.
    lending: Arc<Lending>,
    /// The numbers of all sockets, if they are those of another endpoint.
    borrowed: Vec<u32>,
    /// The numbers of the sockets before, and of their local addresses: datagrams that came by them may still
    /// wait.
    replaced: BTreeSet<u32>,
}

impl Binder {
    fn new(
        options: PairOptions,
        own: &Arc<dyn Demultiplexer>,
        demultiplexer: Option<Arc<dyn Demultiplexer>>,
        lending: Arc<Lending>,
    ) -> Self {
        let used = demultiplexer.as_ref().unwrap_or(own);
        Binder {
            options: PairOptions { steering: used.steering(), ..options },
            mark: 0,
            sockets: UdpSockets::default(),
            recognised: used.recognises().map(|recognises| (recognises, Arc::clone(used))),
            demultiplexer,
            lending,
            borrowed: Vec::new(),
            replaced: BTreeSet::new(),
        }
    }

    /// Whether anything was bound.
    fn is_used(&self) -> bool {
        self.sockets.port != 0
    }

    /// Whether they learn their local addresses.
    pub(super) fn learns_local_addresses(&self) -> bool {
        self.options.learn_local && self.borrowed.is_empty()
    }

    /// The firewall mark of its sockets' datagrams.
    fn mark(&self) -> u32 {
        self.mark
    }

    /// Tells apart the datagrams that arrive there; `None`: the demultiplexer of the endpoint does.
    pub(super) fn demultiplexer(&self) -> Option<&Arc<dyn Demultiplexer>> {
        self.demultiplexer.as_ref()
    }

    /// How its datagrams are known, if the sockets are those of another endpoint.
    pub(super) fn as_secondary(&self) -> Option<&Recognised> {
        self.recognised.as_ref().filter(|_| !self.borrowed.is_empty())
    }

    /// The numbers of all sockets.
    pub(super) fn numbers(&self) -> Vec<u32> {
        match self.borrowed.is_empty() {
            true => self.sockets.numbers().collect(),
            false => self.borrowed.clone(),
        }
    }

    /// Binds and marks as is asked for, or changes nothing. `present` are the sockets that are bound. Gives those that
    /// take their place, which `number` counts; none if they stay. Sockets of another endpoint are used, but not marked.
    fn bind<'a>(
        &mut self,
        binding: UdpBinding,
        present: impl Iterator<Item = &'a UdpSocket> + Clone,
        mut number: impl FnMut() -> u32,
        helper: Option<&dyn SocketChannel>,
    ) -> io::Result<Vec<Numbered>> {
        let mark = binding.mark.unwrap_or(self.mark);
        let mut new = Vec::new();
        let is_other = |port: &u16| *port == 0 || *port != self.sockets.port;
        if let Some(port) = binding.port.filter(is_other)
            && let Some(Borrowed { sockets, numbered }) = self.borrow(port)?
        {
            no_mark(mark)?;
            if self.options.learn_classes {
                let mut sockets = numbered.iter().flat_map(|(_, group)| group);
                sockets.try_for_each(|socket| socket.learn_traffic_classes())?;
            }
            self.borrowed = numbered.iter().map(|(number, _)| *number).collect();
            (self.sockets, self.mark) = (sockets, 0);
            return Ok(numbered);
        }
        // The port that is ours already cannot be bound again before it is given up.
        match binding.port.filter(is_other) {
            None if !self.borrowed.is_empty() => no_mark(mark)?,
            None => set_marks(present, (self.mark, mark), helper)?,
            Some(port) => {
                let UdpPair { port, ipv4, ipv6 } = UdpPair::bind(port, mark, &self.options, helper)?;
                let shared = |group: Vec<UdpSocket>| group.into_iter().map(Arc::new).collect();
                new.push((number(), shared(ipv4)));
                new.extend(ipv6.map(|ipv6| (number(), shared(ipv6))));
                self.borrowed.clear();
                let mut numbers = new.iter().map(|(number, _)| *number);
                self.sockets = UdpSockets { port, ipv4: numbers.next(), ipv6: numbers.next() };
            }
        }
        self.mark = mark;
        Ok(new)
    }

    /// The sockets of another endpoint at a port, if the datagrams of this protocol can be told from those of
    /// the other endpoint's protocol.
    fn borrow(&self, port: u16) -> io::Result<Option<Borrowed>> {
        match &self.recognised {
            Some(_) if port != 0 => self.lending.borrow(port, self.options.steering),
            _ => Ok(None),
        }
    }
}

/// Refuses a mark: another endpoint sends by the same sockets, and has none.
fn no_mark(mark: u32) -> io::Result<()> {
    match mark {
        0 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
    }
}

/// Marks all of them, or leaves them all with the mark that they had.
fn set_marks<'a>(
    sockets: impl Iterator<Item = &'a UdpSocket> + Clone,
    (before, mark): (u32, u32),
    helper: Option<&dyn SocketChannel>,
) -> io::Result<()> {
    if mark == before {
        return Ok(());
    }
    for (done, socket) in sockets.clone().enumerate() {
        if let Err(error) = socket.set_mark(mark, helper) {
            // Nothing can be done where that fails too.
            sockets.take(done).for_each(|marked| drop(marked.set_mark(before, helper)));
            return Err(error);
        }
    }
    Ok(())
}
