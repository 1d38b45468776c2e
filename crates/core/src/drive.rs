use std::convert::Infallible;

use crate::{EventOf, Path, Protocol};

/// The caller of a protocol that carries out its events and datagrams: the driver, the simulator, a test.
pub trait Drive {
    /// The protocol that is driven.
    type Protocol: Protocol + ?Sized;
    /// Why the wishes cannot be carried out any further.
    type Error;

    /// The protocol.
    fn protocol(&mut self) -> &mut Self::Protocol;

    /// Carries out an event. It may give the protocol a command at once.
    ///
    /// # Errors
    /// Stops the draining.
    fn event(&mut self, event: EventOf<Self::Protocol>) -> Result<(), Self::Error>;

    /// Sends a control datagram.
    ///
    /// # Errors
    /// Stops the draining.
    fn transmit(&mut self, path: Path, datagram: &[u8]) -> Result<(), Self::Error>;
}

/// Drains a protocol's events, then its datagrams, as [`Protocol`] says: to be called after every `handle_*` call, until
/// it is false. `buf` holds a datagram at a time.
///
/// # Errors
/// That of [`Drive::event`] or [`Drive::transmit`].
pub fn drive_once<D: Drive>(driven: &mut D, buf: &mut Vec<u8>) -> Result<bool, D::Error> {
    let mut busy = false;
    while let Some(event) = driven.protocol().poll_event() {
        busy = true;
        driven.event(event)?;
    }
    loop {
        buf.clear();
        let Some(path) = driven.protocol().poll_transmit(buf) else { return Ok(busy) };
        busy = true;
        driven.transmit(path, buf)?;
    }
}

/// Drains a protocol until it has neither events nor datagrams. Then [`Protocol::poll_timeout`] is to be read.
///
/// # Errors
/// That of [`Drive::event`] or [`Drive::transmit`].
pub fn drive<D: Drive>(driven: &mut D, buf: &mut Vec<u8>) -> Result<(), D::Error> {
    while drive_once(driven, buf)? {}
    Ok(())
}

/// [`drive`] for a caller without a type of its own, such as a test: `event` gets the protocol, which it may answer at
/// once, and `transmit` each datagram with the path that it is for.
pub fn drive_with<P: Protocol + ?Sized>(
    protocol: &mut P,
    event: impl FnMut(&mut P, EventOf<P>),
    transmit: impl FnMut(Path, &[u8]),
) {
    let Ok(()) = drive(&mut Closures { protocol, event, transmit }, &mut Vec::new());
}

struct Closures<'a, P: ?Sized, E, T> {
    protocol: &'a mut P,
    event: E,
    transmit: T,
}

impl<P, E, T> Drive for Closures<'_, P, E, T>
where
    P: Protocol + ?Sized,
    E: FnMut(&mut P, EventOf<P>),
    T: FnMut(Path, &[u8]),
{
    type Protocol = P;
    type Error = Infallible;

    fn protocol(&mut self) -> &mut P {
        self.protocol
    }

    fn event(&mut self, event: EventOf<P>) -> Result<(), Infallible> {
        (self.event)(self.protocol, event);
        Ok(())
    }

    fn transmit(&mut self, path: Path, datagram: &[u8]) -> Result<(), Infallible> {
        (self.transmit)(path, datagram);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use super::drive_with;
    use crate::{Command, Event, Instant, Notice, Path, PeerId, PeerInfo, Protocol, Rejected, TableUsage};

    const PATH: Path = Path::Udp {
        socket: 0,
        remote: std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1),
    };

    /// Opens a remote; once it is open, sends two datagrams on it, and closes it after the last.
    #[derive(Default)]
    struct OneShot {
        events: VecDeque<Event<(), (), ()>>,
        datagrams: VecDeque<&'static [u8]>,
    }

    impl Protocol for OneShot {
        type Request = ();
        type Reply = ();
        type Detail = ();
        type Codec = ();

        fn handle_datagram(&mut self, _: Instant, _: Path, _: &[u8]) -> Result<(), Rejected> {
            Err(Rejected::Unexpected("it only sends"))
        }

        fn handle_command(&mut self, _: Instant, command: Command) {
            if let Command::Opened { .. } = command {
                self.datagrams.extend([b"first".as_slice(), b"last"]);
            }
        }

        fn handle_reply(&mut self, _: Instant, (): ()) {}

        fn handle_notice(&mut self, _: Instant, _: Notice) {}

        fn handle_timeout(&mut self, _: Instant) {}

        fn poll_timeout(&self) -> Option<Instant> {
            None
        }

        fn poll_transmit(&mut self, buf: &mut Vec<u8>) -> Option<Path> {
            buf.extend_from_slice(self.datagrams.pop_front()?);
            if self.datagrams.is_empty() {
                self.events.push_back(Event::Close { path: PATH });
            }
            Some(PATH)
        }

        fn poll_event(&mut self) -> Option<Event<(), (), ()>> {
            self.events.pop_front()
        }

        fn peers(&self) -> Vec<(PeerId, PeerInfo<()>)> {
            Vec::new()
        }

        fn tables(&self) -> Vec<TableUsage> {
            Vec::new()
        }
    }

    #[test]
    fn events_come_before_datagrams_and_again_after_the_last() {
        let mut machine = OneShot::default();
        machine.events.push_back(Event::Open { remote: 0 });
        let seen = RefCell::new(Vec::new());
        drive_with(
            &mut machine,
            |machine, event| match event {
                Event::Open { remote } => {
                    seen.borrow_mut().push(format!("open {remote}"));
                    machine.handle_command(Instant::ORIGIN, Command::Opened { path: PATH });
                }
                Event::Close { .. } => seen.borrow_mut().push("close".to_owned()),
                other => panic!("{other:?}"),
            },
            |path, datagram| {
                assert_eq!(path, PATH);
                seen.borrow_mut().push(String::from_utf8_lossy(datagram).into_owned());
            },
        );
        assert_eq!(*seen.borrow(), ["open 0", "first", "last", "close"]);
    }
}
