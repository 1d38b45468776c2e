//! A TCP connection, perhaps with TLS around its bytes.

use std::io::{self, Read as _};
use std::net::TcpStream;
use std::sync::Arc;

use adit_core::{ConnectionId, Instant, Path, Preamble};

use crate::driver::ids::EndpointId;
use crate::poller::{Interest, Poller, Token};
use crate::tcp::{Taken, Writer};
use crate::tls::{TlsClient, TlsStream};

/// A connection, both directions.
pub(in crate::driver) struct Connection {
    /// The endpoint that it belongs to.
    pub(in crate::driver) endpoint: EndpointId,
    pub(super) stream: Arc<TcpStream>,
    pub(in crate::driver) path: Path,
    /// The start of a record, or of the preamble, whose end has not come yet.
    pub(in crate::driver) partial: Vec<u8>,
    /// The preamble before the records, until it is complete.
    pub(super) preamble: Option<Arc<dyn Preamble>>,
    /// Nothing is read any more when it is closing or the other end is gone.
    pub(in crate::driver) reading: bool,
    writer: Writer,
    tls: Option<TlsStream>,
    /// The events that the poller waits for.
    watched: Option<Interest>,
    /// When it is closed even if something still waits.
    pub(super) closing: Option<Instant>,
    pub(super) broken: Option<io::Error>,
}

impl Connection {
    pub(super) fn new(endpoint: EndpointId, stream: TcpStream, path: Path) -> Self {
        let stream = Arc::new(stream);
        let writer = Writer::new(Arc::clone(&stream));
        Connection {
            endpoint,
            stream,
            path,
            partial: Vec::new(),
            preamble: None,
            reading: true,
            writer,
            tls: None,
            watched: None,
            closing: None,
            broken: None,
        }
    }

    /// Begins TLS. Bytes that are written from now on wait until the server has proved who it is.
    pub(super) fn begin_tls(&mut self, client: &TlsClient) -> io::Result<()> {
        self.tls = Some(client.begin()?);
        self.send_sealed()
    }

    /// Reads the bytes that are there; 0: the other end has closed.
    pub(super) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut socket = &*self.stream;
        let Some(tls) = &mut self.tls else { return socket.read(room) };
        let result = tls.read(&mut socket, room);
        // TLS has answers of its own, also to records that it refuses.
        let sent = self.send_sealed();
        let count = result?;
        sent?;
        Ok(count)
    }

    /// Writes records, if no more than `limit` bytes wait.
    pub(super) fn write(&mut self, records: &[u8], limit: usize) -> io::Result<Taken> {
        let Some(tls) = &mut self.tls else { return self.writer.write(records, limit) };
        // Encrypted records cannot be dropped any more.
        if self.writer.waiting() > limit {
            return Ok(Taken::Full);
        }
        tls.seal(records)?;
        self.send_sealed()?;
        Ok(Taken::Yes)
    }

    /// Writes the queue, as far as the socket takes it.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// Bytes that wait for the socket.
    pub(super) fn waiting(&self) -> usize {
        self.writer.waiting()
    }

    /// Writes nothing any more but the queue, until then at the latest.
    pub(super) fn begin_to_close(&mut self, until: Instant) {
        if self.closing.replace(until).is_none()
            && let Some(tls) = &mut self.tls
        {
            tls.close();
            // It fails when the connection is broken already.
            let _ = self.send_sealed();
        }
    }

    /// Ends the connection; bytes that were written are still delivered.
    pub(super) fn shut_down(&self) {
        self.writer.close();
    }

    /// Sends the records that TLS has encrypted.
    fn send_sealed(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let sealed = tls.take_sealed()?;
        if !sealed.is_empty() {
            self.writer.write(&sealed, usize::MAX)?;
        }
        Ok(())
    }

    fn interest(&self) -> Option<Interest> {
        match (self.reading, self.waiting() > 0) {
            (true, true) => Some(Interest::Both),
            (true, false) => Some(Interest::Read),
            (false, true) => Some(Interest::Write),
            (false, false) => None,
        }
    }

    /// Brings the poller's set in line with the events that the connection waits for. `Err`: it cannot be
    /// waited for.
    pub(super) fn watch(&mut self, id: ConnectionId, poller: &Poller) -> io::Result<()> {
        let wanted = self.interest();
        if wanted == self.watched {
            return Ok(());
        }
        match (self.watched, wanted) {
            (None, Some(interest)) => poller.add(&*self.stream, Token::Tcp(id.0), interest)?,
            (Some(_), Some(interest)) => poller.change(&*self.stream, Token::Tcp(id.0), interest)?,
            (_, None) => poller.remove(&*self.stream),
        }
        self.watched = wanted;
        Ok(())
    }
}
