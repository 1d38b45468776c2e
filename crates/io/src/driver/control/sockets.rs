//! The UDP sockets: how they come, change and go.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use adit_core::{Command, Instant, Path, Protocol};
use adit_dataplane::OuterHeader;
use adit_dataplane::codec::Demultiplexer;

use super::Control;
use super::transmit_queue::TransmitQueue;
use crate::clock;
use crate::driver::Bound;
use crate::driver::binding::{BindOrder, Binder, Numbered, Ports, UdpBinding, UdpSockets};
use crate::driver::sources::Sources;
use crate::udp::{PinnedSource, UdpOptions, UdpSocket};

/// The sockets of the endpoint, and the datagrams that wait to be sent by them.
pub(super) struct Sockets {
    pub(super) options: UdpOptions,
    /// Sockets that nothing is received from yet.
    pub(super) waiting: Vec<Bound>,
    /// The workers' sockets at each address; control datagrams leave by the first worker's.
    open: BTreeMap<u32, Vec<Arc<UdpSocket>>>,
    pub(super) sources: Arc<Sources>,
    pub(super) ports: Ports,
    /// The numbers of all sockets that listen, and stay; the others were opened for one remote.
    pub(super) listening: BTreeSet<u32>,
    /// The firewall mark of the sockets that were bound for remotes or configured addresses.
    mark: u32,
    /// The traffic class of control datagrams.
    traffic_class: u8,
    /// Datagrams that leave together.
    pub(super) transmit_queue: TransmitQueue,
    pub(super) send_error: Option<io::ErrorKind>,
    pub(super) next_send_complaint: Instant,
}

/// The arguments of [`Sockets`].
pub(super) struct SocketOptions {
    pub(super) udp: UdpOptions,
    pub(super) mark: u32,
    pub(super) traffic_class: u8,
    pub(super) bound: Vec<Bound>,
    pub(super) sources: Arc<Sources>,
    pub(super) ports: Ports,
}

impl Sockets {
    pub(super) fn new(options: SocketOptions) -> Self {
        let SocketOptions { udp, mark, traffic_class, bound, sources, ports } = options;
        Sockets {
            options: udp,
            waiting: bound,
            open: BTreeMap::new(),
            sources,
            ports,
            listening: BTreeSet::new(),
            mark,
            traffic_class,
            transmit_queue: TransmitQueue::default(),
            send_error: None,
            next_send_complaint: clock(),
        }
    }

    /// The socket that a control datagram leaves by, where the path has that number, and the address that it leaves from.
    /// `None`: the socket is closed.
    pub(super) fn sender(&self, number: u32) -> Option<(Arc<UdpSocket>, Option<Arc<PinnedSource>>)> {
        let (number, source) = match self.open.contains_key(&number) {
            true => (number, None),
            false => self.sources.resolve(number, clock()).unwrap_or((number, None)),
        };
        Some((Arc::clone(self.open.get(&number)?.first()?), source))
    }

    /// The IP header around a control datagram.
    pub(super) fn outer_header(&self) -> OuterHeader {
        OuterHeader { traffic_class: self.traffic_class, ..OuterHeader::default() }
    }

    /// The firewall mark of sent datagrams.
    pub(super) fn mark(&self) -> u32 {
        self.ports.mark().unwrap_or(self.mark)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<UdpSocket>> {
        self.open.values().flatten()
    }

    /// See [`UdpSocket::narrow_destinations`].
    pub(super) fn narrow_destinations(&self) -> impl Iterator<Item = IpAddr> {
        self.all().flat_map(|socket| socket.narrow_destinations())
    }

    /// See [`UdpSocket::gso_limited_destinations`].
    pub(super) fn gso_limited_destinations(&self) -> usize {
        self.all().map(|socket| socket.gso_limited_destinations()).sum()
    }

    /// See [`UdpSocket::gso_refusal`].
    pub(super) fn gso_refusal(&self) -> Option<io::Error> {
        self.all().find_map(|socket| socket.gso_refusal())
    }

    /// Whether a number is that of a socket, or of a local address of one.
    fn knows(&self, number: u32) -> bool {
        self.open.contains_key(&number) || self.open.contains_key(&self.sources.socket_of(number))
    }

    /// Whether a number is that of a socket that stays, or of a local address of one.
    pub(super) fn is_listening(&self, number: u32) -> bool {
        self.listening.contains(&number) || self.listening.contains(&self.sources.socket_of(number))
    }

    /// A path as it is now: a datagram that came by sockets that were replaced meanwhile is answered by those in their
    /// place.
    pub(super) fn present_path(&self, path: Path) -> Path {
        match path {
            Path::Udp { socket, remote } if !self.knows(socket) => {
                let present = self.ports.in_place_of(socket, remote.ip());
                Path::Udp { socket: present.unwrap_or(socket), remote }
            }
            path => path,
        }
    }
}

impl<P: Protocol> Control<'_, P> {
    /// Gives the data threads their sockets at an address.
    pub(super) fn add_sockets(&mut self, numbered: Numbered, demultiplexer: Option<&Arc<dyn Demultiplexer>>) {
        let number = numbered.0;
        self.know_sockets(numbered);
        self.receive_from(number, demultiplexer);
        self.workers.wake();
    }

    /// Sends by these sockets from now on, and notifies the protocol of them.
    pub(super) fn know_sockets(&mut self, (number, sockets): Numbered) {
        if let Some(local) = sockets.first().and_then(|socket| socket.local_address().ok()) {
            self.protocol.handle_command(clock(), Command::SocketBound { socket: number, local });
        }
        self.sockets.open.insert(number, sockets);
    }

    /// Sends by sockets of that port from now on, and notifies the protocol of them.
    pub(super) fn know_bound(&mut self, port: usize, numbered: Numbered) {
        let Sockets { ports, sources, .. } = &self.sockets;
        if ports.get(port).is_some_and(Binder::learns_local_addresses) {
            sources.add_socket(numbered.0, ports.sockets(port).port);
        }
        self.know_sockets(numbered);
    }

    /// Has the data threads receive from sockets that are known.
    fn receive_from(&mut self, number: u32, demultiplexer: Option<&Arc<dyn Demultiplexer>>) {
        if let Some(sockets) = self.sockets.open.get(&number) {
            self.workers.add_sockets(number, sockets, demultiplexer);
        }
    }

    /// Has the data threads receive from the sockets of a port.
    pub(super) fn receive_from_bound(&mut self, port: usize) {
        let Sockets { ports, listening, open, .. } = &mut self.sockets;
        let Some(binder) = ports.get(port) else { return };
        for number in binder.numbers() {
            listening.insert(number);
            let Some(sockets) = open.get(&number) else { continue };
            match binder.as_secondary() {
                Some(recognised) => self.workers.share_sockets(number, sockets, recognised),
                None => self.workers.add_sockets(number, sockets, binder.demultiplexer()),
            }
        }
        self.workers.wake();
    }

    /// Sockets are used no more. Gives the numbers of their local addresses.
    pub(super) fn remove_sockets(&mut self, number: u32) -> Vec<u32> {
        self.sockets.listening.remove(&number);
        self.sockets.open.remove(&number);
        let addresses = self.sockets.sources.remove_socket(number);
        self.workers.leave_sockets(number);
        addresses
    }

    /// Carries out the orders of [`crate::Handle::bind_udp`].
    pub(super) fn bind_udp(&mut self, BindOrder { binding, answer }: BindOrder<P>) {
        let port = binding.number;
        let before = self.sockets.ports.sockets(port);
        let numbers = self.sockets.ports.get(port).map(Binder::numbers).unwrap_or_default();
        let outcome = self.bind_new(binding);
        answer(&mut self.protocol, clock(), outcome);
        self.pump();
        // The data threads know by now where the peers have moved to.
        if self.sockets.ports.sockets(port) != before {
            let mut replaced = BTreeSet::from_iter(numbers.iter().copied());
            for number in numbers {
                replaced.extend(self.remove_sockets(number));
            }
            self.sockets.ports.replaced(port, replaced);
            self.workers.wake();
        }
    }

    fn bind_new(&mut self, binding: UdpBinding) -> io::Result<UdpSockets> {
        let port = binding.number;
        let Sockets { ports, open, sources, .. } = &mut self.sockets;
        let numbers = ports.get(port).map(Binder::numbers).unwrap_or_default();
        let present = numbers.iter().filter_map(|number| open.get(number)).flatten();
        let new = ports.bind(binding, present.map(|socket| &**socket), || sources.next_number())?;
        let is_new = !new.is_empty();
        new.into_iter().for_each(|numbered| self.know_bound(port, numbered));
        if is_new {
            self.receive_from_bound(port);
        }
        Ok(self.sockets.ports.sockets(port))
    }
}
