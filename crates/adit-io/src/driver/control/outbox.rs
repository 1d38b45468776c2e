//! Datagrams of the control thread that leave together: while datagrams come by the ten thousands and each is answered,
//! one system call sends the answers of a turn.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use adit_core::Path;

use crate::udp::UdpSocket;

/// Datagrams that leave at once: as many as one system call takes.
const FULL: usize = crate::sys::SEND_BATCH;

/// What waits to be sent.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    gathers: bool,
    bytes: Vec<u8>,
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    socket: Arc<UdpSocket>,
    path: Path,
    within: Range<usize>,
}

/// A datagram that waits.
pub(super) struct Gathered<'a> {
    pub(super) socket: &'a UdpSocket,
    pub(super) path: Path,
    pub(super) bytes: &'a [u8],
}

impl Outbox {
    /// Datagrams are gathered from now on, or sent at once.
    pub(super) fn gather(&mut self, gathers: bool) {
        self.gathers = gathers;
    }

    /// Whether datagrams are gathered.
    pub(super) fn gathers(&self) -> bool {
        self.gathers
    }

    /// One more, which is to leave by that socket. True when it is time to send them.
    pub(super) fn push(&mut self, socket: Arc<UdpSocket>, path: Path, datagram: &[u8]) -> bool {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(datagram);
        self.waiting.push(Waiting { socket, path, within: start..self.bytes.len() });
        self.waiting.len() >= FULL
    }

    /// The one with that number.
    pub(super) fn get(&self, number: usize) -> Option<Gathered<'_>> {
        let Waiting { socket, path, within } = self.waiting.get(number)?;
        Some(Gathered { socket, path: *path, bytes: self.bytes.get(within.clone())? })
    }

    /// From that number on, those that leave by one socket, and where to.
    pub(super) fn by_socket_of(&self, number: usize) -> impl Iterator<Item = (&[u8], SocketAddr)> {
        let rest = self.waiting.get(number..).unwrap_or_default();
        let first = rest.first().map(|first| &first.socket);
        rest.iter()
            .take_while(move |one| first.is_some_and(|first| Arc::ptr_eq(first, &one.socket)))
            .filter_map(|one| Some((self.bytes.get(one.within.clone())?, one.path.remote())))
    }

    /// All were sent.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.waiting.clear();
    }
}
