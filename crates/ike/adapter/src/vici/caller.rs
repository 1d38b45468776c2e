//! The program at the other end of a connection.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adit_ike_vici::{Message, Packet};
use rustix::net::{RecvFlags, recv};

/// A program at the other end of a connection. Copies speak to the same program, from any thread.
#[derive(Clone)]
pub(super) struct Caller(Arc<Shared>);

struct Shared {
    stream: UnixStream,
    /// Held while a packet is written, so that packets do not mix.
    writing: Mutex<()>,
    /// The events that the program has registered for.
    registered: Mutex<BTreeSet<String>>,
}

impl Caller {
    /// The program at the other end of that connection.
    ///
    /// # Errors
    /// There are too few descriptors.
    pub(super) fn of(stream: &UnixStream) -> io::Result<Self> {
        let stream = stream.try_clone()?;
        Ok(Caller(Arc::new(Shared { stream, writing: Mutex::default(), registered: Mutex::default() })))
    }

    /// Sends a packet. A program that does not take it within the time of the socket is left.
    ///
    /// # Errors
    /// The program has gone, or reads too slowly. The connection is of no more use.
    pub(super) fn send(&self, packet: &Packet) -> io::Result<()> {
        let bytes = packet.encode().map_err(io::Error::other)?;
        let guard = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stream = &self.0.stream;
        let sent = stream.write_all(&bytes);
        drop(guard);
        sent.inspect_err(|_| self.leave())
    }

    /// Sends an event, if the program has registered for it.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(super) fn event(&self, name: &str, message: Message) -> io::Result<()> {
        match self.registered().contains(name) {
            true => self.send(&Packet::Event { name: name.to_owned(), message }),
            false => Ok(()),
        }
    }

    /// The events that the program has registered for.
    pub(super) fn registered(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the program has closed its end.
    pub(super) fn has_gone(&self) -> bool {
        let mut byte = [0; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match recv(&self.0.stream, &mut byte, flags) {
            Ok((_, len)) => len == 0,
            Err(error) => error != rustix::io::Errno::AGAIN,
        }
    }

    /// Ends the connection.
    pub(super) fn leave(&self) {
        let _ = self.0.stream.shutdown(std::net::Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_program_that_reads_nothing_is_left() {
        let (own, _other) = UnixStream::pair().unwrap();
        own.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
        let caller = Caller::of(&own).unwrap();
        caller.registered().insert("log".to_owned());
        let line = || Message::new().with("msg", "a".repeat(10_000));
        let sent = (0..1000).take_while(|_| caller.event("log", line()).is_ok()).count();
        assert!((1..1000).contains(&sent), "{sent} events");
        assert!(caller.event("log", line()).is_err(), "the connection has ended");
    }

    #[test]
    fn a_program_gets_the_events_that_it_has_registered_for_and_is_seen_to_go() {
        let (own, mut other) = UnixStream::pair().unwrap();
        let caller = Caller::of(&own).unwrap();
        caller.event("list-sa", Message::new()).unwrap();
        caller.registered().insert("list-sa".to_owned());
        caller.event("list-sa", Message::new()).unwrap();
        caller.event("log", Message::new()).unwrap();
        let mut bytes = [0; 64];
        let len = other.read(&mut bytes).unwrap();
        assert_eq!(bytes[..len], *b"\0\0\0\x09\x07\x07list-sa");
        assert!(!caller.has_gone());
        drop(other);
        assert!(caller.has_gone());
    }
}
