//! UDP sockets for both address families on one port, which may change while the driver runs.

use std::io;
use std::net::IpAddr;

use adit_core::{Instant, Protocol};

use crate::udp::{PairOptions, UdpPair, UdpSocket};

/// What UDP sockets for both address families on one port shall be: bound to `0.0.0.0` and, where the machine has IPv6,
/// to `[::]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpBinding {
    /// The new port; 0: one that the system chooses; `None`: the sockets stay as they are.
    pub port: Option<u16>,
    /// The firewall mark of what they send (SO_MARK); 0: none; `None`: as it is. It also holds for sockets that are bound
    /// later.
    pub mark: Option<u32>,
}

/// Such sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpSockets {
    /// The port. 0: none is bound.
    pub port: u16,
    /// The driver's number of the socket that talks to IPv4 addresses, as in [`adit_core::Path::Udp`].
    pub ipv4: Option<u32>,
    /// That of the socket that talks to IPv6 addresses. `None` on a machine without IPv6.
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
pub(super) type Numbered = (u32, Vec<UdpSocket>);

/// Makes such sockets, and knows those that there are.
pub(super) struct Binder {
    options: PairOptions,
    mark: u32,
    sockets: UdpSockets,
}

impl Binder {
    pub(super) fn new(options: PairOptions) -> Self {
        Binder { options, mark: 0, sockets: UdpSockets::default() }
    }

    /// See [`super::Driver::learn_local_addresses`].
    pub(super) fn learn_local_addresses(&mut self) {
        self.options.learn_local = true;
    }

    /// Whether they learn their local addresses.
    pub(super) fn learns_local_addresses(&self) -> bool {
        self.options.learn_local
    }

    /// Those that are bound.
    pub(super) fn sockets(&self) -> UdpSockets {
        self.sockets
    }

    /// Binds and marks as is asked for, or changes nothing. `present` are the sockets that are bound. Gives those that
    /// take their place, which `number` counts; none if they stay.
    pub(super) fn bind<'a>(
        &mut self,
        binding: UdpBinding,
        present: impl Iterator<Item = &'a UdpSocket> + Clone,
        mut number: impl FnMut() -> u32,
    ) -> io::Result<Vec<Numbered>> {
        let mark = binding.mark.unwrap_or(self.mark);
        let mut new = Vec::new();
        // The port that is ours already cannot be bound again before it is given up.
        match binding.port.filter(|port| *port == 0 || *port != self.sockets.port) {
            None => set_marks(present, self.mark, mark)?,
            Some(port) => {
                let UdpPair { port, ipv4, ipv6 } = UdpPair::bind(port, mark, &self.options)?;
                new.push((number(), ipv4));
                new.extend(ipv6.map(|ipv6| (number(), ipv6)));
                let mut numbers = new.iter().map(|(number, _)| *number);
                self.sockets = UdpSockets { port, ipv4: numbers.next(), ipv6: numbers.next() };
            }
        }
        self.mark = mark;
        Ok(new)
    }
}

/// Marks all of them, or leaves them all with the mark that they had.
fn set_marks<'a>(
    sockets: impl Iterator<Item = &'a UdpSocket> + Clone,
    before: u32,
    mark: u32,
) -> io::Result<()> {
    if mark == before {
        return Ok(());
    }
    for (done, socket) in sockets.clone().enumerate() {
        if let Err(error) = socket.set_mark(mark) {
            // Nothing can be done where that fails too.
            sockets.take(done).for_each(|marked| drop(marked.set_mark(before)));
            return Err(error);
        }
    }
    Ok(())
}
