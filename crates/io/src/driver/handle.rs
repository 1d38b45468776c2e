//! A running driver as the program sees it: its events, and the handle that sends it orders.

use std::fmt;
use std::sync::{Arc, mpsc};

use adit_access::Rules;
use adit_core::{Command, EventOf, Instant, Protocol, TunnelSettings};
use adit_dataplane::Snapshot;

use super::binding::{BindAnswer, BindOrder, UdpBinding};
use super::mail::Mail;
use super::status::IoStatus;
use crate::mailbox::Mailbox;

/// The host's and the protocol's adapter's side of a driver: gets its events, on the control thread. It must not block.
pub trait Observer<P: Protocol> {
    /// Everything but [`Event::Data`] and [`Event::Request`]. [`Event::Up`] comes after its settings were applied, and
    /// those that could not be applied come as [`Event::Report`] before it.
    ///
    /// [`Event::Data`]: adit_core::Event::Data
    /// [`Event::Request`]: adit_core::Event::Request
    /// [`Event::Report`]: adit_core::Event::Report
    /// [`Event::Up`]: adit_core::Event::Up
    fn event(&mut self, event: &EventOf<P>, tun_name: &str);

    /// A request of the protocol to its adapter. The answer goes to [`Handle::reply`].
    fn request(&mut self, request: P::Request, tun_name: &str);

    /// With [`crate::Execution::in_stages`], before [`Event::Up`]: the device has its addresses, and if the tunnel was not up
    /// before, routes and name servers are not set yet. False has both, and the event, wait for [`Handle::go_on`], which is to
    /// be called once for each time.
    ///
    /// [`Event::Up`]: adit_core::Event::Up
    fn device_ready(&mut self, settings: &TunnelSettings, tun_name: &str) -> bool {
        let _ = (settings, tun_name);
        true
    }

    /// Before [`Event::Down`]: the settings are about to be taken back. The driver waits until this returns.
    ///
    /// [`Event::Down`]: adit_core::Event::Down
    fn going_down(&mut self, tun_name: &str) {
        let _ = tun_name;
    }

    /// All is set up, and the settings of a server are applied; nothing was received yet. Rights that are needed no
    /// more can be given up here, once.
    ///
    /// # Errors
    /// Why the driver must not go on.
    fn started(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// A look at the protocol, the data plane's counters and the driver.
pub type Inspection<P> = Box<dyn FnOnce(&P, &Snapshot, &IoStatus) + Send>;

/// A change of the protocol's settings, at that time.
pub type Change<P> = Box<dyn FnOnce(&mut P, Instant) + Send>;

/// An order that a [`Handle`] sends to the control thread.
pub(crate) enum Order<P: Protocol> {
    Change(Change<P>),
    BindUdp(BindOrder<P>),
    Command(Command),
    Reply(P::Reply),
    Inspect(Inspection<P>),
    SetRules(Arc<Rules>),
    GoOn,
}

/// Speaks to a running driver, from any thread. Orders are carried out in the order in which they were given.
pub struct Handle<P: Protocol> {
    pub(super) orders: mpsc::Sender<Order<P>>,
    pub(super) mail: Mailbox<Mail>,
}

impl<P: Protocol> Clone for Handle<P> {
    fn clone(&self) -> Self {
        Handle { orders: self.orders.clone(), mail: self.mail.clone() }
    }
}

impl<P: Protocol> fmt::Debug for Handle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle")
    }
}

impl<P: Protocol> Handle<P> {
    /// Gives the protocol an order. False when the driver has ended.
    pub fn command(&self, command: Command) -> bool {
        self.send(Order::Command(command))
    }

    /// Gives the protocol an answer to one of its requests, or an order that only it knows. False when the driver has
    /// ended.
    pub fn reply(&self, reply: P::Reply) -> bool {
        self.send(Order::Reply(reply))
    }

    /// Calls `inspection` soon on the control thread. It is dropped without a call when the driver has ended, or
    /// ends first.
    pub fn inspect(&self, inspection: Inspection<P>) -> bool {
        self.send(Order::Inspect(inspection))
    }

    /// Has the data plane judge packets by these access rules from now on, in place of those before. They hold for the peers of
    /// all endpoints of the device. Packets that both let pass are not lost. False when the driver has ended.
    pub fn set_rules(&self, rules: Arc<Rules>) -> bool {
        self.send(Order::SetRules(rules))
    }

    /// Has routes and name servers set that wait for this ([`Observer::device_ready`]). False when the driver has ended.
    pub fn go_on(&self) -> bool {
        self.send(Order::GoOn)
    }

    /// Changes the protocol's settings soon, on the control thread. The change is dropped unmade when the driver has
    /// ended, or ends first; false if that is known already.
    pub fn change(&self, change: Change<P>) -> bool {
        self.send(Order::Change(change))
    }

    /// Binds UDP sockets for both address families in place of those that were bound so before, or marks those anew. All
    /// is done or nothing: on an error the sockets and the mark are as before, and the error has the system's number.
    ///
    /// `answer` is called on the control thread when the new sockets are known to the protocol
    /// ([`Command::SocketBound`]) and to the data threads. Paths on the old ones are of no use after it: the protocol
    /// has its peers move there. Datagrams that still come by the old ones are given to it as if by the new ones. The
    /// answer is dropped without a call when the driver has ended, or ends first; false if that is known already.
    ///
    /// Where another endpoint of the device listens at that port, its sockets are used, if the first bytes of this protocol's
    /// datagrams say whose they are ([`adit_dataplane::codec::Demultiplexer::recognises`]). They are not marked, do not
    /// learn their local addresses, and stay when that endpoint ends.
    ///
    /// After the process has given up its rights it works by the helper ([`crate::Driver::use_helper`]).
    pub fn bind_udp(&self, binding: UdpBinding, answer: BindAnswer<P>) -> bool {
        self.send(Order::BindUdp(BindOrder { binding, answer }))
    }

    fn send(&self, order: Order<P>) -> bool {
        let there = self.orders.send(order).is_ok();
        self.mail.wake();
        there
    }
}
