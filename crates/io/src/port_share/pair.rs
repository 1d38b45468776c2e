//! Two connections: the bytes of each go to the other.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use crate::poller::Interest;

/// Bytes of a connection that wait at most until the other connection takes them.
const BUFFER: usize = 16 << 10;
/// Reads of one connection before others have their turn.
const TURNS: usize = 4;

/// One of the two connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The one that was accepted.
    Client,
    /// The one to the other server.
    Server,
}

/// The result of a step of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The other server has not accepted yet.
    Opening,
    /// The other server cannot be reached at that address.
    NotOpened,
    /// Both are open.
    Open,
    /// Both are done, or one failed.
    Over,
}

struct End {
    stream: TcpStream,
    /// The bytes that it brought and the other end has not taken.
    brought: Vec<u8>,
    /// The connection brings no more bytes.
    ended: bool,
    /// The end of its bytes was passed on to the other connection.
    is_passed_on: bool,
    watched: Option<Interest>,
}

impl End {
    fn new(stream: TcpStream, watched: Option<Interest>) -> io::Result<End> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(End { stream, brought: Vec::new(), ended: false, is_passed_on: false, watched })
    }

    fn is_done(&self) -> bool {
        self.ended && self.brought.is_empty()
    }

    /// The other takes nothing any more.
    fn give_up(&mut self) {
        self.brought.clear();
        (self.ended, self.is_passed_on) = (true, true);
    }
}

/// The operation that failed: to read from one connection, or to write to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    Read,
    Write,
}

/// Both connections.
pub(super) struct Pair {
    client: End,
    server: End,
    is_open: bool,
}

impl Pair {
    /// A connection that was accepted, and one to the other server that has begun, and is to be watched until it is writable.
    pub(super) fn new(client: TcpStream, server: TcpStream) -> io::Result<Pair> {
        // Bytes that the client sends meanwhile wait in its socket.
        let client = End::new(client, None)?;
        Ok(Pair { client, server: End::new(server, Some(Interest::Write))?, is_open: false })
    }

    /// Another connection to the other server in place of the one that was not opened.
    pub(super) fn replace_server(&mut self, server: TcpStream) -> io::Result<()> {
        self.server = End::new(server, Some(Interest::Write))?;
        Ok(())
    }

    /// The connection to the other server.
    pub(super) fn server(&self) -> &TcpStream {
        &self.server.stream
    }

    /// Moves the bytes that are there, after something happened at that side.
    pub(super) fn serve(&mut self, side: Side, writable: bool) -> Progress {
        if !self.is_open {
            match (side, self.server.stream.take_error()) {
                (_, Ok(Some(_)) | Err(_)) => return Progress::NotOpened,
                (Side::Server, Ok(None)) if writable => self.is_open = true,
                _ => return Progress::Opening,
            }
        }
        // The server's direction goes first: where the server has closed its connection after its last bytes, to write to it
        // fails, and the client must have got those bytes before.
        let to_client = carry(&mut self.server, &mut self.client);
        let to_server = carry(&mut self.client, &mut self.server);
        if to_server == Err(Failed::Write) {
            // It may have closed since: its last bytes are still to be read.
            self.client.give_up();
        }
        let failed = to_client.is_err() || to_server == Err(Failed::Read);
        match failed || (self.client.is_done() && self.server.is_done()) {
            true => Progress::Over,
            false => Progress::Open,
        }
    }

    /// Each connection with the events that were waited for, and those to wait for from now on: the client's first.
    pub(super) fn interests(&mut self) -> [(&TcpStream, Option<Interest>, Option<Interest>); 2] {
        let client = wanted(&self.client, &self.server);
        let server = wanted(&self.server, &self.client);
        let before = (
            std::mem::replace(&mut self.client.watched, client),
            std::mem::replace(&mut self.server.watched, server),
        );
        [(&self.client.stream, before.0, client), (&self.server.stream, before.1, server)]
    }
}

/// The events that an end waits for. Nothing is read from it while the other end has not taken the bytes that
/// it brought.
fn wanted(own: &End, other: &End) -> Option<Interest> {
    match (!own.ended && own.brought.is_empty(), !other.brought.is_empty()) {
        (true, true) => Some(Interest::Both),
        (true, false) => Some(Interest::Read),
        (false, true) => Some(Interest::Write),
        (false, false) => None,
    }
}

/// Reads from one and writes to the other, until one has nothing or the other no room.
fn carry(from: &mut End, to: &mut End) -> Result<(), Failed> {
    for _ in 0..TURNS {
        if from.brought.is_empty() && !from.ended {
            let mut buffer = [0; BUFFER];
            match from.stream.read(&mut buffer) {
                Ok(0) => from.ended = true,
                Ok(count) => from.brought.extend_from_slice(buffer.get(..count).unwrap_or_default()),
                Err(error) if is_for_later(&error) => return Ok(()),
                Err(_) => return Err(Failed::Read),
            }
        }
        if !from.brought.is_empty() {
            match to.stream.write(&from.brought) {
                Ok(count) => drop(from.brought.drain(..count)),
                Err(error) if is_for_later(&error) => return Ok(()),
                Err(_) => return Err(Failed::Write),
            }
        }
        if from.is_done() {
            if !std::mem::replace(&mut from.is_passed_on, true) {
                // The other may have closed it already.
                let _ = to.stream.shutdown(Shutdown::Write);
            }
            return Ok(());
        }
    }
    Ok(())
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
