//! Datagrams sent: one message, or many by one `sendmmsg`, each cut by the kernel if it is to be (UDP_SEGMENT).

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use adit_dataplane::OuterHeader;
use socket2::SockAddr;

use super::control_buffer::{CONTROL_SIZE, ControlBuffer};
use super::{LocalAddress, outer_header};

/// A datagram to send, or equal datagrams in a row that the kernel shall cut (UDP_SEGMENT).
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The bytes of all of them.
    pub bytes: &'a [u8],
    /// Where to, in the socket's own address family.
    pub to: SocketAddr,
    /// Bytes of each datagram, the last may be shorter; `None` sends one datagram.
    pub segment: Option<u16>,
    /// The traffic class and hop limit of the IP header around each.
    pub outer: OuterHeader,
}

impl Message<'_> {
    /// An empty message without an address: the initial value of array elements.
    pub const NONE: Message<'static> = Message {
        bytes: &[],
        to: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
        segment: None,
        outer: OuterHeader { traffic_class: 0, hop_limit: 0 },
    };
}

/// Datagrams that the kernel cuts a message into at most (linux/udp.h `UDP_MAX_SEGMENTS`; later kernels allow more).
pub const MOST_SEGMENTS: usize = 64;

/// Messages that one call of [`send_many`] takes at most.
pub const SEND_BATCH: usize = 64;

const SEND_FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// The parts of a message that a `msghdr` points to.
struct Parts {
    name: SockAddr,
    piece: libc::iovec,
    control: ControlBuffer,
}

impl Parts {
    fn of(message: &Message<'_>) -> Parts {
        let bytes = message.bytes;
        Parts {
            name: message.to.into(),
            piece: libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() },
            control: ControlBuffer([0; CONTROL_SIZE]),
        }
    }

    /// A header that points into these parts, which must stay where they are while it is used.
    fn header(&mut self, message: &Message<'_>, source: Option<LocalAddress>) -> libc::msghdr {
        // SAFETY: all-zero is a valid `msghdr` (null pointers and zero lengths).
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_name = self.name.as_ptr().cast_mut().cast();
        header.msg_namelen = self.name.len();
        header.msg_iov = &mut self.piece;
        header.msg_iovlen = 1;
        let mut used = 0;
        if let Some(size) = message.segment {
            used = self.control.push(used, libc::SOL_UDP, libc::UDP_SEGMENT, size);
        }
        if let Some(source) = source {
            used = source.put(&mut self.control, used);
        }
        if message.outer != OuterHeader::default() {
            used = outer_header::put(message.outer, &message.to, &mut self.control, used);
        }
        if used > 0 {
            header.msg_control = self.control.0.as_mut_ptr().cast();
            header.msg_controllen = used as _;
        }
        header
    }
}

/// One `sendmsg` without waiting, from that local address or, without one, from that which the system chooses.
pub fn send(socket: BorrowedFd<'_>, message: &Message<'_>, source: Option<LocalAddress>) -> io::Result<()> {
    let mut parts = Parts::of(message);
    let header = parts.header(message, source);
    // SAFETY: name, iov and control point into `parts` and `message`, which outlive the call; the kernel
    // only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &header, SEND_FLAGS) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// One `sendmsg` without waiting as [`send`], with `header` before each of the message's datagrams. Of more than [`MOST_SEGMENTS`]
/// datagrams those beyond are not sent.
pub fn send_with_header(
    socket: BorrowedFd<'_>,
    header: &[u8],
    message: &Message<'_>,
    source: Option<LocalAddress>,
) -> io::Result<()> {
    let piece =
        |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut pieces = [const { libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 } }; 2 * MOST_SEGMENTS];
    let mut count = 0;
    let segment = message.segment.map_or(message.bytes.len(), usize::from).max(1);
    for (place, datagram) in pieces.chunks_exact_mut(2).zip(message.bytes.chunks(segment)) {
        place.copy_from_slice(&[piece(header), piece(datagram)]);
        count += 2;
    }
    let cut = message.segment.and_then(|size| size.checked_add(u16::try_from(header.len()).ok()?));
    let mut parts = Parts::of(message);
    let mut whole = parts.header(&Message { segment: cut, ..*message }, source);
    whole.msg_iov = pieces.as_mut_ptr();
    whole.msg_iovlen = count;
    // SAFETY: name and control point into `parts`, iov to the first `count` of `pieces`, and these into `header` and `message`;
    // all outlive the call, and the kernel only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &whole, SEND_FLAGS) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// One `sendmmsg` without waiting, of up to [`SEND_BATCH`] messages in order, all from the same address as with [`send`].
/// Gives how many were taken; an error means that the first was not.
pub fn send_many(
    socket: BorrowedFd<'_>,
    messages: &[Message<'_>],
    source: Option<LocalAddress>,
) -> io::Result<usize> {
    let mut all_parts = [const { MaybeUninit::<Parts>::uninit() }; SEND_BATCH];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; SEND_BATCH];
    let mut count: libc::c_uint = 0;
    for ((message, parts), header) in messages.iter().zip(&mut all_parts).zip(&mut headers) {
        let msg_hdr = parts.write(Parts::of(message)).header(message, source);
        header.write(libc::mmsghdr { msg_hdr, msg_len: 0 });
        count += 1;
    }
    // SAFETY: the first `count` headers were written; their pointers lead into `all_parts` and `messages`,
    // which are not moved and outlive the call. The kernel writes `msg_len` alone.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr().cast(), count, SEND_FLAGS) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}
