//! A helper process, from which the driver requests operations that take rights: the driver's own process gives its
//! rights up before it receives the first datagram. The crate that starts such processes implements these traits.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};

use adit_core::{IpNet, OpenFailure, Report, TunnelSettings};
use adit_system::{Network, RouteWatch};

use crate::config::Remote;
use crate::opener::{Opened, Refusals};
use crate::port_share::PortShare;
use crate::udp::UdpOptions;

/// The work that a helper has to do for a driver ([`crate::Driver::helper_needs`]).
#[derive(Clone, Debug)]
pub struct HelperNeeds {
    /// Set the TUN device up; `None` if that is done, or there is none.
    pub network: Option<Network>,
    /// Reach these, in the driver's order.
    pub remotes: Vec<Remote>,
    /// The properties of the UDP sockets that it makes.
    pub udp: UdpOptions,
    /// Bind UDP sockets to any port of all addresses, and mark them.
    pub binds_udp: bool,
    /// Resolve names while a firewall holds back unmarked datagrams.
    pub kill_switch: bool,
    /// Forward connections to the other server at a shared port.
    pub port_share: Option<PortShare>,
    /// Bind sockets to ports below 1024.
    pub low_ports: bool,
}

/// An attempt to reach a remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The remote's index into [`crate::DriverConfig::remotes`].
    pub remote: usize,
    /// How many attempts at it there were before.
    pub number: usize,
}

/// A path to a remote, or why there is none.
pub type OpenOutcome = (Result<Opened, OpenFailure>, Refusals);

/// A helper process. Each channel is for one kind of work, and waits for no other.
pub trait DriverHelper: Debug + Send + Sync {
    /// A channel to set the system's network up.
    ///
    /// # Errors
    /// When the helper is gone.
    fn network(&self) -> io::Result<Box<dyn NetworkChannel>>;

    /// A channel to bind and mark UDP sockets.
    ///
    /// # Errors
    /// When the helper is gone.
    fn sockets(&self) -> io::Result<Box<dyn SocketChannel>>;

    /// A channel to forward connections at a shared port.
    ///
    /// # Errors
    /// When the helper is gone.
    fn forwarding(&self) -> io::Result<Box<dyn ForwardChannel>>;

    /// Resolves the name of a remote and opens a path to it. `prepare` gets the addresses before anything is sent there.
    ///
    /// # Errors
    /// When the helper is gone; that the remote cannot be reached is an outcome.
    fn open(
        &self,
        attempt: Attempt,
        udp: &UdpOptions,
        prepare: &mut dyn FnMut(Vec<IpAddr>),
    ) -> io::Result<OpenOutcome>;
}

/// The system's network, set up by a helper ([`adit_system::SystemSettings`]).
pub trait NetworkChannel: Debug + Send {
    /// Makes the system match the settings. The reports are the failures.
    ///
    /// # Errors
    /// When the helper is gone.
    fn apply(&mut self, settings: &TunnelSettings) -> io::Result<Vec<Report>>;

    /// Lets these addresses be reached beside the tunnel.
    ///
    /// # Errors
    /// When the helper is gone.
    fn bypass(&mut self, addresses: &[IpAddr]) -> io::Result<()>;

    /// Adapts the settings to a change of the network.
    ///
    /// # Errors
    /// When the helper is gone.
    fn follow(&mut self) -> io::Result<()>;

    /// Undoes the changes of the system.
    ///
    /// # Errors
    /// When the helper is gone, which has done so.
    fn undo(&mut self) -> io::Result<()>;

    /// Whether the applied settings change with the network.
    fn depends_on_network(&self) -> bool;

    /// Whether all traffic goes into the tunnel, and is held up while a route is missing.
    fn takes_all(&self) -> bool;

    /// The addresses of the settings applied last that the device could not get.
    fn missing_addresses(&self) -> &[IpNet];

    /// The setting that the tunnel cannot be without and has not got, and why.
    fn lacks(&self) -> Option<String>;

    /// Watches for changes of the network.
    ///
    /// # Errors
    /// When the helper is gone, or has no watch.
    fn watch(&mut self) -> io::Result<RouteWatch>;
}

/// UDP sockets that a helper binds and marks.
pub trait SocketChannel: Debug + Send {
    /// A socket that is bound to that port of all addresses of a family, and to no address of the other. A `shared` one leaves
    /// the port to further ones (SO_REUSEPORT).
    ///
    /// # Errors
    /// The system's refusal, with its number; or the helper is gone.
    fn bind(&self, port: u16, v6: bool, shared: bool) -> io::Result<OwnedFd>;

    /// Marks the datagrams that a socket sends from now on.
    ///
    /// # Errors
    /// The system's refusal, with its number; or the helper is gone.
    fn mark(&self, socket: BorrowedFd<'_>, mark: u32) -> io::Result<()>;
}

/// Connections at a shared port that a helper forwards to the other server.
pub trait ForwardChannel: Debug + Send {
    /// Hands over a connection that came from `source`.
    ///
    /// # Errors
    /// When the helper is gone.
    fn forward(&self, connection: BorrowedFd<'_>, source: SocketAddr) -> io::Result<()>;
}
