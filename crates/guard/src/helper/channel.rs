//! Messages and descriptors over a socket between two processes.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

/// Longest message in bytes: a revocation list may be so large, with some room.
const MAX_MESSAGE: usize = (64 << 20) + 4096;

/// One end of a connection. A message is its length (4 bytes, little-endian) and its content in postcard's form; a
/// descriptor travels with the length.
#[derive(Debug)]
pub(super) struct Channel(UnixStream);

impl Channel {
    /// Two ends.
    pub(super) fn pair() -> io::Result<(Channel, Channel)> {
        let (one, other) = UnixStream::pair()?;
        Ok((Channel(one), Channel(other)))
    }

    #[cfg(test)]
    fn new(stream: UnixStream) -> Self {
        Channel(stream)
    }

    /// Sends a message.
    pub(super) fn send(&self, message: &impl Serialize) -> io::Result<()> {
        self.send_with(message, None)
    }

    /// Sends a message and a descriptor, of which the other end gets a copy.
    pub(super) fn send_with(
        &self,
        message: &impl Serialize,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        // In one piece: a buffer that grows would leave copies of secrets behind.
        let size = postcard::experimental::serialized_size(message).map_err(io::Error::other)?;
        let length = u32::try_from(size).ok().filter(|_| size <= MAX_MESSAGE);
        let length = length.ok_or_else(|| io::Error::other("too long a message"))?;
        let mut body = Zeroizing::new(vec![0; size]);
        postcard::to_slice(message, &mut body).map_err(io::Error::other)?;
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.as_slice();
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let head = length.to_le_bytes();
        let sent = loop {
            match sendmsg(&self.0, &[IoSlice::new(&head)], &mut control, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                result => break result?,
            }
        };
        let mut stream = &self.0;
        stream.write_all(head.get(sent..).unwrap_or_default())?;
        stream.write_all(&body)
    }

    /// Waits for a message. [`io::ErrorKind::UnexpectedEof`]: the other end is closed.
    pub(super) fn receive<T: DeserializeOwned>(&self) -> io::Result<(T, Option<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut head = [0; 4];
        let received = loop {
            let mut pieces = [IoSliceMut::new(&mut head)];
            match recvmsg(&self.0, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                result => break result?.bytes,
            }
        };
        let mut descriptor = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                descriptor = descriptors.last();
            }
        }
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut stream = &self.0;
        stream.read_exact(head.get_mut(received..).unwrap_or_default())?;
        let length = usize::try_from(u32::from_le_bytes(head)).unwrap_or(usize::MAX);
        if length > MAX_MESSAGE {
            return Err(io::Error::other("too long a message"));
        }
        let mut body = Zeroizing::new(vec![0; length]);
        stream.read_exact(&mut body)?;
        match postcard::take_from_bytes(&body).map_err(io::Error::other)? {
            (message, []) => Ok((message, descriptor)),
            (_, _) => Err(io::Error::other("bytes follow the message")),
        }
    }

    /// Sends a request and waits for its answer.
    pub(super) fn call<T: DeserializeOwned>(&self, request: &impl Serialize) -> io::Result<T> {
        self.send(request)?;
        Ok(self.receive()?.0)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Channel {
    fn from(descriptor: OwnedFd) -> Self {
        Channel(descriptor.into())
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_descriptors_arrive_as_they_were_sent() {
        let (one, other) = Channel::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let sender = std::thread::spawn(move || {
            one.send(&"first").unwrap();
            one.send_with(&vec![7_u8; 1 << 20], Some(writer.as_fd())).unwrap();
            one.send(&Some(-1_i32)).unwrap();
        });
        let (first, none): (String, _) = other.receive().unwrap();
        assert!(first == "first" && none.is_none());
        let (second, descriptor): (Vec<u8>, _) = other.receive().unwrap();
        assert!(second == [7; 1 << 20]);
        sender.join().unwrap();
        std::fs::File::from(descriptor.unwrap()).write_all(b"x").unwrap();
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 1);
        assert_eq!(other.receive::<Option<i32>>().unwrap().0, Some(-1));
        let error = other.receive::<String>().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        let (one, other) = UnixStream::pair().unwrap();
        (&one).write_all(&u32::MAX.to_le_bytes()).unwrap();
        assert!(Channel::new(other).receive::<String>().is_err());
        let (one, other) = UnixStream::pair().unwrap();
        (&one).write_all(&[2, 0, 0, 0, 200, 200]).unwrap();
        drop(one);
        assert!(Channel::new(other).receive::<String>().is_err());
        let (one, other) = UnixStream::pair().unwrap();
        (&one).write_all(&[2, 0, 0, 0, 0, 0]).unwrap();
        assert!(Channel::new(other).receive::<String>().is_err(), "more than an empty text");
    }
}
