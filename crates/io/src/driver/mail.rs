//! The messages between the driver's threads.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use adit_core::{ConnectionId, DeviceId, Notice, OpenFailure, Path, Preamble};
use adit_dataplane::codec::Demultiplexer;
use adit_dataplane::{EgressEvent, IngressEvent};

use super::ids::EndpointId;
use super::secondary_endpoints::SecondaryEndpoint;
use super::status::LossCounters;
use crate::mailbox::Mailbox;
use crate::opener::Opened;
use crate::tls::TlsClient;
use crate::tun::Tun;
use crate::udp::UdpSocket;

/// Mail to the control thread.
#[derive(Debug)]
pub(crate) enum Mail {
    /// A control datagram.
    Datagram { path: Path, bytes: Vec<u8> },
    /// Word from the data plane.
    Notice(Notice),
    /// A datagram came to that address of ours, which has that number.
    AddressLearnt { number: u32, local: SocketAddr },
    /// A thread is about to connect to one of these, and waits for a word that they can be reached.
    Reaching { addresses: Vec<IpAddr>, go: SyncSender<()> },
    /// The end of an attempt to reach a remote.
    Opened { remote: usize, result: Result<Opened, OpenFailure> },
    /// An address of a remote that has others refuses datagrams (ICMP).
    Refused { remote: usize, address: SocketAddr, why: String },
    /// A connection is broken.
    Broken { connection: ConnectionId, reason: String },
    /// The preamble of a connection is complete.
    Prepared(ConnectionId),
    /// The first bytes of a connection that no peer uses are no preamble, or cannot be cut into records; it is read no
    /// more.
    NotFramed { connection: ConnectionId, why: String },
    /// The TUN device is gone. Each data thread says so.
    DeviceDeleted,
    /// Another endpoint evicted peers from the pool of the tunnel.
    LeasesMoved,
    /// The results of a thread's attempts at operations that it must not be able to do.
    #[cfg(debug_assertions)]
    Probed(String),
    /// A thread failed.
    Died { thread: &'static str, why: String },
}

/// An endpoint, as a data thread knows it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Its control thread.
    pub(crate) control: Mailbox<Mail>,
    /// Messages that its control thread could not take.
    pub(crate) losses: Arc<LossCounters>,
    /// Tells apart the datagrams that arrive at its sockets. `None`: the data plane's own does.
    pub(crate) demultiplexer: Option<Arc<dyn Demultiplexer>>,
    /// Senders of packets that cannot be carried get an answer.
    pub(crate) answers_unreachable: bool,
}

/// Mail to the data thread.
#[derive(Debug)]
pub(crate) enum DataMail {
    /// An order for the half that seals.
    Egress(EgressEvent),
    /// An order for the half that opens.
    Ingress(IngressEvent),
    /// A control datagram for a connection.
    Control { connection: ConnectionId, datagram: Vec<u8> },
    /// An endpoint, before its sockets and peers.
    AddEndpoint(EndpointId, Member),
    /// Close the endpoint's sockets, and its connections after their queues were sent.
    RemoveEndpoint(EndpointId),
    /// A device of the endpoint beside the main one.
    AddDevice { endpoint: EndpointId, id: DeviceId, tun: Arc<Tun> },
    AddSocket {
        endpoint: EndpointId,
        number: u32,
        socket: Arc<UdpSocket>,
        /// `None`: that of the endpoint.
        demultiplexer: Option<Arc<dyn Demultiplexer>>,
    },
    /// A socket that another endpoint has bound.
    ShareSocket { number: u32, socket: Arc<UdpSocket>, secondary: SecondaryEndpoint },
    /// The endpoint uses it no more.
    LeaveSocket { endpoint: EndpointId, number: u32 },
    AddConnection {
        endpoint: EndpointId,
        connection: ConnectionId,
        stream: TcpStream,
        path: Path,
        /// TLS, around all that passes.
        tls: Option<TlsClient>,
        preamble: Option<Arc<dyn Preamble>>,
    },
    /// Read no more, send the queue, then close.
    CloseConnection(ConnectionId),
    /// Try operations that must not be possible, and send the results to that endpoint.
    #[cfg(debug_assertions)]
    Probe(EndpointId),
    /// Send the queues, then end.
    Stop,
}
