//! TCP: listeners, and connections whose writes never block.

use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use adit_system::{SocketRouting, mark};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::config::Buffers;
use crate::udp::{is_any_v6, lacks_v6, normalised, set_buffers};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 512;

/// Unsent bytes that the kernel keeps for a connection: enough to keep a fast link busy between two wakeups,
/// and no more, for bytes that wait here make every packet behind them late.
const UNSENT: u32 = 256 * 1024;

/// An empty queue keeps this much memory.
const KEPT: usize = 128 * 1024;

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener(Socket);

impl Listener {
    /// Binds to `address`; `[::]` means IPv6 and IPv4, or IPv4 alone on a machine without IPv6.
    /// Connections inherit buffer sizes that `buffers` names, and how they are routed.
    pub(crate) fn bind(
        address: SocketAddr,
        buffers: Buffers,
        routing: SocketRouting,
    ) -> io::Result<Listener> {
        match Listener::bind_one(address, buffers, routing) {
            Err(error) if is_any_v6(address) && lacks_v6(&error) => {
                Listener::bind_one((Ipv4Addr::UNSPECIFIED, address.port()).into(), buffers, routing)
            }
            result => result,
        }
    }

    fn bind_one(address: SocketAddr, buffers: Buffers, routing: SocketRouting) -> io::Result<Listener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        mark::route(&socket, routing)?;
        socket.set_nonblocking(true)?;
        // So that a restart need not wait for the connections of the last run to time out.
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(!is_any_v6(address))?;
        }
        set_buffers(&socket, buffers);
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(Listener(socket))
    }

    /// The address that it is bound to.
    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()?.as_socket().ok_or_else(|| io::Error::other("not an IP socket"))
    }

    /// The next connection, without waiting.
    pub(crate) fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, address) = self.0.accept()?;
        let address = address.as_socket().ok_or_else(|| io::Error::other("not an IP connection"))?;
        Ok((prepare(socket.into())?, normalised(address)))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Makes a fresh connection ready for the driver.
pub(crate) fn prepare(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    // Without it latency under load is worse; nothing else changes.
    let _ = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT);
    Ok(stream)
}

/// Whether records were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The records are written or queued.
    Yes,
    /// The queue is full; none of them was taken.
    Full,
}

/// The writing half of a connection: bytes that the socket does not take wait here.
#[derive(Debug)]
pub(crate) struct Writer {
    stream: Arc<TcpStream>,
    queue: Vec<u8>,
    written: usize,
}

impl Writer {
    pub(crate) fn new(stream: Arc<TcpStream>) -> Writer {
        Writer { stream, queue: Vec::new(), written: 0 }
    }

    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len() - self.written
    }

    /// Writes whole records, or queues the bytes that the socket does not take. Refuses them all when more
    /// than `limit` bytes wait already.
    pub(crate) fn write(&mut self, records: &[u8], limit: usize) -> io::Result<Taken> {
        if self.waiting() > limit {
            return Ok(Taken::Full);
        }
        let mut rest = records;
        if self.waiting() == 0 {
            let count = write_some(&self.stream, rest)?;
            rest = rest.get(count..).unwrap_or_default();
        }
        self.queue.extend_from_slice(rest);
        Ok(Taken::Yes)
    }

    /// Writes the queue, as far as the socket takes it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.waiting() > 0 {
            let count = write_some(&self.stream, &self.queue[self.written..])?;
            self.written += count;
            if count == 0 {
                // Keeps the queue from growing at its front.
                self.queue.drain(..self.written);
                self.written = 0;
                return Ok(());
            }
        }
        self.written = 0;
        if self.queue.capacity() > KEPT {
            self.queue = Vec::new();
        }
        self.queue.clear();
        Ok(())
    }

    /// Ends the connection; bytes that were written are still delivered.
    pub(crate) fn close(&self) {
        // It fails when the connection is broken already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl AsFd for Writer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// One write; 0 when the socket is full.
fn write_some(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match stream.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn pair() -> (Writer, TcpStream) {
        let listener =
            Listener::bind("127.0.0.1:0".parse().unwrap(), Buffers::default(), SocketRouting::default())
                .unwrap();
        let reader = TcpStream::connect(listener.local_address().unwrap()).unwrap();
        let (stream, from) = loop {
            match listener.accept() {
                Ok(accepted) => break accepted,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        };
        assert_eq!(from, reader.local_addr().unwrap());
        (Writer::new(Arc::new(stream)), reader)
    }

    #[test]
    fn a_full_connection_queues_then_refuses_and_delivers_in_order() {
        let (mut writer, mut reader) = pair();
        let mut expected = Vec::new();
        for number in 0_u32.. {
            let records: Vec<u8> = number.to_be_bytes().repeat(4096);
            match writer.write(&records, 100_000).unwrap() {
                Taken::Yes => expected.extend_from_slice(&records),
                Taken::Full => break,
            }
        }
        assert!(writer.waiting() > 100_000 && writer.waiting() < 200_000);
        let mut arrived = vec![0; expected.len()];
        let mut filled = 0;
        while filled < arrived.len() {
            filled += reader.read(&mut arrived[filled..]).unwrap();
            writer.flush().unwrap();
        }
        assert!(arrived == expected);
        assert_eq!(writer.waiting(), 0);
    }

    #[test]
    fn writing_to_a_closed_connection_fails() {
        let (mut writer, reader) = pair();
        drop(reader);
        let broken = (0..5000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            writer.write(&[0; 1000], 1 << 20).is_err()
        });
        assert!(broken);
    }
}
