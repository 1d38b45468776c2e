//! What the driver's threads tell each other.

use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use adit_core::{ConnectionId, Notice, OpenFailure, Path};
use adit_dataplane::{EgressEvent, IngressEvent, StreamError};

use crate::opener::Opened;
use crate::udp::UdpSocket;

/// To the control thread.
#[derive(Debug)]
pub(crate) enum Mail {
    /// A control datagram.
    Datagram { path: Path, bytes: Vec<u8> },
    /// Word from the data plane.
    Notice(Notice),
    /// A thread is about to connect to one of these, and waits for a word that they can be reached.
    Reaching { addresses: Vec<IpAddr>, go: SyncSender<()> },
    /// The end of an attempt to reach a remote.
    Opened { remote: usize, result: Result<Opened, OpenFailure> },
    /// A connection is broken.
    Broken { connection: ConnectionId, reason: String },
    /// What came on a connection that no peer uses is not cut into records; it is read no more.
    NotFramed { connection: ConnectionId, error: StreamError },
    /// What a thread could do of what it must not.
    #[cfg(debug_assertions)]
    Probed(String),
    /// A thread failed.
    Died { thread: &'static str, why: String },
}

/// To the data thread.
#[derive(Debug)]
pub(crate) enum DataMail {
    /// For the half that seals.
    Egress(EgressEvent),
    /// For the half that opens.
    Ingress(IngressEvent),
    /// A control datagram for a connection.
    Control {
        connection: ConnectionId,
        datagram: Vec<u8>,
    },
    AddSocket(u32, Arc<UdpSocket>),
    RemoveSocket(u32),
    AddConnection {
        connection: ConnectionId,
        stream: TcpStream,
        path: Path,
    },
    /// Read no more, send what waits, then close.
    CloseConnection(ConnectionId),
    /// Try what must not be possible.
    #[cfg(debug_assertions)]
    Probe,
    /// Send what waits, then end.
    Stop,
}
