//! The socket at which `swanctl` and the libraries of VICI speak to a tunnel: `charon`'s, so that they find it.
//!
//! A program lists, brings up, rekeys and deletes SAs, hears of them by events, and loads connections and credentials beside those of the
//! file: [`commands`] has the table.
//!
//! Each tunnel has a socket of its own, too, by the label of its file: `adit block` speaks to that one.

mod caller;
mod client;
mod commands;
mod connection;
mod control;
mod events;
mod hub;
mod load;
mod look;
mod names;
mod numbers;
mod query;
mod sas;
mod sas_list;
mod text;
mod view;

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use adit_core::Severity;
use adit_guard::Account;
use adit_host::log::Logger;
use adit_host::sockets::{ListeningSocket, Server};
use adit_ike_config::ViciSettings;
use adit_ike_vici::{Packet, Reader};
use zeroize::Zeroizing;

use crate::blocked::label;

use self::caller::Caller;
pub(crate) use self::client::tell_blocked;
use self::events::Live;
pub(crate) use self::hub::Hub;
pub(crate) use self::view::{Configured, View};

/// The path of `charon`'s socket, where `swanctl` looks (swanctl(8), `--uri`).
pub(crate) const PATH: &str = "/var/run/charon.vici";
/// The path of the socket where a sandbox leaves no other directory (packaging/systemd/adit@.service). Packages have a link from [`PATH`]
/// to it (packaging/tmpfiles.d/adit.conf).
const WITHIN_OWN: &str = "/run/adit/charon.vici";
/// The directory of the sockets of single tunnels, beside those of `adit status`.
const DIRECTORY: &str = "/run/adit";
/// The time in which a program must take an answer.
const SEND_TIME: Duration = Duration::from_secs(5);
/// The time in which the socket of a process that ends may go.
const LEAVING: Duration = Duration::from_secs(2);
/// How much is read at once.
const BUFFER: usize = 16 << 10;
/// The time after a command in which another one may follow, before secrets and certificates that were loaded hold.
const SETTLE_TIME: Duration = Duration::from_millis(300);
/// The events that commands send.
const OF_COMMANDS: [&str; 6] =
    ["list-sa", "list-policy", "list-conn", "list-cert", "list-authority", "control-log"];

/// Begins to listen. `None`, with a line in the log: the socket cannot be had. A tunnel that `swanctl` cannot see is still a tunnel.
pub(crate) fn bind(settings: &ViciSettings, log: &mut Logger) -> Option<ListeningSocket> {
    let bound = match &settings.socket {
        Some(path) => listen(path),
        None => bind_usual(log),
    };
    let path = settings.socket.as_deref().unwrap_or(PATH);
    let socket = bound.inspect_err(|error| no_socket(path, log, error)).ok()?;
    if let Some(group) = &settings.group
        && let Err(why) = admit(group, socket.file().path())
    {
        let text = format_args!("{path} is for root alone, and not for the group {group}: {why}");
        log.log(Severity::Warning, text);
    }
    Some(socket)
}

fn listen(path: &str) -> io::Result<ListeningSocket> {
    ListeningSocket::bind(Path::new(path), Duration::ZERO)
}

/// Listens where `swanctl` looks, or beside the other sockets where no other directory can be written.
fn bind_usual(log: &mut Logger) -> io::Result<ListeningSocket> {
    // A link that leads nowhere is in the way of a socket.
    if fs::symlink_metadata(PATH).is_ok_and(|metadata| metadata.is_symlink()) {
        return listen(WITHIN_OWN);
    }
    match listen(PATH) {
        Err(error) if is_closed(&error) => listen(WITHIN_OWN).inspect(|_| {
            let text =
                format_args!("{PATH}: {error}: `swanctl --uri unix://{WITHIN_OWN}` speaks to this tunnel");
            log.log(Severity::Info, text);
        }),
        bound => bound,
    }
}

/// Lets a group speak at a socket, which was made for root alone.
fn admit(group: &str, socket: &Path) -> Result<(), String> {
    let account = Account::find(None, Some(group)).map_err(|error| error.to_string())?;
    let id = account.and_then(|account| account.group_id());
    let set =
        lchown(socket, None, id).and_then(|()| fs::set_permissions(socket, Permissions::from_mode(0o660)));
    set.map_err(|error| error.to_string())
}

/// Whether a directory is one that this process may not write.
fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied)
}

/// Begins to listen for orders to the tunnel of that file. `None`, with a line in the log: the socket cannot be had.
pub(crate) fn bind_own(file: &Path, log: &mut Logger) -> Option<ListeningSocket> {
    let path = own_path(file);
    let bound = fs::create_dir_all(DIRECTORY).and_then(|()| ListeningSocket::bind(&path, LEAVING));
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
    served.inspect_err(|error| no_socket(PATH, &mut log, error)).ok()
}

fn no_socket(path: &str, log: &mut Logger, error: &io::Error) {
    let text = match error.kind() {
        ErrorKind::AddrInUse => {
            format!("`swanctl` speaks to another tunnel or program, which has {path}")
        }
        _ => format!("`swanctl` will not see this tunnel: {path}: {error}"),
    };
    log.log(Severity::Info, text);
}

/// Answers one packet after the other.
fn converse(mut stream: &UnixStream, view: &View, log: &mut Logger) -> io::Result<()> {
    stream.set_write_timeout(Some(SEND_TIME))?;
    let mut speaking = Speaking { view, caller: Caller::of(stream)?, live: None };
    let mut reader = Reader::default();
    let mut buffer = Zeroizing::new(vec![0; BUFFER]);
    loop {
        // Secrets and certificates that were loaded last hold when nothing follows them.
        stream.set_read_timeout(Some(SETTLE_TIME))?;
        let len = match stream.read(&mut buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                view.configured.settle();
                stream.set_read_timeout(None)?;
                stream.read(&mut buffer)?
            }
            read => read?,
        };
        if len == 0 {
            view.configured.settle();
            return Ok(());
        }
        reader.push(buffer.get(..len).unwrap_or_default());
        loop {
            match reader.next_packet() {
                Ok(Some(packet)) => speaking.answer(packet)?,
                Ok(None) => break,
                Err(error) => {
                    log.log(Severity::Error, format_args!("{PATH}: a connection is closed: {error}"));
                    return Ok(());
                }
            }
        }
    }
}

/// A conversation with a program.
struct Speaking<'a> {
    view: &'a View,
    caller: Caller,
    /// Sends the events that come by themselves, once the program has registered for one.
    live: Option<Live>,
}

impl Speaking<'_> {
    fn answer(&mut self, packet: Packet) -> io::Result<()> {
        match packet {
            Packet::Register(name) => self.register(name),
            Packet::Unregister(name) => {
                let is_known = self.caller.registered().remove(&name);
                self.caller.send(if is_known { &Packet::Confirm } else { &Packet::UnknownEvent })
            }
            Packet::Request { name, message } => {
                match commands::run(&name, &message, self.view, &self.caller)? {
                    Some(answer) => self.caller.send(&Packet::Response(answer)),
                    None => self.caller.send(&Packet::UnknownCommand),
                }
            }
            // A server's own.
            Packet::Response(_)
            | Packet::UnknownCommand
            | Packet::Confirm
            | Packet::UnknownEvent
            | Packet::Event { .. } => Err(ErrorKind::InvalidData.into()),
        }
    }

    fn register(&mut self, name: String) -> io::Result<()> {
        let is_live = events::LIVE.contains(&name.as_str());
        if !is_live && !OF_COMMANDS.contains(&name.as_str()) {
            return self.caller.send(&Packet::UnknownEvent);
        }
        if is_live && self.live.is_none() {
            self.live = Some(events::start(self.view, &self.caller)?);
        }
        self.caller.registered().insert(name);
        self.caller.send(&Packet::Confirm)
    }
}
