//! The channels to a helper process, one for each kind of work.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};

use adit_core::{IpNet, Report, TunnelSettings};
use adit_system::RouteWatch;

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
