//! The exchange of messages with the kernel.

use std::io;
use std::time::Duration;

use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::attributes::find;
use super::{Family, Table};

/// The kernel answers at once; this is against waiting for ever should it not.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The subsystem of nftables in a message's kind (linux/netfilter/nfnetlink.h `NFNL_SUBSYS_NFTABLES`).
pub(super) const NFTABLES: u16 = 10 << 8;
const GET_TABLE: u16 = NFTABLES | 1;
/// `NLM_F_REQUEST`, `NLM_F_DUMP`.
const REQUEST: u16 = 0x1;
const DUMP: u16 = 0x300;
/// `NLMSG_ERROR`, `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// The length of `struct nlmsghdr`, and of it with `struct nfgenmsg`.
const HEADER: usize = 16;
const WITH_FAMILY: usize = 20;

/// A message: `struct nlmsghdr`, `struct nfgenmsg`, attributes.
pub(super) fn message(kind: u16, flags: u16, family: u8, attributes: &[u8]) -> Vec<u8> {
    // The messages that begin and end a transaction name the subsystem.
    let resource = if kind < NFTABLES { NFTABLES >> 8 } else { 0 };
    let mut bytes = (WITH_FAMILY as u32 + attributes.len() as u32).to_ne_bytes().to_vec();
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&(REQUEST | flags).to_ne_bytes());
    // Sequence number and port: there is one question at a time.
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&[family, 0]);
    bytes.extend_from_slice(&resource.to_be_bytes());
    bytes.extend_from_slice(attributes);
    bytes
}

fn open() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(TIMEOUT))?;
    Ok(socket)
}

/// Sends messages, and waits for that many answers.
///
/// # Errors
/// The first error among the answers.
pub(super) fn send(messages: &[u8], mut answers: usize) -> io::Result<()> {
    let socket = open()?;
    socket.send(messages, 0)?;
    while answers > 0 {
        let (received, _) = socket.recv_from_full()?;
        for answer in split(&received) {
            result(answer)?;
            answers = answers.saturating_sub(1);
        }
    }
    Ok(())
}

/// All tables of the network namespace.
///
/// # Errors
/// When the kernel has no nftables, or this process lacks the right (`CAP_NET_ADMIN`).
pub fn tables() -> io::Result<Vec<Table>> {
    let socket = open()?;
    socket.send(&message(GET_TABLE, DUMP, 0, &[]), 0)?;
    let mut tables = Vec::new();
    loop {
        let (received, _) = socket.recv_from_full()?;
        for answer in split(&received) {
            match kind(answer) {
                Some(DONE) => return Ok(tables),
                Some(ERROR) => result(answer)?,
                _ => tables.extend(table(answer)),
            }
        }
    }
}

/// The table of an answer, if it is of a family that [`Family`] has.
fn table(answer: &[u8]) -> Option<Table> {
    let family = Family::of_number(*answer.get(HEADER)?)?;
    let name = find(answer.get(WITH_FAMILY..)?, 1)?;
    let name = name.split(|byte| *byte == 0).next()?;
    Some(Table { family, name: String::from_utf8_lossy(name).into_owned() })
}

/// The messages of a buffer.
fn split(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
        let message = rest.get(..length.max(HEADER))?;
        rest = rest.get(message.len().next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

fn kind(message: &[u8]) -> Option<u16> {
    message.get(4..6)?.try_into().ok().map(u16::from_ne_bytes)
}

/// The error of `struct nlmsgerr`: a negative number, or 0 for success.
fn result(answer: &[u8]) -> io::Result<()> {
    let code =
        answer.get(HEADER..WITH_FAMILY).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match (kind(answer), code) {
        (Some(ERROR), Some(code)) if code != 0 => Err(io::Error::from_raw_os_error(-code)),
        _ => Ok(()),
    }
}
