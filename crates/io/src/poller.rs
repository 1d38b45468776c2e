//! epoll with tokens that name the descriptors that became ready.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::Timespec;

/// Events taken at once.
const BATCH: usize = 64;

/// The use of a descriptor to the thread that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// The thread's mailbox.
    Mail,
    /// The main TUN device.
    Tun,
    /// Another device of the tunnel, of that number.
    Device(u16),
    /// UDP socket, or socket for an IP protocol, of that number.
    Udp(u32),
    /// TCP connection of that number.
    Tcp(u32),
    /// TCP listener of that number.
    Listener(u32),
    /// Word of changed routes.
    Routes,
    /// Packets and datagrams that other workers hand over.
    Forwards,
    /// Word of changes of the main TUN device.
    DeviceChange,
    /// TCP connection of that number at a shared port of which it is not known yet whether it is of the protocol.
    Undecided(u32),
    /// Word of changed routes, for peers that are answered from the address that they write to.
    SourceRoutes,
}

impl Token {
    fn to_data(self) -> EventData {
        let (kind, number) = match self {
            Token::Mail => (0, 0),
            Token::Tun => (1, 0),
            Token::Udp(number) => (2, number),
            Token::Tcp(number) => (3, number),
            Token::Listener(number) => (4, number),
            Token::Routes => (5, 0),
            Token::Forwards => (6, 0),
            Token::DeviceChange => (7, 0),
            Token::Undecided(number) => (8, number),
            Token::SourceRoutes => (9, 0),
            Token::Device(number) => (10, u32::from(number)),
        };
        EventData::new_u64(kind << 32 | u64::from(number))
    }

    fn from_data(data: EventData) -> Option<Token> {
        let number = u32::try_from(data.u64() & u64::from(u32::MAX)).ok()?;
        match data.u64() >> 32 {
            0 => Some(Token::Mail),
            1 => Some(Token::Tun),
            2 => Some(Token::Udp(number)),
            3 => Some(Token::Tcp(number)),
            4 => Some(Token::Listener(number)),
            5 => Some(Token::Routes),
            6 => Some(Token::Forwards),
            7 => Some(Token::DeviceChange),
            8 => Some(Token::Undecided(number)),
            9 => Some(Token::SourceRoutes),
            10 => Some(Token::Device(u16::try_from(number).ok()?)),
            _ => None,
        }
    }
}

/// The events to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Something to read, or the other end closed.
    Read,
    /// Room to write.
    Write,
    /// Either.
    Both,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Interest::Read => EventFlags::IN,
            Interest::Write => EventFlags::OUT,
            Interest::Both => EventFlags::IN | EventFlags::OUT,
        }
    }
}

/// A descriptor that waits to be looked after. One in error or closed at the other end is both readable and
/// writable: trying tells more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    /// The descriptor's token.
    pub(crate) token: Token,
    /// A read will not wait.
    pub(crate) readable: bool,
    /// A write will not wait.
    pub(crate) writable: bool,
}

impl Ready {
    fn from_event(event: &Event) -> Option<Ready> {
        let flags = event.flags;
        let failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        Some(Ready {
            token: Token::from_data(event.data)?,
            readable: failed || flags.contains(EventFlags::IN),
            writable: failed || flags.contains(EventFlags::OUT),
        })
    }
}

/// A set of descriptors to wait for, level-triggered.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: [Event; BATCH],
}

impl Poller {
    pub(crate) fn new() -> io::Result<Poller> {
        let empty = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        Ok(Poller { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: [empty; BATCH] })
    }

    /// Starts to wait for a descriptor.
    pub(crate) fn add(&self, fd: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, token.to_data(), interest.flags())?)
    }

    /// Waits for something else of a descriptor that is in the set.
    pub(crate) fn change(&self, fd: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, token.to_data(), interest.flags())?)
    }

    /// Stops waiting for a descriptor; one that is not waited for is no error.
    pub(crate) fn remove(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits until something is ready or the time is over (`None`: for ever), and puts the ready descriptors
    /// into `ready`.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        match epoll::wait(&self.epoll, &mut self.events[..], timeout.as_ref()) {
            Ok(count) => ready.extend(self.events.iter().take(count).filter_map(Ready::from_event)),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
