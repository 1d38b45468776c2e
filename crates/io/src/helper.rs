//! A helper process, from which the driver requests operations that take rights: the driver's own process gives its
//! rights up before it receives the first datagram. The crate that starts such processes implements these traits.

use std::fmt::Debug;
use std::io;
use std::net::IpAddr;

use adit_core::OpenFailure;
use adit_system::Network;

use crate::config::Remote;
use crate::helper_channels::{ForwardChannel, NetworkChannel, SocketChannel};
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
