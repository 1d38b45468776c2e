//! The socket at which `swanctl` and the libraries of VICI speak to a tunnel: `charon`'s, so that they find it.
//!
//! The process that has the socket answers `version`, `stats`, `list-sas`, `get-conns`, `initiate`, `terminate` and `rekey`. What changes a
//! configuration is refused with the way out: it is the file's, and SIGHUP reads the file.
//!
//! Each tunnel has a socket of its own, too, by the label of its file: `adit block` speaks to that one.

mod client;
mod commands;
mod names;
mod sas;
mod view;

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use adit_core::Severity;
use adit_host::log::Logger;
use adit_host::sockets::{ListeningSocket, Server};
use adit_ike_vici::{Message, Packet, Reader};
use zeroize::Zeroizing;

use crate::blocked::label;

pub(crate) use self::client::tell_blocked;
pub(crate) use self::view::{Named, View};

/// The path of `charon`'s socket, where `swanctl` looks (swanctl(8), `--uri`).
const PATH: &str = "/var/run/charon.vici";
/// The directory of the sockets of single tunnels, beside those of `adit status`.
const DIRECTORY: &str = "/run/adit";
/// The time in which a program must take an answer.
const SEND_TIME: Duration = Duration::from_secs(5);
/// The time in which the socket of a process that ends may go.
const LEAVING: Duration = Duration::from_secs(2);
/// How much is read at once.
const BUFFER: usize = 16 << 10;
/// The events that programs may register for: IKE SAs, which `list-sas` sends, and lines of the log, which `swanctl --initiate` and
/// `--terminate` insist on. There are no such lines: they are in the log.
const EVENTS: [&str; 2] = ["list-sa", "control-log"];

/// Begins to listen. `None`, with a line in the log: the socket cannot be had. A tunnel that `swanctl` cannot see is still a tunnel.
pub(crate) fn bind(log: &mut Logger) -> Option<ListeningSocket> {
    let bound = ListeningSocket::bind(Path::new(PATH), Duration::ZERO);
    bound.inspect_err(|error| no_socket(log, error)).ok()
}

/// Begins to listen for orders to the tunnel of that file. `None`, with a line in the log: the socket cannot be had.
pub(crate) fn bind_own(file: &Path, log: &mut Logger) -> Option<ListeningSocket> {
    let path = own_path(file);
    let bound = std::fs::create_dir_all(DIRECTORY).and_then(|()| ListeningSocket::bind(&path, LEAVING));
    let tell = |error: &io::Error| {
        let text = format_args!("`adit block` will not reach this tunnel: {}: {error}", path.display());
        log.log(Severity::Error, text);
    };
    bound.inspect_err(tell).ok()
}

fn own_path(file: &Path) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{}.vici", label(file)))
}

/// Serves a socket until the result is dropped.
pub(crate) fn serve(socket: ListeningSocket, view: View, mut log: Logger) -> Option<Server> {
    let mut speaking = log.clone();
    let served = Server::start(socket, "adit-vici", move |stream: &UnixStream| {
        // The other end may have gone: nothing to do about it.
        let _ = converse(stream, &view, &mut speaking);
    });
    served.inspect_err(|error| no_socket(&mut log, error)).ok()
}

fn no_socket(log: &mut Logger, error: &io::Error) {
    let text = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("`swanctl` speaks to another tunnel or program, which has {PATH}")
        }
        _ => format!("`swanctl` will not see this tunnel: {PATH}: {error}"),
    };
    log.log(Severity::Info, text);
}

/// Answers one packet after the other.
fn converse(mut stream: &UnixStream, view: &View, log: &mut Logger) -> io::Result<()> {
    stream.set_write_timeout(Some(SEND_TIME))?;
    let mut reader = Reader::default();
    let mut registered = BTreeSet::new();
    let mut buffer = Zeroizing::new(vec![0; BUFFER]);
    loop {
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        reader.push(buffer.get(..len).unwrap_or_default());
        loop {
            match reader.next_packet() {
                Ok(Some(packet)) => answer(stream, packet, &mut registered, view)?,
                Ok(None) => break,
                Err(error) => {
                    log.log(Severity::Error, format_args!("{PATH}: a connection is closed: {error}"));
                    return Ok(());
                }
            }
        }
    }
}

fn answer(
    stream: &UnixStream,
    packet: Packet,
    registered: &mut BTreeSet<String>,
    view: &View,
) -> io::Result<()> {
    let confirm = |is_known: bool| if is_known { Packet::Confirm } else { Packet::UnknownEvent };
    match packet {
        Packet::Register(name) => {
            let is_known = EVENTS.contains(&name.as_str());
            if is_known {
                registered.insert(name);
            }
            send(stream, &confirm(is_known))
        }
        Packet::Unregister(name) => send(stream, &confirm(registered.remove(&name))),
        Packet::Request { name, message } => {
            let Some(answer) = commands::run(&name, &message, view) else {
                return send(stream, &Packet::UnknownCommand);
            };
            for (name, message) in answer.events.into_iter().filter(|(name, _)| registered.contains(*name)) {
                send(stream, &Packet::Event { name: name.to_owned(), message })?;
            }
            send(stream, &Packet::Response(answer.response))
        }
        // A server's own.
        Packet::Response(_)
        | Packet::UnknownCommand
        | Packet::Confirm
        | Packet::UnknownEvent
        | Packet::Event { .. } => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn send(mut stream: &UnixStream, packet: &Packet) -> io::Result<()> {
    let bytes = packet.encode().map_err(io::Error::other)?;
    stream.write_all(&bytes)
}

/// The outcome of a command as strongSwan has it: `success`, and `errmsg` if there was none.
fn outcome(result: Result<Message, String>) -> Message {
    match result {
        Ok(values) => values.with("success", "yes"),
        Err(error) => Message::new().with("success", "no").with("errmsg", error),
    }
}
