//! Datagrams of the control thread that leave together: while datagrams come by the ten thousands and each is answered,
//! one system call sends the answers of a turn.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use adit_core::Path;

use crate::udp::{PinnedSource, UdpSocket};

/// Datagrams that leave at once: as many as one system call takes.
const FULL: usize = adit_sys::SEND_BATCH;

/// The control datagrams that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct TransmitQueue {
    gathers: bool,
    bytes: Vec<u8>,
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    socket: Arc<UdpSocket>,
    source: Option<Arc<PinnedSource>>,
    path: Path,
    within: Range<usize>,
}

impl Waiting {
    /// Whether it leaves by the same socket and from the same address, so that one system call takes both.
    fn leaves_with(&self, other: &Waiting) -> bool {
        let sources = (self.source.as_ref().map(Arc::as_ptr), other.source.as_ref().map(Arc::as_ptr));
        Arc::ptr_eq(&self.socket, &other.socket) && sources.0 == sources.1
    }
}

/// A datagram that waits.
pub(super) struct Gathered<'a> {
    pub(super) socket: &'a UdpSocket,
    /// The address that it leaves from; `None`: the system chooses.
    pub(super) source: Option<&'a PinnedSource>,
    pub(super) path: Path,
    pub(super) bytes: &'a [u8],
}

impl TransmitQueue {
    /// Datagrams are gathered from now on, or sent at once.
    pub(super) fn gather(&mut self, gathers: bool) {
        self.gathers = gathers;
    }

    /// Whether datagrams are gathered.
    pub(super) fn gathers(&self) -> bool {
        self.gathers
    }

    /// One more, which is to leave by that socket from that address. True when it is time to send them.
    pub(super) fn push(
        &mut self,
        socket: Arc<UdpSocket>,
        source: Option<Arc<PinnedSource>>,
        path: Path,
        datagram: &[u8],
    ) -> bool {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(datagram);
        self.waiting.push(Waiting { socket, source, path, within: start..self.bytes.len() });
        self.waiting.len() >= FULL
    }

    /// The one with that number.
    pub(super) fn get(&self, number: usize) -> Option<Gathered<'_>> {
        let Waiting { socket, source, path, within } = self.waiting.get(number)?;
        let bytes = self.bytes.get(within.clone())?;
        Some(Gathered { socket, source: source.as_deref(), path: *path, bytes })
    }

    /// The datagrams from that number on that leave by one socket from one address, and their destinations.
    pub(super) fn together_with(&self, number: usize) -> impl Iterator<Item = (&[u8], SocketAddr)> {
        let rest = self.waiting.get(number..).unwrap_or_default();
        let first = rest.first();
        rest.iter()
            .take_while(move |one| first.is_some_and(|first| first.leaves_with(one)))
            .filter_map(|one| Some((self.bytes.get(one.within.clone())?, one.path.remote())))
    }

    /// All were sent.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use adit_sys::LocalAddress;

    use super::*;
    use crate::udp::UdpOptions;

    #[test]
    fn what_leaves_from_one_address_leaves_together() {
        let socket = || {
            let any = "127.0.0.1:0".parse().unwrap();
            let (buffers, routing) = (Default::default(), Default::default());
            let options = UdpOptions { buffers, gso: false, gro: false, routing };
            Arc::new(UdpSocket::bind(any, &options).unwrap())
        };
        let source = || {
            let address = LocalAddress { ip: "127.0.0.1".parse().unwrap(), device: 0 };
            Some(Arc::new(PinnedSource::new(address)))
        };
        let (sockets, sources) = ([socket(), socket()], [source(), source(), None]);
        let mut transmit_queue = TransmitQueue::default();
        for (socket, source) in [(0, 0), (0, 0), (0, 1), (0, 2), (0, 2), (1, 2)] {
            let path = Path::Udp { socket: 0, remote: ([192, 0, 2, 1], 7).into() };
            let is_full = transmit_queue.push(
                Arc::clone(&sockets[socket]),
                sources[source].clone(),
                path,
                &[socket as u8],
            );
            assert!(!is_full);
        }
        let together = [0, 1, 2, 3, 4, 5, 6].map(|number| transmit_queue.together_with(number).count());
        assert_eq!(together, [2, 1, 1, 2, 1, 1, 0]);
        assert_eq!(transmit_queue.get(5).map(|last| last.bytes), Some(&[1][..]));
        transmit_queue.clear();
        assert!(transmit_queue.get(0).is_none());
    }
}
