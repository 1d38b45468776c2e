//! The UDP sockets: how they come, change and go.

use std::io;
use std::sync::Arc;

use adit_core::{Command, Path, Protocol};
use adit_dataplane::codec::Demultiplexer;

use super::Control;
use crate::clock;
use crate::driver::binding::{BindOrder, Numbered, UdpBinding, UdpSockets};
use crate::udp::UdpSocket;

impl<P: Protocol> Control<'_, P> {
    /// Gives the data threads their sockets at an address.
    pub(super) fn add_sockets(&mut self, numbered: Numbered, demultiplexer: Option<&Arc<dyn Demultiplexer>>) {
        let number = numbered.0;
        self.know_sockets(numbered);
        self.receive_from(number, demultiplexer);
        self.workers.wake();
    }

    /// Sends by these sockets from now on, which the protocol is told of.
    pub(super) fn know_sockets(&mut self, (number, sockets): Numbered) {
        if let Some(local) = sockets.first().and_then(|socket| socket.local_address().ok()) {
            self.protocol.handle_command(clock(), Command::SocketBound { socket: number, local });
        }
        self.sockets.insert(number, sockets);
    }

    /// The same for those that are bound for both address families.
    pub(super) fn know_bound(&mut self, numbered: Numbered) {
        if self.binder.learns_local_addresses() {
            self.sources.add_socket(numbered.0, self.binder.sockets().port);
        }
        self.know_sockets(numbered);
    }

    /// Has the data threads receive from sockets that are known.
    fn receive_from(&mut self, number: u32, demultiplexer: Option<&Arc<dyn Demultiplexer>>) {
        if let Some(sockets) = self.sockets.get(&number) {
            self.workers.add_sockets(number, sockets, demultiplexer);
        }
    }

    /// Has them receive from those that are bound for both address families.
    pub(super) fn receive_from_bound(&mut self) {
        for number in self.binder.numbers() {
            self.listening.insert(number);
            match (self.binder.as_secondary(), self.sockets.get(&number)) {
                (Some(recognised), Some(sockets)) => {
                    self.workers.share_sockets(number, sockets, recognised);
                }
                _ => self.receive_from(number, None),
            }
        }
        self.workers.wake();
    }

    /// Sockets are used no more.
    pub(super) fn remove_sockets(&mut self, number: u32) {
        self.listening.remove(&number);
        self.sockets.remove(&number);
        self.sources.remove_socket(number);
        self.workers.leave_sockets(number);
    }

    /// Carries out what came by [`crate::Handle::bind_udp`].
    pub(super) fn bind_udp(&mut self, BindOrder { binding, answer }: BindOrder<P>) {
        let (before, numbers) = (self.binder.sockets(), self.binder.numbers());
        let outcome = self.bind_new(binding);
        answer(&mut self.protocol, clock(), outcome);
        self.pump();
        // The data threads know by now where the peers have moved to.
        if self.binder.sockets() != before {
            numbers.into_iter().for_each(|number| self.remove_sockets(number));
            self.workers.wake();
        }
    }

    fn bind_new(&mut self, binding: UdpBinding) -> io::Result<UdpSockets> {
        let present = self.binder.numbers();
        let present = present.iter().filter_map(|number| self.sockets.get(number)).flatten();
        let sockets: Vec<Arc<UdpSocket>> = present.map(Arc::clone).collect();
        let sources = Arc::clone(&self.sources);
        let new =
            self.binder.bind(binding, sockets.iter().map(|socket| &**socket), || sources.next_number())?;
        let is_new = !new.is_empty();
        new.into_iter().for_each(|numbered| self.know_bound(numbered));
        if is_new {
            self.receive_from_bound();
        }
        Ok(self.binder.sockets())
    }

    /// Whether a number is that of a socket, or of a local address of one.
    fn knows_socket(&self, number: u32) -> bool {
        self.sockets.contains_key(&number) || self.sockets.contains_key(&self.sources.socket_of(number))
    }

    /// Whether a number is that of a socket that stays, or of a local address of one.
    pub(super) fn is_listening(&self, number: u32) -> bool {
        self.listening.contains(&number) || self.listening.contains(&self.sources.socket_of(number))
    }

    /// A path as it is now: what came by sockets that were replaced meanwhile is answered by those in their place.
    pub(super) fn present_path(&self, path: Path) -> Path {
        match path {
            Path::Udp { socket, remote } if !self.knows_socket(socket) => {
                let present = self.binder.sockets().for_address(remote.ip());
                Path::Udp { socket: present.unwrap_or(socket), remote }
            }
            path => path,
        }
    }
}
